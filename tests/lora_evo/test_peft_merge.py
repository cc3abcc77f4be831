"""DoRA and modules_to_save: an engine says what PEFT's own model says."""

import gc
import json
import shutil
import tempfile

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import small_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from lora_evo import LoraEvoError
from lora_evo.model import Request, open_engine, sharing

peft = pytest.importorskip("peft")
# PEFT warns that tied weights come apart.
pytestmark = pytest.mark.filterwarnings("ignore:Model has .tie_word_embeddings")
TARGETS = ["q_proj", "v_proj", "down_proj"]
DORA = {"use_dora": True}
HEAD = {"modules_to_save": ["lm_head"]}
EMBEDDING = {"modules_to_save": ["embed_tokens"]}


def tuned(model_folder, out, **settings):
    """A random adapter made by PEFT, saved in `out`, and PEFT's model with it."""
    model = AutoModelForCausalLM.from_pretrained(model_folder)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS, **settings)
    made = peft.get_peft_model(model, config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.requires_grad:
                weight += 0.1 * torch.randn(weight.shape, generator=generator)
    made.save_pretrained(out, save_embedding_layers=False)
    return made.eval()


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    ("settings", "tied"), [(DORA, False), (HEAD, False), (EMBEDDING, True), (DORA | HEAD, True)]
)
def test_an_engine_says_what_pefts_own_model_says(
    model_folder, tmp_path, temporary, settings, tied
):
    home = shutil.copytree(model_folder, tmp_path / "base")
    tokenizer = AutoTokenizer.from_pretrained(home)
    if tied:
        sizes = {"vocab_size": len(tokenizer), "initializer_range": 0.3}
        small_model(tie_word_embeddings=True, **sizes).save_pretrained(home)
    theirs = tuned(home, tmp_path / "a", **settings)
    engine = open_engine("hf", str(home), {"a": tmp_path / "a"}, device="cpu")
    ids = tokenizer("hello", return_tensors="pt")
    with torch.no_grad(), engine.adapters.route([engine.adapters.index("a")]):
        ours = engine.adapters.model(**ids).logits
    with torch.no_grad():
        expected = theirs(**ids).logits
        with theirs.disable_adapter():
            plain = theirs(**ids).logits
    assert (ours - expected).abs().max() < 1e-4
    assert (plain - expected).abs().max() > 0.1
    text = theirs.generate(**ids, do_sample=False, max_new_tokens=12)[0, 5:]
    assert engine.generate([Request("hello", "a", 12)])[0].completion_ids == tuple(text.tolist())
    base = open_engine("hf", str(home), device="cpu").identity()
    said = engine.identity("a")
    assert (said["model"], said["dtype"]) == (base["model"], base["dtype"])
    assert said["model_hash"] != base["model_hash"]
    assert said["adapter_hash"].startswith("sha256:")
    assert len(list(temporary.glob("populab-merged-*"))) == 1
    del engine
    gc.collect()
    assert not list(temporary.iterdir())


def test_what_cannot_be_merged_is_refused_in_one_line(
    model_folder, adapter_folders, tmp_path, temporary
):
    folder = tmp_path / "a"
    tuned(model_folder, folder, **DORA)
    config = json.loads((folder / "adapter_config.json").read_text())
    weights = load_file(folder / "adapter_model.safetensors")
    there = {"a": folder, "one": adapter_folders["one"], "none": tmp_path}
    assert sharing(["a", "one", None, "none"], there) == [["one", None, "none"], ["a"]]

    def refused(**adapters):
        with pytest.raises(LoraEvoError) as caught:
            open_engine("hf", str(model_folder), adapters, device="cpu")
        assert "\n" not in str(caught.value)
        assert not list(temporary.iterdir())
        return str(caught.value)

    def write(changes, kept=weights):
        (folder / "adapter_config.json").write_text(json.dumps(config | changes))
        save_file(kept, folder / "adapter_model.safetensors", {"format": "pt"})
        return refused(a=folder)

    assert "open it without other adapters" in refused(a=folder, b=adapter_folders["one"])
    assert "not of 'tiny'" in write({"base_model_name_or_path": "Qwen/Qwen2.5-7B"})
    assert "init_lora_weights is 'pissa'" in write({"init_lora_weights": "pissa"})
    assert "missing adapter keys" in write({}, dict(list(weights.items())[1:]))
    more = weights | {"base_model.model.odd.lora_A.weight": torch.ones(4, 4)}
    assert f"PEFT loads {len(weights)} of the {len(more)} tensors" in write({}, more)
    assert "cannot merge" in write({"r": 8})
