"""Stacked layers and decoders on the shapes of each family, against PEFT and transformers."""

import copy
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from letter_model import letter_tokenizer
from probabilities import ROUNDING
from small_models import small_model
from tiny_families import FAMILIES, OTHERS, QUICK, VOCABULARY, WINDOW, other_model, tiny_model

from lora_evo import LoraEvoError, distance, mutate, save_adapter
from lora_evo.model import TARGET_MODULES, open_engine, packing
from lora_evo.model.base import load_base_model
from lora_evo.model.decoding import TESTED_FAMILIES, GeneralDecoder, decoder_of
from lora_evo.model.hf_engine import HFEngine, Request
from lora_evo.model.scoring import Scorer, TokenPair
from lora_evo.model.stacked_lora import export_adapter, stack_adapters

LENGTH = 2 * WINDOW + 3
PROMPTS = ((5, 6, 7), (9, 8, 7, 6, 5, 4, 3, 2, 11, 12, 13), (20, 21), (30, 31, 32, 33, 34))


@pytest.fixture(scope="module", params=FAMILIES)
def made(request, tiny):
    base = tiny_model(request.param)
    adapters = stack_adapters(copy.deepcopy(base), tiny.members, r=4, lora_alpha=8.0, seed=7)
    tiny.shake(adapters)
    return SimpleNamespace(adapters=adapters)


def losses(made, rows, members, share, checkpointing):
    """Log-probabilities, entropies, and the gradients of a weighted sum of both."""
    scorer = Scorer(made.adapters, checkpointing=checkpointing)
    assert scorer._packs
    scorer._packs = share
    parameters = [p for m in set(members) for p in made.adapters.parameters_of(m).values()]
    for parameter in parameters:
        parameter.grad = None
    laid = scorer.laid(rows, members)
    parts = scorer.scores(laid, entropy=True)
    weights = torch.linspace(-1.0, 1.0, len(parts[0]))
    (parts[0] @ weights + 0.1 * parts[1].sum()).backward()
    gradients = [parameter.grad for parameter in parameters]
    return parts, gradients, laid.ids.numel()


