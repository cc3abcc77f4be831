"""Random models of two or three layers, one for each family that adapters are put on."""

import torch
from small_models import small_model
from transformers import AutoConfig

from lora_evo.model import stream
from lora_evo.model.base import model_class

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
_LINEAR = {"layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4}
_LINEAR |= {"linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16}
_SSM = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_SHARED = {"shared_expert_intermediate_size": 16}
_ROUTED = {"n_routed_experts": 4, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}
_ROUTED |= {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LATENT = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8}
_LATENT |= {"v_head_dim": 8, "head_dim": 8, "num_key_value_heads": 2}
_CONV = {"layer_types": ["conv", "full_attention"]}
_ROPE = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 16}
_ROPE |= {"short_factor": [1 + i / 10 for i in range(8)], "long_factor": [*range(2, 10)]}
_TEXT = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "head_dim": 16}
_TEXT |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
_EYES = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "num_heads": 2}
OTHERS = {
    "bamba": ("in_proj q_proj out_proj up_proj", _SSM | {"attn_layer_indices": [1]}),
    "deepseek_v2": ("kv_b_proj q_b_proj o_proj", _LATENT | _ROUTED),
    "deepseek_v3": ("kv_b_proj q_b_proj o_proj", _LATENT | _ROUTED),
    "falcon_h1": ("q_proj in_proj down_proj", _SSM | {"mamba_d_ssm": 64}),
    "falcon_mamba": ("in_proj x_proj", {"state_size": 8}),
    "gemma3": ("q_proj down_proj", {
        "text_config": _TEXT | FAMILIES["gemma3_text"] | {"final_logit_softcapping": None},
        "vision_config": _EYES | {"num_hidden_layers": 1, "image_size": 28, "patch_size": 14},
        "mm_tokens_per_image": 4,
    }),
    "glm4_moe": ("q_proj o_proj", _ROUTED),
    "gpt_oss": ("q_proj v_proj", {
        "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention"],
    }),
    "granite": ("q_proj up_proj", {}),
    "granitemoehybrid": ("q_proj in_proj output_linear", _SSM | {
        "layer_types": ["mamba", "attention"], "num_local_experts": 4, "num_experts_per_tok": 2,
        "shared_intermediate_size": 32,
    }),
    "jamba": ("q_proj in_proj x_proj", {
        "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "num_experts": 4,
        "mamba_dt_rank": 4, "mamba_d_state": 8,
    }),
    "kimi_linear": ("q_proj kv_b_proj o_proj f_a_proj b_proj", {
        "layer_types": ["linear_attention", "full_attention"], "linear_head_dim": 16,
        "linear_num_heads": 2, "mlp_layer_types": ["dense", "sparse"], "num_local_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    } | _LATENT | {"q_lora_rank": None, "num_key_value_heads": 2}),
    "lfm2": ("q_proj in_proj out_proj w1", _CONV),
    "lfm2, bias": ("q_proj in_proj out_proj w1", _CONV | {"conv_bias": True}),
    "lfm2_moe": ("q_proj in_proj out_proj w1", _CONV | _MOE | {"num_dense_layers": 1}),
    "mamba": ("in_proj x_proj", {"state_size": 8}),
    "mamba2": ("in_proj", {"num_heads": 8, "head_dim": 8, "n_groups": 2, "state_size": 8}),
    "mixtral": ("q_proj v_proj", _MOE | {"sliding_window": None}),
    "nemotron_h": ("q_proj in_proj up_proj", {
        "layers_block_type": ["mamba", "attention", "mlp"], "num_hidden_layers": 3,
        "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 1,
    }),
    "olmo_hybrid": ("q_proj o_proj up_proj", _LINEAR | {"linear_num_value_heads": 2}),
    "olmoe": ("q_proj v_proj", _MOE),
    "opt": ("q_proj fc1 fc2", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "phi3": ("qkv_proj o_proj down_proj", {
        "original_max_position_embeddings": 16, "max_position_embeddings": 64,
        "rope_parameters": _ROPE,
    }),
    "qwen2_5_vl": ("q_proj o_proj up_proj", {
        "text_config": _TEXT | {"rope_parameters": {
            "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}},
        "vision_config": _EYES | {
            "depth": 1, "out_hidden_size": 32, "fullatt_block_indexes": [0]},
    }),
    "qwen2_moe": ("q_proj shared_expert_gate up_proj down_proj", _MOE | _SHARED),
    "qwen3_5_text": ("q_proj in_proj_qkv out_proj up_proj", _LINEAR),
    "qwen3_moe": ("q_proj v_proj", _MOE),
    "qwen3_next": ("q_proj in_proj_qkvz out_proj shared_expert_gate", _LINEAR | _MOE | _SHARED),
    "zamba2": ("q_proj in_proj gate_up_proj", {
        "layers_block_type": ["mamba", "hybrid", "mamba"], "num_hidden_layers": 3,
        "num_mem_blocks": 1, "attention_head_dim": 32, "n_mamba_heads": 4, "mamba_headdim": 16,
        "mamba_d_state": 8, "mamba_ngroups": 1,
    }),
}  # fmt: skip
"""Names of modules to train, and settings, of families that the general decoder reads."""
QUICK = ("deepseek_v3", "lfm2, bias", "mamba", "phi3", "qwen2_5_vl", "qwen2_moe", "qwen3_5_text")
"""One of each kind: latent attention, a bias before a convolution, no attention, two ropes, a tower
for pictures, layers that get flattened tokens, linear attention."""


def other_model(name):
    """A model of a family of `OTHERS`, and the names of its modules to train."""
    targets, changes = OTHERS[name]
    family = name.partition(",")[0]
    if "text_config" in changes:
        config = AutoConfig.for_model(family, **changes)
        with torch.random.fork_rng(devices=[]):
            model = model_class(config).from_config(config).eval()
    else:
        model = small_model(family, **changes)
    for i, (path, p) in enumerate(sorted(model.named_parameters())):
        noise = torch.from_numpy(stream(i).standard_normal(tuple(p.shape))).float()
        if p.ndim > 1:
            p.data.copy_(noise * 0.3)
        elif "A_log" not in path and "dt_bias" not in path:
            p.data.add_(noise * 0.1)
    for part in (model.config, model.config.get_text_config(), model.generation_config):
        part.eos_token_id = VOCABULARY
    return model, targets.split()


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
