"""Recovery: planted curves, their summary, and children trained on a tiny model."""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from json_lines import write_rows
from letter_model import letter_tokenizer, save_letter_model
from lora_evo_command import call
from probabilities import logprobs

from lora_evo import (
    Adapter,
    AdapterConfig,
    LoraEvoError,
    Slot,
    load_adapter,
    save_adapter,
    write_child,
)
from lora_evo.model import load_base_model
from lora_evo.model.scoring import TokenPair
from lora_evo.model.stacked_lora import export_adapter, stack_saved
from lora_evo.model.supervised import SupervisedLearner, drawn
from lora_evo.random_streams import keyed_stream
from lora_evo.recovery import (
    CHILD,
    CONTINUED,
    RESET,
    Level,
    Recovery,
    fresh_adapter,
    interval,
    recovery,
    recovery_step,
)
from lora_evo.retention_rows import PromptRow, encode_row, read_rows, split_rows

LETTERS = "abcdefghij"
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("curve", "step"),
    [
        ([1, 1, 1, 1, 1, 1], 0),
        ([0, 0, 1, 1, 1, 1, 1], 4),
        ([0, 1, 1, 1, 0, 0], None),
        ([0, 0, 0, 0, 1, 1], None),
        ([0.89, 0.9, 0.91, 0.9, 0.9], 1),
    ],
)
def test_planted_curves(curve, step):
    """The moving average of three checks must hold the bar at three checks in a row."""
    checks = (0, 1, 2, 3, 4, 5, 6)
    assert recovery_step(curve, 0.895, checks) == step
    assert recovery_step(curve[:2], 0.895, checks) is None


def test_a_level_is_no_bar_below_its_noise():
    scores = [0.4, 0.6] * 50
    found = Level.of(scores)
    assert found.mean == pytest.approx(0.5)
    assert found.half_width == pytest.approx(0.0196, abs=0.004)
    assert found.bar == found.mean - found.half_width
    assert Level(0.5, 0.001).bar == pytest.approx(0.49)
    wide, narrow = (interval([0.0, 1.0] * n) for n in (50, 200))
    ratio = (wide[1] - wide[0]) / (narrow[1] - narrow[0])
    assert ratio == pytest.approx(2, rel=0.15)


def test_a_result_says_who_met_the_claim_and_whether_that_proves_anything():
    def curves(child, continued, reset):
        return {CHILD: child, CONTINUED: continued, RESET: reset}

    good, bad = (0.1, 0.9, 0.9, 0.9, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)
    checks, levels = (0, 10, 20, 30, 40), {"p": Level(0.6, 0.01)}
    found = Recovery(levels, checks, curves((good,) * 3, (good,) * 3, (bad,) * 3))
    assert (found.steps(), found.median(), found.passed()) == ([20, 20, 20], 20, True)
    assert (found.median(RESET), found.has_power) == (None, True)
    assert found.gain(RESET) == pytest.approx((0.4, 0.4, 0.4))
    assert json.loads(json.dumps(found.to_dict()))["median"]["continued"] == 20
    weak = Recovery(levels, checks, curves((bad,) * 3, (good,) * 3, (good,) * 3))
    assert (weak.passed(), weak.has_power) == (False, False)
    one = Recovery(levels, checks, curves((good, bad), (good,) * 2, (bad,) * 2))
    assert (one.median(), one.passed()) == (20, False)
    late = Recovery(levels, checks, curves((good, bad, bad), (good,) * 3, (bad,) * 3))
    assert late.median() is None


def test_rows_of_one_prompt_are_on_one_side():
    rows = [PromptRow(n, f"p{n % 40}", f"c{n}") for n in range(80)]
    train, held_out = split_rows(rows)
    assert (len(train), len(held_out)) == (64, 16)
    assert not {r.prompt for r in train} & {r.prompt for r in held_out}
    assert split_rows(rows) == (train, held_out)
    with pytest.raises(LoraEvoError, match="2 rows are held out, expected at least 8"):
        split_rows(rows[:10])


