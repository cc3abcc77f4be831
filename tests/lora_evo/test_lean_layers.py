"""Norms and gated layers that keep less give what transformers' own give."""

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from lora_evo.model import stack_adapters
from lora_evo.model.lean_layers import patch_llama_modules

SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def hidden_and_slope(model, x):
    x = x.clone().requires_grad_()
    hidden = model.model(inputs_embeds=x, use_cache=False).last_hidden_state
    hidden.float().square().sum().backward()
    return hidden.detach().float(), x.grad.float()


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 0.05)])
@pytest.mark.parametrize("family", [LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config])
def test_values_and_gradients_are_those_of_transformers(family, dtype, error):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(family(**SHAPE), dtype=getattr(torch, dtype)).eval()
    for name, p in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(p, 0.5, 1.5)
    model.requires_grad_(False)
    x = torch.randn(2, 9, 32).to(model.dtype)
    wanted = hidden_and_slope(model, x)
    assert patch_llama_modules(model)
    for found, own in zip(hidden_and_slope(model, x), wanted, strict=True):
        assert float((found - own).norm() / own.norm()) < error
    with torch.no_grad():  # as it samples
        found = model.model(inputs_embeds=x, use_cache=False).last_hidden_state.float()
    assert float((found - wanted[0]).norm() / wanted[0].norm()) < error


def test_a_model_gets_its_own_layers_back():
    model = AutoModelForCausalLM.from_config(Qwen2Config(**SHAPE))
    adapters = stack_adapters(model, ["a"], r=2, lora_alpha=4, seed=0)
    assert len([m for m in model.modules() if "forward" in vars(m)]) == 2 * 3 + 1
    adapters.remove()
    assert not [m for m in model.modules() if "forward" in vars(m)]
