"""Pretraining of the nano model: seeded, and equal whatever stopped it on the way."""

import shutil
from dataclasses import replace

import click
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import nano_corpus
import pretrain
from nano_corpus import build_corpus

CONFIG = pretrain.PretrainConfig(
    steps=4, examples=8, micro_batches=2, hidden_size=64, layers=1, programs=100, warmup=2
)


@pytest.fixture(autouse=True, scope="module")
def small_parts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nano_corpus, "CHUNK", 50)
        patch.setattr(pretrain, "TOKENIZER_EXAMPLES", 1000)
        yield


def run(out, config=CONFIG, save_every=2):
    said = []
    pretrain.pretrain(
        config, out, device="cpu", workers=1, save_every=save_every, report=said.append
    )
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A pretraining of four steps that nothing stopped."""
    out = tmp_path_factory.mktemp("whole") / "out"
    run(out)
    return out


@pytest.fixture
def prepared(whole, tmp_path):
    """A new working directory with the corpus and the tokenizer made already."""
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(whole / "corpus.jsonl", out)
    shutil.copytree(whole / "tokenizer", out / "tokenizer")
    return out


def weights(out):
    return (out / "model" / "model.safetensors").read_bytes()


def test_the_finished_model_loads_and_has_learnt_something(whole):
    model = AutoModelForCausalLM.from_pretrained(whole / "model")
    tokenizer = AutoTokenizer.from_pretrained(whole / "model")
    fresh = pretrain.new_model(tokenizer, 64, 1, CONFIG.seed)
    pairs = zip(model.parameters(), fresh.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)


def test_the_same_seed_gives_the_same_weights_and_another_does_not(whole, prepared):
    run(prepared)
    assert weights(prepared) == weights(whole)
    shutil.rmtree(prepared / "model")
    (prepared / "checkpoint.pt").unlink()
    run(prepared, replace(CONFIG, seed=1, steps=1))
    assert weights(prepared) != weights(whole)


def test_an_interrupted_run_ends_in_the_same_weights(whole, prepared, monkeypatch):
    real, steps = pretrain._step, iter(range(100))

    def stopping(*args):
        if next(steps) == 3:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(pretrain, "_step", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(prepared)
    assert torch.load(prepared / "checkpoint.pt", weights_only=True)["step"] == 2
    monkeypatch.setattr(pretrain, "_step", real)
    run(prepared)
    assert weights(prepared) == weights(whole)


def test_another_model_is_not_continued(whole, prepared):
    shutil.copy(whole / "checkpoint.pt", prepared)
    with pytest.raises(click.UsageError, match=r"checkpoint.pt was trained with layers .*--out"):
        run(prepared, replace(CONFIG, layers=2))


def test_the_corpus_continues_a_partial_file(whole, tmp_path):
    path = tmp_path / "corpus.jsonl"
    lines = (whole / "corpus.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 100
    path.with_suffix(".partial").write_text("".join(lines[:60]) + lines[60][:20])
    seen = []
    build_corpus(path, 100, CONFIG.seed, 1, lambda done, size: seen.append((done, size)))
    assert path.read_text() == "".join(lines)
    assert seen == [(100, 100)]
    assert not path.with_suffix(".partial").exists()
