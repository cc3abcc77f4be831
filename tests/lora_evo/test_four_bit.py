"""Bases in bitsandbytes' 4 bits: what engines and the learner say of them is what PEFT says."""

import json
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from small_models import small_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from lora_evo import Lineage, LoraEvoError, load_adapter, read_lineage
from lora_evo.model import BaseModel, load_base_model, open_engine
from lora_evo.model.base import fingerprint
from lora_evo.model.four_bit import dense, in_four_bits, keep_layout
from lora_evo.model.stacked_lora import stack_saved

CPU = torch.device("cpu")
NF4 = "4-bit nf4, double quantization, compute in bfloat16"
with_bits = pytest.mark.skipif(
    not find_spec("bitsandbytes"), reason="bitsandbytes is not installed: `make test-4bit`"
)


@pytest.fixture(scope="module")
def stored(model_folder, tmp_path_factory):
    """The tiny model, as a folder that holds it in 4 bits."""
    folder = tmp_path_factory.mktemp("stored") / "tiny"
    base = load_base_model(str(model_folder), CPU, "float32", load_in_4bit=True)
    base.model.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def trained(adapter_folders, tmp_path):
    """An adapter whose lineage says that its base is in 4 bits."""
    founder = replace(Lineage.founder("t0", 0, "sha256:0"), quantization=NF4)
    folder = tmp_path / "trained"
    folder.mkdir()
    for file in adapter_folders["one"].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "lineage.json").write_text(founder.to_json())
    return folder


IDS = torch.arange(7, 47).view(2, 20)


@with_bits
def test_logits_and_gradients_are_pefts_on_the_same_base(model_folder, adapter_folders):
    peft = pytest.importorskip("peft")
    base = load_base_model(str(model_folder), CPU, "float32", load_in_4bit=True)
    twin = peft.PeftModel.from_pretrained(base.model, adapter_folders["one"], is_trainable=True)
    expected = twin.eval()(IDS).logits
    expected.square().mean().backward()
    gradients = {n: p.grad for n, p in twin.named_parameters() if p.grad is not None}

    base = load_base_model(str(model_folder), CPU, "float32", load_in_4bit=True)
    adapters = stack_saved(base.model, {"one": load_adapter(adapter_folders["one"])})
    with adapters.route([0, 0]):
        ours = base.model(IDS).logits
        ours.square().mean().backward()
    assert torch.allclose(ours, expected, rtol=0, atol=1e-6 * float(expected.detach().abs().max()))
    for name, parameter in adapters.parameters_of(0).items():
        theirs = gradients[f"base_model.model.{name}.default.weight"]
        assert torch.allclose(parameter.grad, theirs, rtol=0, atol=2e-5 * float(theirs.abs().max()))
    plain = load_base_model(str(model_folder), CPU, "float32")
    assert not torch.allclose(plain.model(IDS).logits, base.model(IDS).logits, atol=1e-2)


@with_bits
def test_a_folder_stored_in_4_bits_opens_without_being_told_so(model_folder, stored):
    told = load_base_model(str(model_folder), CPU, "float32", load_in_4bit=True)
    found = load_base_model(str(stored), CPU, "float32")
    assert found.quantization == told.quantization == NF4
    assert found.fingerprint == told.fingerprint
    plain = load_base_model(str(model_folder), CPU, "float32")
    assert (plain.quantization, plain.fingerprint == found.fingerprint) == (None, False)


@with_bits
def test_other_scales_are_another_base(model_folder):
    prints = set()
    for double in (True, False):
        bits = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=double
        )
        model = AutoModelForCausalLM.from_pretrained(model_folder, quantization_config=bits)
        prints.add(fingerprint(model))
    assert len(prints) == 2


@with_bits
def test_layers_that_multiply_by_other_weights_are_refused(model_folder, monkeypatch):
    base = load_base_model(str(model_folder), CPU, "float32", load_in_4bit=True)
    first = next(filter(in_four_bits, base.model.modules()))
    monkeypatch.setattr(type(first), "forward", lambda layer, x: x @ dense(layer).float().t() * 1.1)
    with pytest.raises(LoraEvoError, match=r"multiplies by other weights .* bitsandbytes==0\.50"):
        keep_layout(base.model)


@with_bits
def test_adapters_of_a_base_in_4_bits_are_refused_on_plain_weights_and_the_reverse(
    model_folder, trained, adapter_folders, tmp_path
):
    with pytest.raises(LoraEvoError, match=r"in 4-bit nf4, .* is in plain weights; set load_in_4b"):
        open_engine("hf", str(model_folder), {"a": trained}, device="cpu")
    open_engine("hf", str(model_folder), {"a": trained}, device="cpu", any_base=True)
    opened = open_engine("hf", str(model_folder), {"a": trained}, device="cpu", load_in_4bit=True)
    assert opened.about["quantization"] == NF4
    # What has no lineage is not known; a founder of a plain base is.
    open_engine("hf", str(model_folder), adapter_folders, device="cpu", load_in_4bit=True)
    text = replace(read_lineage(trained), quantization=None).to_json()
    assert "quantization" not in text
    (trained / "lineage.json").write_text(text)
    with pytest.raises(
        LoraEvoError, match=r"in plain weights, .*; leave out load_in_4bit \(--load"
    ):
        open_engine("hf", str(model_folder), {"a": trained}, device="cpu", load_in_4bit=True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quant_method": "gptq", "bits": 4}, r"it is quantised \(gptq\); expected plain"),
        ({"quant_method": "fp8"}, r"\(fp8\)"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, r"\(8-bit bitsandbytes\)"),
    ],
)
def test_other_bits_are_refused_before_anything_is_loaded(tmp_path, model_folder, settings, words):
    config = small_model().config.to_dict() | {"quantization_config": settings}
    (tmp_path / "config.json").write_text(json.dumps(config, default=str))
    for file in model_folder.glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(LoraEvoError, match=words):
        load_base_model(str(tmp_path), CPU)
    with pytest.raises(LoraEvoError, match=words):
        BaseModel.quantization_of(str(tmp_path), load_in_4bit=True)


def test_without_bitsandbytes_one_line_says_what_to_install(model_folder, monkeypatch):
    monkeypatch.setattr("lora_evo.model.four_bit.find_spec", lambda name: None)
    with pytest.raises(
        LoraEvoError, match=r"4 bits need .* -m pip install bitsandbytes accelerate"
    ):
        load_base_model(str(model_folder), CPU, load_in_4bit=True)
