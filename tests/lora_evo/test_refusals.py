"""Each way in which a folder is no adapter that can be used, and what is said of it."""

import os
import re

import pytest
import torch
from by_hand import build_adapter, edit_json, edit_weights
from safetensors.torch import save_file

from lora_evo import LoraEvoError, load_adapter, save_adapter, write_child

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
Q = "base_model.model.model.layers.0.self_attn.q_proj"
MERGE, ALONE = "merge_and_unload", "the whole update of the adapter; train a plain LoRA"


def tensors(change):
    return lambda folder: edit_weights(folder, change)


def put(name, value):
    return tensors(lambda held: held.update({name: value}))


def factor(name, *shape, value=1.0, dtype=torch.float32):
    return put(f"{Q}.{name}", torch.full(shape, value, dtype=dtype))


def called(old, new):
    return tensors(lambda held: {name.replace(old, new): t for name, t in held.items()})


def text(name, words):
    return lambda folder: (folder / name).write_bytes(words)


TENSORS = [
    (factor("lora_B.weight", 32, 4, value=float("nan")), "NaN or infinite"),
    (tensors(lambda held: {n: held[n] for n in held if n != f"{Q}.lora_B.weight"}), "half a pair"),
    (factor("lora_A.weight", 3, 24), "those of a linear layer"),
    (factor("lora_A.weight", 4, 24, dtype=torch.int8), "[4, 24] of I8; expected"),
    (factor("lora_C.weight", 1), "unexpected tensor"),
    (factor("lora_magnitude_vector", 3), MERGE),
    (lambda folder: save_file({}, folder / WEIGHTS), "no LoRA tensors"),
]
WRAPPERS = ["_fsdp_wrapped_module._checkpoint_wrapped_module.", "module.", "_orig_mod.module."]
TENSORS += [
    (called("base_model.model.", f"base_model.model.{name}"), "as the model without wrappers")
    for name in WRAPPERS
]
FILES = [
    (text(WEIGHTS, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "lfs pull"),
    (lambda folder: os.truncate(folder / WEIGHTS, 999), "truncated"),
    (lambda folder: torch.save({"a": torch.ones(1)}, folder / WEIGHTS), "a pickle"),
    (lambda folder: (folder / WEIGHTS).rename(folder / "adapter_model.bin"), "save_pretrained"),
    (lambda folder: (folder / CONFIG).unlink(), "has no adapter_config.json"),
    (text(CONFIG, b'{"r": 8,'), "is not JSON"),
    (text(CONFIG, b"[" * 200000), "is not JSON"),
    (text(CONFIG, b"[]"), "holds a list"),
    (text(CONFIG, b"\xff\xfe{}"), "not UTF-8"),
    (text(CONFIG, b'{"r": 8}'), "has no field peft_type and no lora_alpha"),
    (text(CONFIG, b'{"peft_type": "IA3"}'), "peft_type is 'IA3'; only LORA"),
]
SETTINGS = [
    *(({name: value}, MERGE) for name, value in (
        ("use_dora", True), ("lora_bias", True), ("trainable_token_indices", [7]),
    )),
    ({"bias": "all"}, "bias is set"),
    ({"modules_to_save": ["lm_head"]}, "modules_to_save is set"),
    ({"alora_invocation_tokens": [1]}, ALONE),
    ({"r": 0}, "at least 1"),
    ({"r": 8.0}, "whole number"),
    ({"r": 8}, "the configuration says 8"),
    ({"lora_alpha": -1}, "above 0"),
    ({"lora_alpha": 10**400}, "above 0"),
    ({"use_rslora": "false"}, "expected a bool"),
    ({"rank_pattern": {"q_proj": 0}}, "rank_pattern"),
    ({"rank_pattern": {"(": 1}}, "pattern"),
    ({"target_modules": 3}, "target_modules"),
    ({"target_modules": ["q_proj"]}, "which the configuration leaves out"),
    ({"layers_pattern": "layers"}, "without layers_to_transform"),
]  # fmt: skip


def setting(fields):
    return lambda folder: edit_json(folder / CONFIG, fields)


DAMAGES = [*TENSORS, *FILES, *((setting(fields), words) for fields, words in SETTINGS)]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
def test_a_damaged_adapter_is_refused_with_its_place_and_fault(tmp_path, damage, words):
    folder = tmp_path / "p"
    save_adapter(build_adapter(1), folder)
    damage(folder)
    for act in (
        lambda: load_adapter(folder),
        lambda: write_child("svd_structured", [folder], tmp_path / "c", seed=1),
    ):
        with pytest.raises(LoraEvoError, match=re.escape(words)) as caught:
            act()
        assert str(caught.value).startswith(str(folder))
        assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["p"]
