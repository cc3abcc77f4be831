"""Random models of two narrow layers, of any family that transformers knows."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def small_model(family="qwen2", seed=0, leave_out=(), **changes):
    """A model with these settings, the same at every call, in float32.

    leave_out: settings that the family computes itself.
    """
    settings = {
        "vocab_size": 96,
        "hidden_size": 32,
        "intermediate_size": 48,
        "head_dim": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 512,
        "eos_token_id": 1,
        "bos_token_id": None,
        "pad_token_id": 0,
    }
    settings = {name: value for name, value in settings.items() if name not in leave_out}
    config = AutoConfig.for_model(family, **settings | changes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config).eval()
