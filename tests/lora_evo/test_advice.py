"""Adapters as people have them: what PEFT reads is read, and the advice of a refusal works."""

import json
import re

import pytest
import torch
from by_hand import build_adapter, changed, dense, same
from lora_evo_command import call

from lora_evo import Adapter, LoraEvoError, load_adapter, mutate, save_adapter
from lora_evo.model import Request, open_engine

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings("ignore")


def refusal(folder):
    with pytest.raises(LoraEvoError) as caught:
        load_adapter(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def tuned(model, **settings):
    """A PEFT model whose factors are random."""
    made = peft.get_peft_model(model, peft.LoraConfig(**{"r": 2, "lora_alpha": 4, **settings}))
    noise = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, value in made.named_parameters():
            if "lora_" in name:
                value.copy_(0.3 * torch.randn(value.shape, generator=noise))
    return made.eval()


@pytest.fixture
def base(model_folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model_folder)


def same_answer(engine, name, model, model_folder):
    from transformers import AutoTokenizer

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
    path = tmp_path / "p" / "adapter_config.json"
    fields = json.loads(path.read_text()) | settings | {"base_model_name_or_path": None}
    path.write_text(json.dumps(fields))  # `all-linear` is written out by PEFT
    engine = open_engine("hf", str(model_folder), {"a": tmp_path / "p"}, device="cpu")
    assert same_answer(engine, "a", model, model_folder)


@pytest.mark.parametrize("name", ["module", "_mod", "base_model", "lora_A", "my_module"])
@pytest.mark.parametrize("place", ["{}", "layers.0.{}.q", "{}.model.layers.0.q", "{}.{}.q"])
def test_a_model_may_have_modules_of_such_names(tmp_path, name, place):
    path = place.replace("{}", name)
    model = at = torch.nn.Module()
    model.prepare_inputs_for_generation = None
    *homes, last = path.split(".")
    for home in homes:
        at.add_module(home, torch.nn.Module())
        at = getattr(at, home)
    at.add_module(last, torch.nn.Linear(8, 8))
    explicit = "model" in homes and name == "module"  # else as of data parallelism
    made = tuned(model, target_modules=[path if explicit else last], init_lora_weights=False)
    made.save_pretrained(tmp_path / "p")
    adapter = load_adapter(tmp_path / "p")
    assert adapter.paths == (path,)
    assert same(adapter, Adapter.from_peft(made))
    save_adapter(adapter, tmp_path / "again")
    assert load_adapter(tmp_path / "again").paths == (path,)


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


def test_gpt_2_is_mutated_and_its_layers_are_named_to_who_opens_it(model_folder, tmp_path):
    from small_models import small_model
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = small_model("gpt2", n_embd=32, n_head=2, n_layer=2, vocab_size=len(tokenizer))
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    made = tuned(model, target_modules=["c_attn"], fan_in_fan_out=True)
    made.save_pretrained(tmp_path / "p")
    mutate(load_adapter(tmp_path / "p"), "svd_structured", seed=1)
    with pytest.raises(
        LoraEvoError, match=r"c_attn, which is a Conv1D in base; .*merge it in PEFT"
    ):
        open_engine("hf", str(tmp_path / "base"), {"a": tmp_path / "p"}, any_base=True)
    made.merge_and_unload(safe_merge=True).save_pretrained(tmp_path / "merged")
    tokenizer.save_pretrained(tmp_path / "merged")
    engine = open_engine("hf", str(tmp_path / "merged"), device="cpu")
    assert engine.generate([Request("ab", None, 4)])


@pytest.mark.parametrize("size", [1e15, 1e30])
@pytest.mark.parametrize("method", ["ties", "dare_linear", "svd"])
def test_huge_factors_end_in_a_child_or_in_one_line(tmp_path, monkeypatch, size, method):
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        save_adapter(changed(build_adapter(seed), lambda a, b: (a * size, b * size)), f"p{seed}")
    for words in (
        ("inspect", "p1"),
        ("distance", "p1", "p2"),
        ("mutate", "svd_structured", "p1", "--out", "c", "--seed", "1"),
        ("merge", "p1", "p2", "--out", "m", "--method", method, "--json"),
    ):
        refused = words[0] in ("mutate", "merge")
        try:
            call(*words)
        except AssertionError:
            assert refused
            said = call(*words, code=2).stderr
            assert "too large to compute with" in said or "overflow" in said


def test_a_pattern_that_fits_no_module_is_said(tmp_path):
    patterns = {"rank_pattern": {"k_proj": 2}, "alpha_pattern": {"q_prj": 3, "q_proj": 5}}
    save_adapter(build_adapter(1, **patterns), tmp_path / "p")
    said = call("inspect", tmp_path / "p").stderr
    assert "without effect: rank_pattern 'k_proj', alpha_pattern 'q_prj'" in said
