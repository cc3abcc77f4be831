"""Merges of unlike adapters: PEFT loads all that the parents have, or they are refused."""

import pytest
import torch
from in_peft import loaded, logits, peft, trained
from probabilities import ROUNDING
from safetensors.torch import load_file, save_file
from small_models import small_model
from tiny_families import other_model

from lora_evo import write_child

WEIGHTS = "adapter_model.safetensors"
EXPERTS = [f"experts.{name}" for name in ("gate_up_proj", "down_proj")]
PARENTS = {
    "q": {"target_modules": ["q_proj"]},
    "v": {"target_modules": ["v_proj"], "r": 3},
    "text": {"target_modules": r".*language_model.*\.(k|v)_proj"},
    "flagged": {"target_modules": r"(?i).*language_model.*\.O_PROJ"},
    "without": {"target_modules": ["k_proj", "q_proj"], "exclude_modules": r".*vision.*"},
    "some": {"target_modules": ["o_proj"], "layers_to_transform": [1]},
    "all": {"target_modules": "all-linear"},
    "ranks": {"target_modules": ["v_proj", "k_proj"], "rank_pattern": {"v_proj": 1}},
    "experts": {"target_modules": [], "target_parameters": EXPERTS},
    "down": {"target_modules": ["k_proj"], "target_parameters": EXPERTS[1:]},
}
PAIRS = {
    "gemma3": ("q v, v q, q text, text v, q flagged, without v, some v, all q, q all, ranks q"),
    "mixtral": "q v, experts q, q experts, down v, experts down, all experts, some experts",
    "gpt_oss": "experts v, q down",
}
OLD = {
    "model.language_model.": "language_model.model.",
    "model.vision_tower.": "vision_tower.vision_model.",
}
"""Names of transformers 4 by those of 5."""


def saved(model, folder, seed, settings, old=False):
    """An adapter of PEFT's own in a folder; old: as transformers 4 names its modules."""
    trained(model, folder, seed, settings)
    if old:
        tensors = load_file(folder / WEIGHTS)
        for new, name in OLD.items():
            tensors = {key.replace(new, name): tensor for key, tensor in tensors.items()}
        save_file(tensors, folder / WEIGHTS)
    return folder


def put_on(model, *folders):
    """The names of adapted modules and parameters of each in PEFT, and the logits with all."""
    names = []
    for folder in folders:
        tuned = loaded(model, folder)
        names.append({name for name in peft.get_peft_model_state_dict(tuned) if ".lora_A" in name})
        model = tuned.merge_and_unload()
    return names, logits(model)


@pytest.mark.parametrize(
    ("start", "r", "rank"), [("orthogonal", 4, 3), ("mica", 12, 24), ("MiCA", 12, 24)]
)
def test_a_merge_loads_in_peft_at_a_rank_that_its_parents_start_has_not(tmp_path, start, r, rank):
    base, settings = small_model(), {"target_modules": ["v_proj"], "r": r}
    parents = [
        saved(base, tmp_path / name, seed, {**settings, "init_lora_weights": start})
        for seed, name in enumerate("pq")
    ]
    write_child("merge_cat", parents, tmp_path / "child", weights=(1, 1))
    if rank < r:
        write_child("merge_svd", parents, tmp_path / "cut", parameters={"rank": rank})
        put_on(base, tmp_path / "cut")
    _, wanted = put_on(base, *parents)
    assert torch.allclose(put_on(base, tmp_path / "child")[1], wanted, atol=10 * ROUNDING)


@pytest.mark.parametrize(
    ("family", "old", "pairs"),
    [
        ("gemma3", (False, True), PAIRS["gemma3"]),
        ("gemma3", (True, True), "q all"),
        pytest.param("gemma3", (True, True), PAIRS["gemma3"], marks=pytest.mark.slow),
        ("mixtral", (False, False), PAIRS["mixtral"]),
        ("gpt_oss", (False, False), PAIRS["gpt_oss"]),
    ],
)
def test_a_merge_loads_in_peft_with_all_modules_of_its_parents(family, old, pairs, tmp_path):
    base, _ = other_model(family)
    for pair in pairs.split(", "):
        home = tmp_path / pair
        parents = [
            saved(base, home / name, seed, PARENTS[name], older)
            for seed, (name, older) in enumerate(zip(pair.split(), old, strict=True))
        ]
        write_child("merge_cat", parents, home / "child", weights=(1, 1))
        wanted, logits_of_both = put_on(base, *parents)
        (names,), found = put_on(base, home / "child")
        assert len(names) == len(set.union(*wanted)), pair
        assert torch.allclose(found, logits_of_both, atol=10 * ROUNDING), pair
