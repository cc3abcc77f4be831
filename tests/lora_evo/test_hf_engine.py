"""The hf engine against the model itself, and its promises on randomness."""

import shutil
from dataclasses import replace

import pytest
import torch
from probabilities import ROUNDING

from lora_evo import Adapter, LoraEvoError, load_adapter, save_adapter
from lora_evo.model import Request, SupervisedLearner, TokenPair, derive_seed, open_engine
from lora_evo.model.hf_engine import choose, keep_likely

PROMPTS = ("<|solve_o|>def f(a):\n    return a<|input|>5<|think|>", "x", "hello <|input|>", "ab")


@pytest.mark.parametrize(
    ("top_p", "top_k", "temperature", "expected"),
    [
        (1.0, 0, 1.0, (0.15, 0.5, 0.05, 0.3)),
        (1.0, 2, 1.0, (0, 0.625, 0, 0.375)),
        (0.6, 0, 1.0, (0, 0.625, 0, 0.375)),
        (0.83, 0, 1.0, (3 / 19, 10 / 19, 0, 6 / 19)),
        (0.83, 3, 1.0, (0, 0.625, 0, 0.375)),  # the first two are .842 of the first three
        (0.6, 0, 0.5, (0, 1, 0, 0)),  # squares: the first is .685
        (0.01, 1, 0.0, (0, 1, 0, 0)),
    ],
)
def test_top_k_and_then_top_p_leave_out_the_unlikely(top_p, top_k, temperature, expected):
    count = 4000
    logits = torch.tensor([[0.15, 0.5, 0.05, 0.3]]).log().repeat(count, 1)
    temperatures = torch.full((count,), temperature)
    limits = torch.full((count,), top_p, dtype=torch.float64), torch.full((count,), top_k)
    kept = keep_likely(logits, temperatures, *limits)
    uniforms = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    tokens, logprobs = choose(kept, uniforms, temperatures)
    for token, share in enumerate(expected):
        assert abs(int((tokens == token).sum()) / count - share) <= 1 / count
    if temperature:
        wanted = torch.tensor(expected)[tokens].log()
        assert torch.allclose(logprobs, wanted, atol=ROUNDING)
    else:
        assert torch.equal(kept, logits)


def test_the_likeliest_token_alone_is_the_greedy_one(engine):
    asked = [Request(prompt, name, 24) for prompt in PROMPTS for name in (None, "one")]
    greedy = [c.completion_ids for c in engine.generate(asked)]
    free = [replace(r, temperature=3.0, seed=i) for i, r in enumerate(asked)]
    drawn = [c.completion_ids for c in engine.generate(free)]
    assert drawn != greedy
    for cut in ({"top_k": 1}, {"top_p": 1e-6}):
        mixed = engine.generate([*(replace(r, **cut) for r in free), *free])
        assert [c.completion_ids for c in mixed] == greedy + drawn
        assert all(c.logprobs == (0.0,) * len(c.completion_ids) for c in mixed[: len(free)])


def test_text_keeps_markers_and_drops_the_end_token(engine):
    requests = [Request(PROMPTS[i % 4], None, 200, 3.0, seed=i) for i in range(32)]
    drawn = engine.generate(requests)
    ended = [c for c in drawn if c.finish_reason == "stop"]
    assert ended
    assert all(c.completion_ids[-1] == 1 and "<|end|>" not in c.text for c in ended)
    assert all(1 not in c.completion_ids for c in drawn if c.finish_reason == "length")
    assert any("<|answer|>" in c.text for c in drawn)
    assert all(len(c.completion_ids) == len(c.logprobs) for c in drawn)


