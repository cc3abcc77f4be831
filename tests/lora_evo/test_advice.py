"""Adapters as people have them: what PEFT reads is read, and the advice of a refusal works."""

import re

import pytest
import torch
from by_hand import build_adapter, dense, edit_json, same
from in_peft import peft, tuned
from lora_evo_command import call
from transformers import AutoModelForCausalLM, AutoTokenizer

from lora_evo import LoraEvoError, load_adapter, mutate, save_adapter
from lora_evo.model import Request, open_engine

pytestmark = pytest.mark.filterwarnings("ignore")


def refusal(folder):
    with pytest.raises(LoraEvoError) as caught:
        load_adapter(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def base(model_folder):
    return AutoModelForCausalLM.from_pretrained(model_folder)


def same_answer(engine, name, model, model_folder):
    ids = AutoTokenizer.from_pretrained(model_folder)("ab", return_tensors="pt")
    said = model.generate(**ids, do_sample=False, max_new_tokens=12)
    found = engine.generate([Request("ab", name, 12)])[0].completion_ids
    return found == tuple(said[0, ids["input_ids"].shape[1] :].tolist())


def test_the_child_of_an_order_that_matters_has_its_parents_scale(tmp_path):
    first = {"q_proj": 64, "layers.0.self_attn.q_proj": 8}
    for field in ("alpha_pattern", "rank_pattern"):
        parent = build_adapter(1, r=4, inputs=80, outputs=80, **{field: first})
        save_adapter(parent, tmp_path / field)
        child = mutate(load_adapter(tmp_path / field), "svd_structured", seed=1, strength=0.0)
        save_adapter(child, tmp_path / f"{field} child")
        again = load_adapter(tmp_path / f"{field} child")
        for path, slot in parent.slots.items():
            assert torch.allclose(dense(again.slots[path]), dense(slot), atol=1e-7)


@pytest.mark.parametrize(
    "settings",
    [
        {"exclude_modules": r".*0\.self_attn\.q_proj"},
        {"layers_to_transform": [1], "layers_pattern": "layers"},
        {"target_modules": "all-linear"},
    ],
)
def test_the_engine_takes_what_peft_puts_on_some_modules(model_folder, base, tmp_path, settings):
    model = tuned(base, **{"target_modules": ["q_proj", "v_proj"], **settings})
    model.save_pretrained(tmp_path / "p")
    fields = settings | {"base_model_name_or_path": None}  # `all-linear` is written out by PEFT
    edit_json(tmp_path / "p" / "adapter_config.json", fields)
    engine = open_engine("hf", str(model_folder), {"a": tmp_path / "p"}, device="cpu")
    assert same_answer(engine, "a", model, model_folder)


def test_a_mark_of_byte_order_is_no_part_of_a_configuration(tmp_path):
    save_adapter(build_adapter(1), tmp_path / "p")
    file = tmp_path / "p" / "adapter_config.json"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert same(load_adapter(tmp_path / "p"), build_adapter(1))


def test_a_name_on_the_hub_and_a_folder_of_adapters_say_what_to_name(base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = "hf download NAME --local-dir FOLDER"
    assert told in refusal("me/adapter")
    for words in (("lineage", "me/adapter"), ("inspect", "me/adapter")):
        assert told in call(*words, code=2).stderr
    model = tuned(base, target_modules=["q_proj"])
    model.add_adapter("other", peft.LoraConfig(target_modules=["v_proj"]))
    model.save_pretrained("p", selected_adapters=["other"])
    load_adapter(re.search(r"its adapters: (\S+)", refusal("p"))[1])
