"""Samples of the stacked engine: by seed, in any company, by text and by token ids."""

import string
from dataclasses import replace

import pytest
import torch
from letter_model import letter_tokenizer
from probabilities import ROUNDING, logprobs

from lora_evo import LoraEvoError
from lora_evo.model import Request, before_stop
from lora_evo.model.decoding import Decoder
from lora_evo.model.hf_engine import HFEngine
from lora_evo.model.stacked_lora import export_adapter


@pytest.fixture(scope="module")
def tokenizer():
    letters = string.ascii_letters + string.digits + string.punctuation.replace("`", "") + "Ġ"
    return letter_tokenizer(letters, ("`", "<end>"), eos_token="<end>", pad_token="`")


@pytest.fixture(scope="module")
def stack(tiny):
    return tiny.stacked()


@pytest.fixture
def engine(stack, tokenizer):
    return HFEngine(stack[1], tokenizer)


def prompt(tiny, i):
    length = (5, 12, 1, 30, 7, 12, 19)[i % 7]
    ids = tiny.numbers(50 + i, length).mul(1000).long().abs() % (tiny.vocabulary - 2) + 2
    return tuple(ids.tolist())


def requests(tiny, count, **changes):
    limits = (3, 40, 17, 1, 40, 26)
    return [
        Request(
            prompt(tiny, i),
            (None, *tiny.members)[i % 4],
            changes.get("max_tokens", limits[i % 6]),
            changes.get("temperature", 1.0),
            seed=1000 + i,
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_logprobs_equal_a_plain_forward_pass(tiny, stack, engine, temperature):
    _, adapters = stack
    for rollout in engine.generate(requests(tiny, 8, temperature=temperature)):
        asked = rollout.prompt_ids, rollout.completion_ids
        with torch.no_grad(), adapters.route([adapters.index(rollout.adapter)]):
            wanted = logprobs(adapters.model, *asked, temperature or 1.0)
        assert torch.tensor(rollout.logprobs) == pytest.approx(wanted, abs=ROUNDING)
        with torch.no_grad(), adapters.route([adapters.index("t0")]):
            others = logprobs(adapters.model, *asked, temperature or 1.0)
        apart = float((others - wanted).abs().max())
        assert rollout.adapter == "t0" or apart > 100 * ROUNDING, apart


def test_the_same_seed_gives_the_same_sample_whatever_the_batch(tiny, stack, tokenizer):
    asked = requests(tiny, 24)
    whole = HFEngine(stack[1], tokenizer).generate(asked)
    ids = [r.completion_ids for r in whole]
    assert len({len(c) for c in ids}) > 3, "rows must finish at different steps"
    narrow = HFEngine(stack[1], tokenizer, max_rows=5).generate(asked)
    assert [r.completion_ids for r in narrow] == ids
    backwards = HFEngine(stack[1], tokenizer).generate(asked[::-1])[::-1]
    assert [r.completion_ids for r in backwards] == ids
    for i in (0, 7, 13):
        assert HFEngine(stack[1], tokenizer).generate([asked[i]])[0].completion_ids == ids[i]
    for one, other in zip(whole, narrow, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=ROUNDING)


def test_samples_come_as_they_are_made(tiny, stack, tokenizer):
    asked = requests(tiny, 20)
    engine = HFEngine(stack[1], tokenizer)
    found = dict(engine.stream(asked))
    assert list(found) != list(range(20)), "those that end first come first"
    assert [found[i] for i in range(20)] == engine.generate(asked)


@pytest.mark.parametrize(("common", "piece"), [(31, 2048), (40, 2048), (9, 100)])
def test_a_long_beginning_is_read_once_and_long_texts_apart(
    tiny, engine, monkeypatch, common, piece
):
    read, prefill = [], Decoder.prefill
    monkeypatch.setattr("lora_evo.model.hf_engine._PIECE", piece)
    monkeypatch.setattr(
        Decoder,
        "prefill",
        lambda self, ids, *rest: read.append(tuple(ids.shape)) or prefill(self, ids, *rest),
    )
    beginning = tuple(range(2, 2 + common))
    asked = [
        replace(request, prompt=(*beginning, i % 5 + 2, *request.prompt_ids))
        for i, request in enumerate(requests(tiny, 16))
    ]
    asked.append(replace(asked[0], prompt=(*beginning, 7), seed=5))
    together = engine.generate(asked)
    longest = max(len(request.prompt_ids) for request in asked)
    wanted = {31: [(17, longest)], 40: [(4, 40), (17, longest - 40)]}
    assert read == wanted.get(common, [(7, 17), (4, 22), (3, 29), (2, 40), (1, 40)])
    for request, rollout in zip(asked, together, strict=True):
        alone = engine.generate([request])[0]
        assert rollout.completion_ids == alone.completion_ids
        assert rollout.logprobs == pytest.approx(alone.logprobs, abs=ROUNDING)


def test_stop_texts_end_the_completion(engine):
    asked = [Request("abc", "t1", 40, 1.5, seed) for seed in range(8)]
    place, free = max(enumerate(engine.generate(asked)), key=lambda found: len(found[1].text))
    stop = free.text[10:13]
    at = free.text.find(stop)
    stopping = replace(asked[place], stop=("never there", stop))
    cut, other = engine.generate([stopping, asked[place]])
    assert len(stop) == 3
    assert cut.text == free.text[: at + 3]
    assert before_stop(cut.text, stopping.stop) == free.text[:at]
    assert cut.completion_ids == free.completion_ids[: at + 3]
    assert cut.finish_reason == "stop"
    assert other.completion_ids == free.completion_ids


def test_an_adapter_that_is_put_answers_from_the_next_call_on(tiny, tokenizer):
    stack = tiny.stacked()[1]
    engine = HFEngine(stack, tokenizer)
    asked = [replace(request, adapter="t0") for request in requests(tiny, 4)]
    wanted = engine.generate([replace(request, adapter="t1") for request in asked])
    assert [r.completion_ids for r in engine.generate(asked)] != [r.completion_ids for r in wanted]
    engine.put_adapter("t0", 17, export_adapter(stack, stack.index("t1"), None))
    assert engine.versions == dict.fromkeys(tiny.members, 0) | {"t0": 17}
    assert engine.generate(asked) == [replace(rollout, adapter="t0") for rollout in wanted]
    with pytest.raises(LoraEvoError, match="no adapter named 'x'"):
        engine.put_adapter("x", 1, export_adapter(stack, 0, None))
    with pytest.raises(LoraEvoError, match="a member of the stack"):
        engine.drop_adapter("t0")
