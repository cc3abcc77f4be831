"""Adapters of PEFT's own, none of whose factors is 0, and models with an adapter as PEFT loads it.

A module that imports this is skipped without PEFT.
"""

import copy
import warnings

import pytest
import torch
from safetensors.torch import load_file

peft = pytest.importorskip("peft")


def quietly(function, *arguments):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore")  # that a pattern fits no module: it fits a parameter
        warnings.filterwarnings("error", "Found missing adapter keys")
        return function(*arguments)


@torch.no_grad()
def tuned(model, seed=5, **settings):
    """A PEFT model on a copy of a model."""
    config = peft.LoraConfig(**{"r": 2, "lora_alpha": 4, **settings})
    made = quietly(peft.get_peft_model, copy.deepcopy(model), config)
    noise = torch.Generator().manual_seed(seed)
    for name, factor in made.named_parameters():
        if "lora_" in name:
            factor.copy_(0.2 * torch.randn(factor.shape, generator=noise))
    return made.eval()


def trained(model, folder, seed, settings):
    """Save an adapter for a model."""
    tuned(model, seed, task_type="CAUSAL_LM", **settings).save_pretrained(folder)


def loaded(model, folder):
    """A PEFT model on a copy of a model, with an adapter of which it takes every tensor."""
    made = quietly(peft.PeftModel.from_pretrained, copy.deepcopy(model), folder).eval()
    taken = peft.get_peft_model_state_dict(made)
    assert len(taken) == len(load_file(folder / "adapter_model.safetensors"))
    return made


@torch.no_grad()
def logits(model):
    return model(input_ids=torch.arange(3, 15)[None], use_cache=False).logits
