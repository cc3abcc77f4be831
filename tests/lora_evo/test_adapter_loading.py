"""Adapters and models that must be refused, each with one clear line."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM

from lora_evo import Adapter, LoraEvoError, Slot, load_adapter, merge, save_adapter
from lora_evo.model import Request, open_engine
from lora_evo.model.base import load_base_model, public_name, same_base


def refused(model, **adapters):
    with pytest.raises(LoraEvoError) as caught:
        open_engine("hf", str(model), adapters, device="cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"hidden": 48}, "map 96 to 48 features, tiny has 64 to 32"),
        ({"layers": 3}, "tiny has no linear module model.layers.2."),
        ({"layers": 1}, "6 of tiny; they differ in model.layers.1."),
        ({"base": "Qwen/Qwen2.5-7B"}, "base model 'Qwen/Qwen2.5-7B', not of 'tiny'"),
    ],
)
def test_an_adapter_of_another_base_is_refused(
    model_folder, make_saved_adapter, tmp_path, shape, message
):
    assert message in refused(model_folder, a=make_saved_adapter(tmp_path / "odd", 3, **shape))


def test_a_foreign_name_can_be_accepted_but_not_foreign_shapes(
    model_folder, make_saved_adapter, tmp_path
):
    named = make_saved_adapter(tmp_path / "named", 3, base="other")
    engine = open_engine("hf", str(model_folder), {"a": named}, device="cpu", any_base=True)
    assert set(engine.versions) == {"a"}
    wide = make_saved_adapter(tmp_path / "wide", 3, hidden=48, base="other")
    with pytest.raises(LoraEvoError, match="48"):
        open_engine("hf", str(model_folder), {"a": named, "b": wide}, device="cpu", any_base=True)


def test_an_adapter_that_changes_nothing_is_refused_unless_it_is_0(
    model_folder, make_saved_adapter, tmp_path
):
    folder = make_saved_adapter(tmp_path / "zero", 3)
    adapter = load_adapter(folder)
    nothing = {p: Slot(s.A, torch.zeros_like(s.B), s.scale) for p, s in adapter.slots.items()}
    save_adapter(Adapter(adapter.config, nothing), folder, overwrite=True)
    engine = open_engine("hf", str(model_folder), {"a": folder}, device="cpu")
    base, zero = engine.generate([Request("x", name, 16) for name in (None, "a")])
    assert base.completion_ids == zero.completion_ids
    tiny = {p: Slot(s.A, torch.full_like(s.B, 1e-30), s.scale) for p, s in adapter.slots.items()}
    save_adapter(Adapter(adapter.config, tiny), folder, overwrite=True)
    assert "does not change" in refused(model_folder, a=folder)


def test_a_smaller_adapter_is_put_and_a_larger_one_refused(
    model_folder, make_saved_adapter, tmp_path
):
    adapter = load_adapter(make_saved_adapter(tmp_path / "a", 1))
    part = {path: slot for path, slot in adapter.slots.items() if "q_proj" in path}
    small = merge([Adapter(replace(adapter.config, target_modules=("q_proj",)), part)], rank=2)
    save_adapter(small, tmp_path / "b")
    asked = [Request("x", "m", 16)]
    one, two = (
        open_engine("hf", str(model_folder), {"m": tmp_path / name}, device="cpu") for name in "ab"
    )
    before = one.generate(asked)[0].logprobs
    one.put_adapter("m", 1, small)
    found, wanted = (engine.generate(asked)[0] for engine in (one, two))
    assert found.completion_ids == wanted.completion_ids
    assert found.logprobs == pytest.approx(wanted.logprobs, abs=1e-4)
    one.put_adapter("m", 2, adapter)
    assert one.generate(asked)[0].logprobs == before
    with pytest.raises(LoraEvoError, match="another rank or another base model"):
        one.put_adapter("m", 3, merge([adapter], rank=6))
    with pytest.raises(LoraEvoError, match="they differ in"):
        two.put_adapter("m", 3, adapter)


def test_adapters_of_other_ranks_and_modules_share_a_model(
    model_folder, make_saved_adapter, tmp_path
):
    pytest.importorskip("peft")
    from in_peft import trained

    settings = {"r": 7, "lora_alpha": 3, "use_rslora": True, "target_modules": ["o_proj", "v_proj"]}
    model = AutoModelForCausalLM.from_pretrained(model_folder)
    trained(model, tmp_path / "wide", 5, settings)
    folders = {"wide": tmp_path / "wide", "narrow": make_saved_adapter(tmp_path / "narrow", 3)}
    both = open_engine("hf", str(model_folder), folders, device="cpu")
    assert str(both.identity("wide")["adapter_hash"]).startswith("sha256:")
    for name, folder in folders.items():
        alone = open_engine("hf", str(model_folder), {name: folder}, device="cpu")
        asked = [Request("x", name, 16)]
        assert both.generate(asked)[0].completion_ids == alone.generate(asked)[0].completion_ids


def test_models_that_cannot_be_loaded(model_folder, tmp_path):
    assert "no folder" in refused(tmp_path / "absent")
    assert "config.json" in refused(tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in model_folder.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    data = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(data[:-100])
    assert "cannot load the model" in refused(broken)
    for file in broken.glob("tokenizer*"):
        file.unlink()
    config = json.loads((broken / "config.json").read_text())
    for kind in ("qwen2", "llama", "gemma"):  # made up empty; none; all <unk>
        (broken / "config.json").write_text(json.dumps(config | {"model_type": kind}))
        said = refused(broken)
        assert "has no tokenizer that works; copy tokenizer.json" in said
        assert said.endswith(")")  # of the whole reason
        if kind == "llama":
            assert "(3) an equivalent slow tokenizer class" in said
    with pytest.raises(LoraEvoError, match="device is 'tpux'; expected auto, cpu or cuda"):
        open_engine("hf", str(model_folder), device="tpux")


def test_names_of_one_base_model():
    assert public_name("/c/models--Qwen--Qwen2.5-7B/snapshots/abc") == "Qwen/Qwen2.5-7B"
    assert same_base("/models/Qwen2.5-7B/", "Qwen/Qwen2.5-7B")
    assert not same_base("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-Coder-7B")


@pytest.fixture
def silent_hub(tmp_path, monkeypatch):
    """A hub where nobody answers, and an empty cache of it."""
    url = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", url)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))


@pytest.mark.usefixtures("silent_hub")
def test_without_the_hub_a_cached_model_opens_and_another_is_refused(model_folder, tmp_path):
    home = tmp_path / "models--me--cached"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("0" * 40)
    shutil.copytree(model_folder, home / "snapshots" / ("0" * 40))
    assert load_base_model("me/cached", torch.device("cpu")).name == "me/cached"
    words = "is not in the hub's cache, and the hub cannot be reached.*type OWNER/MODEL"
    with pytest.raises(LoraEvoError, match=words):
        load_base_model("me/none", torch.device("cpu"))
