"""The frozen base model of a run: where it is, and how it is loaded."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from selfplay.errors import ConfigError
from selfplay.nano.architecture import WEIGHTS


def base_directory(base: str) -> str:
    """Return where the base model is loaded from: the package itself for `nano`."""
    if base != "nano":
        return base
    if not (WEIGHTS / "model.safetensors").exists():
        raise ConfigError(
            f"the nano model is missing from {WEIGHTS}; reinstall populab-selfplay, or make it "
            "with `selfplay nano pretrain`"
        )
    return str(WEIGHTS)


def load_base(base: str, dtype: str) -> tuple[Any, Any]:
    """Return the causal language model in this number type, and its tokenizer."""
    path = base_directory(base)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype))
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(f"cannot load the base model {base!r}: {first}") from error
    return model, tokenizer