def test_prompt_and_completion_become_tokens_apart():
    started = letter_tokenizer(LETTERS, ("<s>", "</s>"), start=True)
    assert encode_row(PromptRow(1, "abc", "de"), started, 6) == TokenPair((0, 2, 3, 4), (5, 6))
    for completion, reason in (
        ("def", "line 7 has 7 tokens, the model reads at most 6"),
        ("1", "line 7: the prompt or the completion has no"),
    ):
        with pytest.raises(LoraEvoError, match=reason):
            encode_row(PromptRow(7, "abc", completion), started, 6)


def test_rows_are_read_with_their_lines(tmp_path):
    file = tmp_path / "rows.jsonl"
    text = '{"prompt": "a", "completion": "\u2028"}\n\n{"prompt": "b", "completion": "c", "d": 1}\n'
    file.write_text(text, encoding="utf-8")
    assert read_rows(file) == [PromptRow(1, "a", "\u2028"), PromptRow(3, "b", "c")]


def test_bad_rows_are_named_by_line(tmp_path):
    for payload, reason in (
        *((b"", "holds no rows"), (b"\xff\xfe", "cannot read")),
        (b'{"prompt": "a", "completion": "b"}\n{"prompt": ', "line 2 is not JSON"),
        (b'{"prompt": "a", "completion": "b"}\n["a"]', "line 2: expected"),
        (b'{"prompt": "", "completion": "b"}', "line 1: expected"),
        (b'{"prompt": "a", "completion": [1]}', "line 1: expected"),
    ):
        (tmp_path / "rows.jsonl").write_bytes(payload)
        with pytest.raises(LoraEvoError, match=reason):
            read_rows(tmp_path / "rows.jsonl")


def row(number, answer="abcd"):
    picks = keyed_stream(0, "prompt", str(number)).integers(len(LETTERS), size=8)
    return PromptRow(number, "".join(LETTERS[pick] for pick in picks), answer)


ROWS = [row(n) for n in range(1, 61)]


def pair(one):
    return TokenPair(*(tuple(map(LETTERS.index, text)) for text in (one.prompt, one.completion)))