@pytest.mark.parametrize(("checkpointing", "flash"), [(False, False), (True, False), (False, True)])
def test_rows_that_share_a_prompt_are_as_whole_rows(tiny, made, checkpointing, flash, monkeypatch):
    """Beyond the window, in unequal prompts, with a completion of one token and a row alone.

    flash: attention is asked for as on a GPU; torch then does it with a mask.
    """
    monkeypatch.setattr(packing, "takes_flash", lambda like: flash)
    ids = tuple(tiny.numbers(4, 4 * LENGTH).mul(1000).long().abs().remainder(VOCABULARY).tolist())
    prompts = [ids[:LENGTH], ids[LENGTH : LENGTH + 3]]
    rows = [TokenPair(p, ids[n : 2 * n]) for p in prompts for n in (1, 7, LENGTH, 5)]
    rows.append(TokenPair(ids[5:20], ids[30:41]))
    members = [0] * 3 + [1] * 6
    whole, exact, tokens = losses(made, rows, members, False, checkpointing)
    shared, gradients, fewer = losses(made, rows, members, True, checkpointing)
    for one, other in zip(whole, shared, strict=True):
        assert torch.allclose(one, other, atol=ROUNDING)
    for one, other in zip(exact, gradients, strict=True):
        assert (one - other).norm() <= 2e-4 * one.norm()
    assert fewer < 0.7 * tokens


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in OTHERS if name not in QUICK]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("name", [*FAMILIES, *QUICK, *SLOW])
def test_families_sample_and_learn_as_peft_does_with_each_row_alone(tiny, name):
    """Texts reach beyond the window where there is one."""
    base, targets = other_model(name) if name in OTHERS else (tiny_model(name), TARGET_MODULES)
    if getattr(base.config, "attn_logit_softcapping", None):
        base.set_attn_implementation("eager")
    adapters = stack_adapters(
        copy.deepcopy(base), tiny.members, r=4, lora_alpha=8.0, target_modules=targets, seed=7
    )
    tiny.shake(adapters)
    twin = tiny.peft_twin(base, adapters)
    tokenizer = SimpleNamespace(eos_token_id=VOCABULARY, decode=lambda ids, **_: str(ids))
    engine = HFEngine(adapters, tokenizer, max_rows=3)  # fewer than requests: they are refilled
    assert engine._decoder.pads is (name != "lfm2, bias")
    prompts, names = (*PROMPTS, (50,) * 20), (None, *tiny.members, "t0")
    asked = [Request(p, n, 12 - 2 * i) for i, (p, n) in enumerate(zip(prompts, names, strict=True))]
    for request, rollout in zip(asked, engine.generate(asked), strict=True):
        model = base if request.adapter is None else twin
        if request.adapter is not None:
            twin.set_adapter(request.adapter)
        ids = torch.tensor([request.prompt_ids])
        # With its cache, transformers reads a single token of phi3 where it should begin anew.
        wanted = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0,
            max_new_tokens=request.max_tokens, use_cache=name != "phi3", output_logits=True,
            return_dict_in_generate=True,
        )  # fmt: skip
        tokens = wanted.sequences[0, ids.shape[1] :]
        assert rollout.completion_ids == tuple(tokens.tolist())
        logits = torch.cat(wanted.logits).log_softmax(-1)
        logprobs = logits.gather(1, tokens[:, None])[:, 0]
        assert torch.allclose(torch.tensor(rollout.logprobs), logprobs, atol=ROUNDING)
    scorer, mine = Scorer(adapters, checkpointing=name in QUICK), {}
    # Two of each member's rows share a prompt.
    pairs = [(i % 3, TokenPair(prompts[i % 3 + i // 6], (*range(3, 15 - i),))) for i in range(9)]
    member = {id(pair): m for m, pair in pairs}
    for batch in scorer.batches([pair for _, pair in pairs], 1e6, lambda pair: member[id(pair)]):
        laid = scorer.laid(batch, [member[id(pair)] for pair in batch])
        (scores,) = scorer.scores(laid)
        scores.sum().backward()
        parts = scores.detach().split(laid.lengths)
        mine |= {id(pair): part for pair, part in zip(batch, parts, strict=True)}
    for index, name in enumerate(tiny.members):
        twin.set_adapter(name)
        for pair in [pair for m, pair in pairs if m == index]:
            ids = torch.tensor([(pair.prompt_ids + pair.completion_ids)[:-1]])
            logits = twin(input_ids=ids, use_cache=False).logits[0]
            chosen = torch.tensor(pair.completion_ids)[:, None]
            scores = logits[len(pair.prompt_ids) - 1 :].log_softmax(-1).gather(1, chosen)[:, 0]
            assert torch.allclose(mine[id(pair)], scores, atol=ROUNDING)
            scores.sum().backward()
        for path, p in adapters.parameters_of(index).items():
            wanted = tiny.peft_parameter(twin, name, path).grad
            assert (p.grad - wanted).abs().max() <= 2e-4 * wanted.abs().max()


def test_a_text_that_grows_past_the_first_length_is_the_same_alone_and_ends_at_its_stop():
    base, targets = other_model("phi3")
    adapters = stack_adapters(base, ["a"], r=2, lora_alpha=4.0, target_modules=targets, seed=7)
    tokenizer = SimpleNamespace(eos_token_id=VOCABULARY, decode=lambda ids, **_: str(ids)[1:-1])
    engine = HFEngine(adapters, tokenizer, max_rows=2)
    asked = [
        Request((3,) * n, "a", 12, temperature=1.0, seed=n, top_p=0.9) for n in (3, 9, 15, 16, 20)
    ]
    together = [rollout.completion_ids for rollout in engine.generate(asked)]
    assert together == [engine.generate([request])[0].completion_ids for request in asked]
    ids = together[1]  # of which 8 are drawn before it begins anew
    (stopped,) = engine.generate([replace(asked[1], stop=(f"{ids[7]}, {ids[8]}",))])
    assert stopped.completion_ids == ids[:9]
    assert stopped.finish_reason == "stop"


def test_adapters_of_both_namings_open_on_a_model_with_a_part_for_pictures(tiny, tmp_path):
    model, targets = other_model("qwen2_5_vl")
    for part in (model.config, model.config.get_text_config(), model.generation_config):
        part.eos_token_id = 1
    model.save_pretrained(tmp_path / "base")
    letters = letter_tokenizer("abcdefgh", special=["<|pad|>", "<|end|>"])
    letters.eos_token = "<|end|>"
    letters.save_pretrained(tmp_path / "base")
    base = load_base_model(str(tmp_path / "base"), torch.device("cpu"))
    adapters = stack_adapters(
        base.model, ["a"], r=2, lora_alpha=4.0, target_modules=targets, seed=7
    )
    tiny.shake(adapters)
    mine = export_adapter(adapters, 0, None)
    assert all(path.startswith("model.language_model.layers.") for path in mine.paths)
    short = mine.renamed({path: path.replace("language_model.", "") for path in mine.paths})
    older = mine.renamed({p: p.replace("model.language_", "language_model.") for p in mine.paths})
    for name, adapter in {"new": mine, "text": short, "old": older}.items():
        save_adapter(adapter, tmp_path / name)
        assert distance(mine, adapter) == 0.0
    folders = {name: tmp_path / name for name in ("new", "text", "old")}
    engine = open_engine("hf", str(tmp_path / "base"), folders, device="cpu")
    new, text, old = engine.generate([Request((3, 4, 5), name, 6) for name in folders])
    assert new.completion_ids == text.completion_ids == old.completion_ids
    assert new.logprobs == pytest.approx(text.logprobs, abs=ROUNDING) == old.logprobs
    engine.put_adapter("new", 1, mutate(mine, "full_gaussian", 1, 0.9))
    asked = [Request((3, 4, 5), "new", 6)]
    assert engine.generate(asked)[0].logprobs != pytest.approx(new.logprobs, abs=ROUNDING)
    engine.put_adapter("new", 2, short)
    assert engine.generate(asked)[0].logprobs == pytest.approx(new.logprobs, abs=ROUNDING)


def test_the_learner_refuses_llama_4_in_one_line():
    model = small_model("llama4_text", num_local_experts=2, intermediate_size_mlp=48)
    targets = ["q_proj", "o_proj"]
    adapters = stack_adapters(model, ["a"], r=2, lora_alpha=4.0, target_modules=targets, seed=7)
    line = "hidden states of a llama4_text cannot be read without its logits, as the learner"
    with pytest.raises(LoraEvoError, match=line):
        Scorer(adapters)


def test_the_tested_families_are_those_of_these_tests():
    tried = sorted({name.partition(",")[0] for name in (*FAMILIES, *OTHERS)})
    assert sorted(TESTED_FAMILIES) == tried
    page = Path(__file__).parents[2] / "docs/training.md"
    rows = [line.split("|") for line in page.read_text("utf-8").splitlines() if "|" in line]
    listed = {kind for row in rows for kind in re.findall("`(\\w+)`", row[1])}
    assert not set(tried) - listed


def test_an_untested_family_reads_rows_of_one_length_or_is_refused(monkeypatch):
    """If it does not mask what stands before a short row; and if it agrees with no plain pass."""
    model = tiny_model("llama")
    model.config.model_type = "another"
    decoder, calls = decoder_of(model), []
    assert decoder.joins
    assert decoder.pads
    prefill = GeneralDecoder.prefill

    def unmasked(self, ids, real):
        calls.append(bool(real.all()))
        return prefill(self, ids, real | True)

    monkeypatch.setattr(GeneralDecoder, "prefill", unmasked)
    decoder = decoder_of(model)
    assert calls == [False, True]
    assert not decoder.joins
    assert not decoder.pads
    monkeypatch.setattr(
        GeneralDecoder, "prefill", lambda self, ids, real: prefill(self, ids.flip(1), real)
    )
    with pytest.raises(LoraEvoError, match=r"another cannot be decoded .*; choose a base"):
        decoder_of(model)


def test_bases_load_in_many_threads(tmp_path):
    small_model().save_pretrained(tmp_path)
    letter_tokenizer("abc").save_pretrained(tmp_path)
    device = torch.device("cpu")
    with ThreadPoolExecutor(4) as pool:
        prints = pool.map(
            lambda _: load_base_model(str(tmp_path), device, "float32").fingerprint, range(12)
        )
        assert len({*prints}) == 1


def test_a_base_with_code_of_its_own_asks_nobody(tmp_path, monkeypatch):
    small_model().config.save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text().replace('"qwen2"', '"own"')
    entry = '{\n  "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Model"},'
    (tmp_path / "config.json").write_text(text.replace("{", entry, 1))
    (tmp_path / "own.py").write_text("raise SystemExit('ran')\n")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asked"))
    with pytest.raises(LoraEvoError, match="cannot load the model"):
        load_base_model(str(tmp_path), torch.device("cpu"))
