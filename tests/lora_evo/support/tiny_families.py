"""Random models of two layers, one for each family that adapters are put on."""

import pytest
import torch
from small_models import small_model

from lora_evo.model.engine import stream

VOCABULARY = 96
WINDOW = 8
"""Positions that a sliding layer reads; the texts of the tests are longer."""
FAMILIES = {
    "qwen2": {},
    "llama": {},
    "mistral": {"sliding_window": None},
    "mistral, window": {"sliding_window": WINDOW},
    "qwen3": {},
    "gemma": {},
    "gemma2": {"sliding_window": WINDOW, "query_pre_attn_scalar": 16}
    | {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    "gemma3_text": {"sliding_window": WINDOW, "query_pre_attn_scalar": 16}
    | {"layer_types": ["sliding_attention", "full_attention"], "final_logit_softcapping": 3.0},
}
FAST = ("qwen2", "llama", "mistral", "qwen3")
"""Those that the plain decoder reads."""


def tiny_model(family):
    """A model whose logits differ enough to have a clear arg max, in float32."""
    model = small_model(
        family.partition(",")[0],
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        **FAMILIES[family],
    )
    for i, (_, p) in enumerate(sorted(model.named_parameters())):
        noise = torch.from_numpy(stream(i).standard_normal(tuple(p.shape))).float()
        p.data.copy_(noise * 0.3 if p.ndim > 1 else p.data + noise * 0.1)
    # An end token that greedy decoding never draws: every text reaches the length asked for.
    model.config.eos_token_id = model.generation_config.eos_token_id = VOCABULARY
    return model


@pytest.fixture(scope="session", params=FAMILIES)
def family(request):
    return request.param
