"""Which families of transformers a run opens: those that docs/training.md lists, and no others."""

import json
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from lora_evo.model.base import BaseModel, quiet
from selfplay import SelfplayError
from selfplay.config import LearnerConfig
from selfplay.learning.learner import Learner
from selfplay.learning.try_out import check_targets, try_out, usable_targets

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
TOKENIZER = SimpleNamespace(eos_token_id=1, decode=lambda ids, **options: "")
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MOST_PARAMETERS = 60_000_000
SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "eos_token_id": 1,
    "bos_token_id": 2,
    "pad_token_id": 0,
}
LATENT = {
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "num_key_value_heads": 4,
    "head_dim": 8,
}
EXPERTS = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1}
OF_FAMILY = {
    "codegen": {"rotary_dim": 8},
    "deepseek_v2": LATENT | EXPERTS,
    "deepseek_v3": LATENT | EXPERTS,
    "glm4_moe_lite": LATENT | EXPERTS,
    "gptj": {"rotary_dim": 8},
    "helium": {"head_dim": 8},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "longcat_flash": LATENT | EXPERTS,
    "minicpm3": LATENT,
    "ministral": {"head_dim": 8},
    "qwen3_5_moe_text": {"num_experts": 8},
    "qwen3_next": {"num_experts": 8},
    "youtu": LATENT,
}
"""Sizes that a family needs beside the common ones to be small."""


def small(family):
    """A random model of two narrow layers. Raises what its family raises at these sizes."""
    config = AutoConfig.for_model(family, **SIZES | OF_FAMILY.get(family, {}))
    with torch.device("meta"):
        count = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    if count > MOST_PARAMETERS:
        raise ValueError(f"{count:,} parameters at the smallest sizes")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).eval()


def opened(model, targets):
    """Open a base as a run does, with adapters on these of its layers."""
    check_targets(BaseModel("small", model, TOKENIZER, None, ""), targets)
    config = replace(LearnerConfig(r=4, lora_alpha=8.0), target_modules=tuple(targets))
    try_out(Learner(model, 0, ["t0", "s0"], config, seed=1, base_model="small"), TOKENIZER)


def verdict(family):
    """`opens`, `attention only`, what the refusal says, or why there is no small model of it."""
    try:
        model, again = small(family), small(family)
    except Exception as error:
        return f"not tried: {type(error).__name__}"
    targets = []
    try:
        check_targets(BaseModel("small", model, TOKENIZER, None, ""), ())
        targets = list(usable_targets(model))
        opened(model, targets)
        return "opens"
    except SelfplayError as error:
        refusal = str(error)
    attention = [name for name in ATTENTION if name in targets]
    try:
        opened(again, attention)
        return "attention only" if attention else refusal
    except SelfplayError:
        return refusal


def verdicts():
    with warnings.catch_warnings(action="ignore"), quiet():
        return {family: verdict(family) for family in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)}


@pytest.mark.slow
def test_the_families_in_the_docs_are_those_that_open():
    """Every other one is refused in one line, or has no small model."""
    found = verdicts()
    text = PAGE.read_text().partition("### Families")[2].partition("\n## ")[0]
    for kind, words in [("opens", "on all"), ("attention only", "on the attention")]:
        (listed,) = re.findall(
            rf"^- open with adapters {words}[^:]*:\s(.*?)(?=^- |^$)", text, re.M | re.S
        )
        assert re.findall(r"`([\w-]+)`", listed) == [f for f, v in found.items() if v == kind]
    assert not [v for v in found.values() if "\n" in v or len(v) > 800]


if __name__ == "__main__":
    json.dump(verdicts(), sys.stdout, indent=1)
