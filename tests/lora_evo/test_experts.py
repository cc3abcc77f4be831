"""PEFT's adapters of experts: a slot for each, and children that PEFT loads as they were made."""

import copy
import shutil

import pytest
import torch
from by_hand import breed, edit_json, same
from in_peft import loaded, logits, quietly, trained
from probabilities import ROUNDING
from safetensors.torch import load_file, save_file
from tiny_families import other_model
from tiny_models import tokenizer_of_bytes

from lora_evo import (
    Adapter,
    AdapterConfig,
    LoraEvoError,
    Slot,
    adapter_hash,
    content_hash,
    load_adapter,
    save_adapter,
    verify,
    write_child,
)
from lora_evo.model import open_engine

BOTH = ["gate_up_proj", "down_proj"]
CASES = {
    "mixtral": {"target_modules": ["q_proj"], "target_parameters": [f"experts.{n}" for n in BOTH]},
    "qwen3_moe": {"target_modules": "all-linear"},
    "deepseek_v3": {"target_modules": ["gate_proj", "up_proj", "down_proj"]},
    "gpt_oss": {"target_modules": ["q_proj"], "target_parameters": BOTH}
    | {"rank_pattern": {"experts.down_proj": 3}, "alpha_pattern": {"down_proj": 5}},
}


def logits_in_peft(model, folder):
    return logits(loaded(model, folder))


@torch.no_grad()
def logits_by_hand(model, folder):
    """Those of the base with every slot's update added to its dense weights."""
    model = copy.deepcopy(model)
    for path, slot in load_adapter(folder).slots.items():
        key, update = path.rpartition("."), slot.scale * slot.B @ slot.A
        if key[2].isdecimal():
            weight = model.get_parameter(key[0])
            weight = weight[int(key[2])] if weight.dim() == 3 else weight
            module = model.get_submodule(key[0].rpartition(".")[0])
            weight.add_(update.T if getattr(module, "is_transposed", False) else update)
        else:
            model.get_submodule(path).weight.add_(update)
    return logits(model)


@pytest.fixture(scope="module", params=CASES)
def parents(request, tmp_path_factory):
    home = tmp_path_factory.mktemp(request.param)
    base, _ = other_model(request.param)
    for seed in (1, 2):
        trained(base, home / f"p{seed}", seed, CASES[request.param])
    return base, [home / "p1", home / "p2"]


def test_every_expert_is_a_slot_and_files_come_back_as_they_were(parents, tmp_path):
    base, (one, _) = parents
    adapter = load_adapter(one)
    assert any(path.endswith("layers.1.mlp.experts.down_proj.3") for path in adapter.paths)
    wanted = logits_in_peft(base, one)
    assert torch.allclose(logits_by_hand(base, one), wanted, atol=ROUNDING)
    assert float((logits(base) - wanted).abs().max()) > 100 * ROUNDING
    save_adapter(adapter, tmp_path / "again")
    before, after = (load_file(f / "adapter_model.safetensors") for f in (one, tmp_path / "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert content_hash(one) == adapter_hash(adapter) == content_hash(tmp_path / "again")


def test_a_live_model_of_peft_takes_them_and_gives_them_back(parents):
    base, (one, _) = parents
    adapter = load_adapter(one)
    tuned = quietly(adapter.to_peft, copy.deepcopy(base)).eval()
    assert torch.allclose(logits(tuned), logits_by_hand(base, one), atol=ROUNDING)
    assert same(Adapter.from_peft(tuned), adapter)


@pytest.mark.parametrize(
    "name", ["svd_structured", "slot_swap", "full_gaussian", "merge_ties", "merge_cat"]
)
def test_children_load_in_peft_with_the_logits_of_their_updates(parents, tmp_path, name):
    base, folders = parents
    child = tmp_path / "child"
    breed(name, folders, child)
    assert torch.allclose(logits_by_hand(base, child), logits_in_peft(base, child), atol=ROUNDING)
    assert verify(child, folders).identical


def test_an_engine_refuses_them_and_names_the_way_out(parents, tmp_path):
    base, (one, _) = parents
    base.save_pretrained(tmp_path / "base")
    tokenizer_of_bytes().save_pretrained(tmp_path / "base")
    with pytest.raises(LoraEvoError, match=r"adapts the experts .*merge_and_unload"):
        open_engine("hf", str(tmp_path / "base"), {"a": one}, device="cpu")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target_parameters": ["experts.gate_up_proj"]}, "factors of 2 parameters, of which .* 1"),
        (
            {"target_parameters": ["experts.gate_up_proj", "experts.w"]},
            "experts.w and others of its module",
        ),
        ({"rank_pattern": {"down_proj": 3}}, r"expected \[3 E, in\]"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, change, words):
    base, _ = other_model("mixtral")
    trained(base, tmp_path / "p", 1, CASES["mixtral"])
    edit_json(tmp_path / "p" / "adapter_config.json", change)
    with pytest.raises(LoraEvoError, match=words):
        load_adapter(tmp_path / "p")


def test_an_adapter_without_some_of_the_experts_is_not_saved(parents, tmp_path):
    adapter = load_adapter(parents[1][0])
    slots = {path: s for path, s in adapter.slots.items() if not path.endswith("down_proj.1")}
    with pytest.raises(LoraEvoError, match=r"some of the experts of .*experts.down_proj"):
        save_adapter(Adapter(adapter.config, slots), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_experts_in_the_layout_of_older_versions_of_peft_are_refused(tmp_path):
    """By the shapes, or, where they do not decide, by the version in the configuration."""
    base, _ = other_model("mixtral")
    trained(base, tmp_path / "now", 1, CASES["mixtral"])
    load_adapter(tmp_path / "now")
    shutil.copytree(tmp_path / "now", tmp_path / "before")
    tensors = load_file(tmp_path / "now" / "adapter_model.safetensors")
    keys = [name for name in tensors if ".experts." in name and "lora_A" in name]
    for name in keys:
        other = name.replace("lora_A", "lora_B")
        tensors[name], tensors[other] = (
            tensors[other].T.contiguous(), tensors[name].T.contiguous(),
        )  # fmt: skip
    assert keys
    save_file(tensors, tmp_path / "before" / "adapter_model.safetensors")
    with pytest.raises(LoraEvoError, match=r"as PEFT up to 0\.18 saves them, the transpose"):
        load_adapter(tmp_path / "before")


def test_experts_of_two_namings_are_not_merged(tmp_path):
    base, _ = other_model("mixtral")
    trained(base, tmp_path / "new", 1, CASES["mixtral"])
    new = load_adapter(tmp_path / "new")
    path = "model.layers.0.block_sparse_moe.experts.0.w1"
    slot = Slot(torch.ones(2, 8), torch.ones(6, 2), 2.0)
    old = Adapter(
        AdapterConfig(r=2, lora_alpha=4, target_modules=("w1",), rest=new.config.rest), {path: slot}
    )
    save_adapter(old, tmp_path / "old")
    with pytest.raises(LoraEvoError, match="parent 1 names experts as transformers 4 does"):
        write_child("merge_svd", [tmp_path / "old", tmp_path / "new"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