def blank():
    config = AdapterConfig.new(
        r=4, lora_alpha=4, target_modules=["q_proj", "down_proj"], base_model_name_or_path="base"
    )
    slots = {}
    for layer in range(2):
        for name, ends in (("self_attn.q_proj", (16, 16)), ("mlp.down_proj", (24, 16))):
            a, b = torch.zeros(4, ends[0]), torch.zeros(ends[1], 4)
            slots[f"model.layers.{layer}.{name}"] = Slot(a, b, 1.0)
    return Adapter(config, slots)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A random model (base), rows with one answer, a parent (p) trained to give it, a child (c)."""
    folder = tmp_path_factory.mktemp("supervised")
    save_letter_model(folder / "base", letter_tokenizer(LETTERS))
    base = load(folder)
    stack = stack_saved(base.model, {"p": fresh_adapter(blank(), 7)})
    learner = SupervisedLearner(stack, learning_rate=3e-2)
    for step in range(1, 201):
        learner.step(0, [pair(ROWS[i]) for i in drawn(40, 8, step, 99)])
    parent = export_adapter(stack, 0, "base")
    assert learner.mean_loss(0, [pair(r) for r in ROWS[40:]]) < 0.5
    save_adapter(parent, folder / "p")
    rows = [{"prompt": r.prompt, "completion": r.completion} for r in ROWS]
    write_rows(folder / "rows.jsonl", rows)
    write_child("svd_structured", [folder / "p"], folder / "c", seed=1, strength=0.1)
    return folder


def load(home):
    return load_base_model(str(home / "base"), CPU, "float32")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("budget", [torch.inf, 40])
def test_trains_as_peft_does(home, budget):
    """The same batches through PEFT and transformers' own loss, with torch's AdamW."""
    peft = pytest.importorskip("peft")
    plain = transformers.AutoModelForCausalLM.from_pretrained(home / "base", dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(plain, home / "c", is_trainable=True)
    factors = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(factors, lr=1e-3, weight_decay=0.0)
    child = load_adapter(home / "c")
    stack = stack_saved(load(home).model, {"other": load_adapter(home / "p"), "c": child})
    learner = SupervisedLearner(stack, learning_rate=1e-3, micro_batch_tokens=budget)
    for step in range(1, 7):
        rows = [row(n, "abcd"[: 1 + n % 4]) for n in drawn(40, 8, step, 5)]
        pairs = [pair(r) for r in rows]
        ids = torch.zeros(8, 12, dtype=torch.long)
        labels = torch.full((8, 12), -100)
        for i, p in enumerate(pairs):
            ids[i, : p.length] = torch.tensor(p.prompt_ids + p.completion_ids)
            labels[i, 8 : p.length] = ids[i, 8 : p.length]
        loss = model(ids, labels=labels).loss
        assert learner.step(1, pairs) == pytest.approx(float(loss.detach()), abs=1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    theirs = dict(model.named_parameters())
    for name, own in stack.parameters_of(1).items():
        path, _, half = name.rpartition(".")
        found = theirs[f"base_model.model.{path}.{half}.default.weight"].detach()
        # Adam moves an element whose gradient is rounding by as much as any: the rest must agree.
        moved = (found - getattr(child.slots[path], half[-1])).norm()
        assert (own.detach() - found).norm() < 0.01 * moved, name
    other = export_adapter(stack, 0, None)
    assert all(
        torch.equal(other.slots[p].B, s.B) for p, s in load_adapter(home / "p").slots.items()
    )


def test_fitness_is_the_geometric_mean_of_probabilities(home):
    base = load(home)
    stack = stack_saved(base.model, {"p": blank()})
    pairs = [pair(row(n, "abcd"[: 1 + n % 4] + "e" * (n % 3))) for n in range(41, 61)]
    found = SupervisedLearner(stack, micro_batch_tokens=50).probabilities(0, pairs)
    for one, probability in zip(pairs, found, strict=True):
        with torch.no_grad():
            own = logprobs(base.model, one.prompt_ids, one.completion_ids).mean().exp()
        assert probability == pytest.approx(float(own), rel=1e-5)


@pytest.fixture(scope="module")
def recovered(home):
    """The child's recovery, and the calls of its progress."""
    calls, base = [], load(home)
    layers = [type(layer) for layer in base.model.modules()]
    found = recovery(
        base, {"p": load_adapter(home / "p")}, load_adapter(home / "c"), ROWS, steps=4,
        learning_rate=1e-3, progress=lambda done, total: calls.append((done, total)),
    )  # fmt: skip
    assert [type(layer) for layer in base.model.modules()] == layers
    return found, calls


def test_adapters_of_another_base_are_not_trained(home):
    parent, child = load_adapter(home / "p"), load_adapter(home / "c")
    other = replace(child, config=replace(child.config, base_model_name_or_path="other"))
    line = "the child is an adapter of the base model 'other', not of 'base'; name the right --mod"
    with pytest.raises(LoraEvoError, match=line):
        recovery(load(home), {"p": parent}, other, ROWS)


def test_a_child_recovers_and_a_fresh_adapter_does_not(recovered):
    found, calls = recovered
    assert found.checks == (0, 1, 2, 4)
    assert (found.passed(), found.has_power) == (True, True)
    assert found.steps(CONTINUED) == [0] * 5
    assert calls[-1] == (60, 60)


def test_the_command_trains_the_same_again_and_judges(home, recovered, monkeypatch):
    monkeypatch.chdir(home)
    words = "retention c --model base --train rows.jsonl --learning-rate 1e-3 --steps 4"
    again = call(*words.split(), "--json")
    assert json.loads(again.stdout)["recovery"] == json.loads(json.dumps(recovered[0].to_dict()))
    write_child("svd_structured", ["p"], "far", seed=1, strength=0.95)
    words = words.replace(" c ", " far ").replace("1e-3", "1e-9").replace("4", "2")
    failed = call(*words.split(), code=1)
    assert "in training: at its best parent's level not within 2 steps" in failed.stdout
    assert failed.stderr == "error: far: it does not recover\n"