def test_the_context_window_bounds_a_completion(engine):
    (completion,) = engine.generate([Request("x" * 508, None, 50, 1.0, seed=2)])
    assert len(completion.completion_ids) <= 4
    with pytest.raises(LoraEvoError, match="512"):
        engine.generate([Request("x" * 512)])


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("x", "three"), "one, two"),
        (Request(""), "prompt is empty"),
        (Request("x", max_tokens=0), "has 0, expected a max_tokens of at least 1"),
        (Request("x", temperature=-1.0), "has -1.0, expected a temperature"),
        (Request("x", temperature=1.0, top_p=0.0), "top_p"),
        (Request("x", temperature=1.0, top_k=-1), "has -1, expected a top_k of 0 .all. or above"),
        (Request("x", stop="ab"), "has 'ab', expected a stop of texts in a tuple"),
        (Request((5, -100)), "token -100 is below 0"),
    ],
)
def test_bad_requests_are_refused(engine, request_, message):
    with pytest.raises(LoraEvoError, match=message):
        engine.generate([request_])


def test_a_token_that_the_model_has_no_row_for_is_refused_in_prompts_and_texts(engine):
    rows = engine.adapters.model.config.vocab_size
    engine.generate([Request((1, rows - 1), None, 1)])
    line = f"token of number {rows}, and the model's embedding has {rows} rows; put the model's own"
    with pytest.raises(LoraEvoError, match=line):
        engine.generate([Request((1, rows), None, 1)])
    for pair in (TokenPair((1, rows), (2,)), TokenPair((1,), (2, rows))):
        with pytest.raises(LoraEvoError, match=line):
            SupervisedLearner(engine.adapters).mean_loss(0, [pair])


def test_a_row_without_tokens_or_with_a_masked_label_has_no_loss(engine):
    learner = SupervisedLearner(engine.adapters)
    for odd, words in (
        (TokenPair((), (5, 6)), "prompt or completion is empty"),
        (TokenPair((5, 6), ()), "prompt or completion is empty"),
        (TokenPair((5, 6), (7, -100)), "token -100"),
    ):
        for pairs in ([odd], [TokenPair((2, 3), (4, 5)), odd]):
            with pytest.raises(LoraEvoError, match=words):
                learner.probabilities(0, pairs)


def test_logits_that_are_not_finite_are_no_sample(model_folder, make_saved_adapter, tmp_path):
    adapter = load_adapter(make_saved_adapter(tmp_path / "a", 1))
    slots = {p: replace(s, A=s.A * 1e3, B=s.B * 1e4) for p, s in adapter.slots.items()}
    save_adapter(Adapter(adapter.config, slots), tmp_path / "large")
    engine = open_engine("hf", str(model_folder), {"one": tmp_path / "large"}, device="cpu")
    assert torch.isfinite(torch.tensor(engine.generate([Request("x", "one", 4)])[0].logprobs)).all()
    with pytest.raises(LoraEvoError, match=r"logits of one are not finite.*dtype=float32"):
        open_engine(
            "hf", str(model_folder), {"one": tmp_path / "large"}, device="cpu", dtype="float16"
        )


def test_a_base_with_an_adapter_in_its_folder_is_refused(model_folder, adapter_folders, tmp_path):
    for folder in (adapter_folders["one"], model_folder):
        shutil.copytree(folder, tmp_path / "both", dirs_exist_ok=True)
    with pytest.raises(LoraEvoError, match=r"holds an adapter, too .adapter_config.json."):
        open_engine("hf", str(tmp_path / "both"), device="cpu")


def test_seeds_differ_by_every_key_its_type_and_its_place():
    keys = [(), ("a",), ("a", 1), ("a", "1"), ("a1",), (1, "a"), ("a", True), ("a", 1.0), (None,)]
    seeds = {derive_seed(run, *k) for run in (0, 1) for k in keys}
    assert len(seeds) == 2 * len(keys)
    assert all(0 <= s < 2**63 for s in seeds)
    assert derive_seed(7, "x") == 37119275138310688  # frozen


def test_extreme_uniforms_never_pick_an_impossible_token():
    logits = torch.tensor([[-torch.inf, 0.0, 1.0, -torch.inf]]).expand(2, 4)
    uniforms = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    tokens, logprobs = choose(logits, uniforms, torch.ones(2))
    assert tokens.tolist() == [1, 2]
    assert torch.isfinite(logprobs).all()
