"""Recovery by supervised training on a tiny model: the learner, the trials and the command."""

import io
import json
import math

import pytest
import torch
from click.testing import CliRunner

from lora_evo import (
    Adapter,
    AdapterConfig,
    LoraEvoError,
    Slot,
    load_adapter,
    mutate_directory,
    save_adapter,
)
from lora_evo.cli import main
from lora_evo.commands.retention import run_supervised
from lora_evo.linalg.noise import stream
from lora_evo.probing.base_model import open_base
from lora_evo.probing.prompt_rows import ProbeRow
from lora_evo.recovery.journal import read_journal
from lora_evo.recovery.plan import Treatment
from lora_evo.recovery.summary import summarise
from lora_evo.recovery.supervised_learner import SupervisedLearner, TrainingRecipe, base_fingerprint
from lora_evo.recovery.supervised_trials import SupervisedTrials, row_of_child
from lora_evo.recovery.training_rows import TrainingRows
from lora_evo.recovery.trials import fresh_adapter

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

LETTERS = "abcdefghij"
WORDS = ("--model", "base", "--train", "rows.jsonl", "--lr", "1e-3")


def row(number: int, answer: str = "abcd") -> ProbeRow:
    picks = stream(0, "prompt", str(number)).integers(len(LETTERS), size=8)
    return ProbeRow(number, "".join(LETTERS[pick] for pick in picks), answer)


ROWS = TrainingRows(tuple(map(row, range(1, 41))), tuple(map(row, range(41, 61))))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A random model (base), rows with one answer, and a parent (p) trained to give it."""
    folder = tmp_path_factory.mktemp("supervised")
    inner = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={letter: n for n, letter in enumerate(LETTERS)}, merges=[])
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(folder / "base")
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=len(LETTERS), hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32,
        bos_token_id=None, eos_token_id=None, pad_token_id=None, initializer_range=0.3,
    )  # fmt: skip
    transformers.Qwen2ForCausalLM(config).save_pretrained(folder / "base")
    learner = SupervisedLearner(
        open_base(folder / "base", device="cpu"), ROWS, TrainingRecipe(3e-2)
    )
    learner.start([fresh_adapter(blank(), 7)], 99)
    for _ in range(100):
        learner.step([0])
    assert sum(learner.fitness([0])[0]) / 20 > 0.6
    save_adapter(learner.export(0), folder / "p")
    lines = [{"prompt": r.prompt, "completion": r.completion} for r in ROWS.train + ROWS.held_out]
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    mutate_directory("svd_structured", folder / "p", folder / "c", seed=1, strength=0.1)
    return folder


def blank() -> Adapter:
    config = AdapterConfig.new(
        r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], base_model_name_or_path="b"
    )
    slots = {}
    for layer in range(2):
        for name, ends in (("self_attn.q_proj", (16, 16)), ("mlp.down_proj", (24, 16))):
            a, b = torch.zeros(4, ends[0]), torch.zeros(ends[1], 4)
            slots[f"model.layers.{layer}.{name}"] = Slot(a, b, 2.0)
    return Adapter(config, slots)


@pytest.fixture
def learner(home):
    return SupervisedLearner(open_base(home / "base", device="cpu"), ROWS, TrainingRecipe(1e-3))


def call(home, monkeypatch, *words, code=0):
    monkeypatch.chdir(home)
    result = CliRunner().invoke(main, ["retention", *(str(word) for word in words)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.mark.filterwarnings("ignore")
def test_trains_as_peft_does(home, learner):
    """The same batches through PEFT and transformers' own loss, with torch's AdamW."""
    peft = pytest.importorskip("peft")
    plain = transformers.AutoModelForCausalLM.from_pretrained(home / "base", dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(plain, home / "c", is_trainable=True)
    factors = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(factors, lr=1e-3, weight_decay=0.0)
    learner.start([load_adapter(home / "c")], 5)
    order = [int(n) for epoch in "01" for n in stream(5, "order", epoch).permutation(40)]
    for step in range(6):
        rows = [ROWS.train[place] for place in order[8 * step : 8 * step + 8]]
        ids = [[LETTERS.index(letter) for letter in r.prompt + r.completion] for r in rows]
        labels = [[-100] * 8 + one[8:] for one in ids]
        loss = model(torch.tensor(ids), labels=torch.tensor(labels)).loss
        assert learner.loss(0) == pytest.approx(float(loss.detach()), abs=1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learner.step([0])
    trained, before = learner.export(0), load_adapter(home / "c")
    theirs = dict(model.named_parameters())
    for path, slot in trained.slots.items():
        for half, start, name in (
            (slot.A, before.slots[path].A, "lora_A"), (slot.B, before.slots[path].B, "lora_B"),
        ):  # fmt: skip
            found = theirs[f"base_model.model.{path}.{name}.default.weight"].detach()
            torch.testing.assert_close(half, found, atol=1e-4, rtol=0)
            assert not torch.equal(half, start)


def test_fitness_is_the_geometric_mean_of_probabilities(home):
    """Rows of unequal length, padded together, against each of them alone through the model."""
    held = tuple(row(n, "abcd"[: 1 + n % 4] + "e" * (n % 3)) for n in range(41, 61))
    rows = TrainingRows(ROWS.train, held)
    learner = SupervisedLearner(open_base(home / "base", device="cpu"), rows)
    learner.start([fresh_adapter(blank(), 0)], 0)
    model = transformers.AutoModelForCausalLM.from_pretrained(home / "base", dtype=torch.float32)
    expected = []
    for one in held:
        ids = [LETTERS.index(letter) for letter in one.prompt + one.completion]
        with torch.no_grad():
            logs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        likelihoods = [float(logs[at - 1, ids[at]]) for at in range(8, len(ids))]
        expected.append(math.exp(sum(likelihoods) / len(likelihoods)))
    assert learner.fitness([0])[0] == pytest.approx(expected, rel=1e-4)


def test_an_adapter_learns_the_same_alone_and_beside_others(home, learner):
    one, other = load_adapter(home / "p"), load_adapter(home / "c")
    found = []
    for adapters, place in (([other, one], 1), ([one], 0)):
        learner.start(adapters, 3)
        for _ in range(7):
            learner.step(range(len(adapters)))
        found.append((learner.fitness([place])[0], learner.export(place)))
    assert found[0][0] == found[1][0]
    for path, slot in found[0][1].slots.items():
        assert torch.equal(slot.A, found[1][1].slots[path].A)
    learner.start([one], 4)
    learner.step([0])
    again = learner.fitness([0])[0]
    learner.start([one], 3)
    learner.step([0])
    assert learner.fitness([0])[0] != again
    assert torch.equal(one.slots[path].A, load_adapter(home / "p").slots[path].A)


def test_embeddings_and_half_precision_are_trained_in_float32(home):
    """Steps too small for bfloat16 add up; the export is back in the dtype of the adapter."""
    config = AdapterConfig.new(r=2, lora_alpha=2, target_modules=["embed_tokens"])
    noise = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, 10, generator=noise), torch.randn(16, 2, generator=noise)
    wide = Adapter(config, {"model.embed_tokens": Slot(a.bfloat16(), b.bfloat16(), 1.0)})
    learner = SupervisedLearner(open_base(home / "base", device="cpu"), ROWS, TrainingRecipe(1e-4))
    learner.start([wide], 0)
    before = sum(learner.fitness([0])[0])
    for _ in range(60):
        learner.step([0])
    assert sum(learner.fitness([0])[0]) > before * 1.01
    found = learner.export(0).slots["model.embed_tokens"]
    assert found.A.dtype == found.B.dtype == torch.bfloat16
    assert not torch.equal(found.A, a.bfloat16())
    assert not torch.equal(found.B, b.bfloat16())


def test_an_equal_child_recovers_at_once_and_a_reset_does_not(home, learner, tmp_path):
    parent = load_adapter(home / "p")
    trials = SupervisedTrials(("same", parent), {"p": parent}, seeds=2, steps=8)
    summary = trials.run(tmp_path, learner)
    child = row_of_child(summary, "same")
    assert (child.median, child.censored, child.relative_change) == (0, 0, 0)
    assert child.start == pytest.approx(0, abs=1e-12)
    assert child.over_continued.mean == 0
    assert child.over_reset.mean > 0.3
    assert summary.has_power
    assert [row.name for row in summary.rows] == ["continued", "reset", "given child=same"]
    with pytest.raises(LoraEvoError, match="no given child called other"):
        row_of_child(summary, "other")


def test_a_broken_child_needs_some_steps(home, tmp_path):
    """B of the child is cut to a sixth: it is trained back, later than at once."""
    parent = load_adapter(home / "p")
    slots = {path: Slot(s.A, s.B / 6, s.scale) for path, s in parent.slots.items()}
    learner = SupervisedLearner(open_base(home / "base", device="cpu"), ROWS, TrainingRecipe(1e-2))
    trials = SupervisedTrials(("cut", Adapter(parent.config, slots)), {"p": parent}, seeds=2,
                              steps=30)  # fmt: skip
    child = row_of_child(trials.run(tmp_path, learner), "cut")
    assert child.start < -0.2
    assert child.relative_change == pytest.approx(5 / 6, rel=1e-4)
    assert child.median is not None
    assert 0 < child.median <= 30


def test_a_killed_experiment_goes_on_and_ends_with_the_same_journal(home, learner, tmp_path):
    parent, child = load_adapter(home / "p"), load_adapter(home / "c")
    other = Adapter(parent.config, {p: Slot(s.A, -s.B, s.scale) for p, s in parent.slots.items()})
    tried = (Treatment("svd_structured"), Treatment("dare"))
    parents = {"p": parent, "q": other}
    trials = SupervisedTrials(("c", child), parents, tried, seeds=2, steps=4)
    trials.run(tmp_path / "whole", learner)
    steps = 0

    def killed(done: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 6:
            raise KeyboardInterrupt

    learner.on_step = killed
    with pytest.raises(KeyboardInterrupt):
        trials.run(tmp_path / "killed", learner)
    journal = tmp_path / "killed" / "trials.jsonl"
    assert len(read_journal(journal).outcomes) == 5
    with journal.open("a") as file:
        file.write('{"cohort": [')
    learner.on_step = None
    summary = trials.run(tmp_path / "killed", learner)
    assert journal.read_bytes() == (tmp_path / "whole" / "trials.jsonl").read_bytes()
    assert {(row.name, row.relation, row.trials) for row in summary.rows} == {
        ("continued", "", 2), ("reset", "", 2), ("given child=c", "given", 2),
        ("svd_structured", "", 2), ("dare", "given", 2),
    }  # fmt: skip
    changed = SupervisedTrials(("c", parent), parents, tried, seeds=2, steps=4)
    with pytest.raises(LoraEvoError, match="holds trials with setting"):
        changed.run(tmp_path / "killed", learner)
    fewer = TrainingRows(ROWS.train[1:] + ROWS.held_out[:1], ROWS.held_out[1:] + ROWS.train[:1])
    for rows, recipe in (
        (fewer, learner.recipe),
        (ROWS, TrainingRecipe(2e-3)),
        (ROWS, TrainingRecipe(1e-3, 4)),
    ):
        another = SupervisedLearner(learner.base, rows, recipe)
        with pytest.raises(LoraEvoError, match="holds trials with setting"):
            trials.run(tmp_path / "killed", another)


def test_the_command(home, monkeypatch, tmp_path):
    words = ("c", *WORDS, "--steps", 4, "--seeds", 2)
    first = call(home, monkeypatch, *words, "--out", tmp_path / "a")
    assert "c against p: mild" in first.stdout
    assert (
        "c in training: at its best parent's level after 0 steps (median of 2); fitness"
        in first.stdout
    )
    assert "given child=c" in first.stdout
    assert "a reset does not recover" in first.stdout
    assert first.stderr == ""
    journal = tmp_path / "a" / "trials.jsonl"
    found = json.loads(call(home, monkeypatch, *words, "--out", tmp_path / "b", "--json").stdout)
    assert (tmp_path / "b" / "trials.jsonl").read_bytes() == journal.read_bytes()
    assert str(home) not in journal.read_text()
    assert found["recovery"]["rows"][2]["median"] == 0
    assert found["recovery"]["setting"]["dtype"] == "float32"
    assert found["recovery"]["rows"] == json.loads(table(journal, "--json"))["rows"]
    before = journal.read_bytes()
    more = call(home, monkeypatch, *words, "--operators", "svd_structured strength=0.9",
                "--seeds", 3, "--out", tmp_path / "a")  # fmt: skip
    assert journal.read_bytes().startswith(before)
    assert "svd_structured strength=0.9" in more.stdout
    assert "(median of 3; 95 %: 0 to 0); fitness at step 4" in more.stdout
    assert [row.trials for row in summarise(read_journal(journal)).rows] == [3, 3, 3, 3]
    assert "(reset)" in table(journal)


def test_a_limit_on_recovery_is_a_gate_for_scripts(home, monkeypatch, tmp_path):
    words = (*WORDS, "--steps", 4, "--seeds", 1, "--limit", "recovery=2")
    call(home, monkeypatch, "c", *words, "--out", tmp_path / "good")
    parent = load_adapter(home / "p")
    save_adapter(fresh_adapter(parent, 1), tmp_path / "empty")
    broken = call(home, monkeypatch, tmp_path / "empty", "--parent", "p", *words,
                  "--out", tmp_path / "broken", code=1)  # fmt: skip
    assert broken.stderr.endswith(
        "empty: at its best parent's level not within 4 steps, the limit is 2\n"
    )
    powerless = call(home, monkeypatch, "p", "--parent", tmp_path / "empty", *words,
                     "--out", tmp_path / "powerless", code=1)  # fmt: skip
    assert "THE TEST HAS NO POWER" in powerless.stdout
    assert "a fresh adapter recovers as well" in powerless.stderr
    assert len(powerless.stderr.splitlines()) == 1


def test_steps_are_counted_on_a_terminal(monkeypatch, tmp_path, learner, home):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    parent = load_adapter(home / "p")
    trials = SupervisedTrials(("same", parent), {"p": parent}, seeds=2, steps=2)
    run_supervised(trials, learner, tmp_path)
    lines = screen.getvalue().split("\r\x1b[K")
    assert "trained 3 of 6: p, seed 1, step 2 of 2" in lines
    assert lines[-1] == ""


def test_too_little_memory_is_said_in_one_line(monkeypatch, tmp_path, home):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(SupervisedLearner, "step", full)
    result = call(home, monkeypatch, "c", *WORDS, "--out", tmp_path / "o", code=2)
    assert "give a smaller --batch-size" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def table(journal, *words):
    result = CliRunner().invoke(main, ["recovery", str(journal), *words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("c --train rows.jsonl --out o", "--train needs --model"),
        ("c --train rows.jsonl --model base", "--out for its journal"),
        ("c --out o", "--out needs --train"),
        ("c --operators dare", "--operators needs --train"),
        ("c --limit recovery=3", "--limit recovery=3 needs --train"),
        ("c {train} --limit recovery=5", "expected a number from 0 to 4"),
        ("c {train} --operators dare", "dare takes 2 parents, 1 is given"),
        ("c {train} --operators dar", "dar"),
        ("c {train} --operators dare,dare --parent p --parent c", "different ones"),
        ("c {train} --steps 1", "expected at least 1 seed and 2 steps"),
        ("c {train} --seeds 0", "expected at least 1 seed and 2 steps"),
        ("c {train} --lr 0", "the learning rate is 0.0"),
        ("c {train} --lr nan", "the learning rate is nan"),
        ("c {train} --batch-size 0", "batch_size is 0"),
        ("c {train} --batch-size 49", "48 rows to train on, and 49 in a batch"),
        ("c {train} --train bare.jsonl", "bare.jsonl: line 2 has no completion (41 such rows)"),
        ("c {train} --train few.jsonl", "2 rows are held out, expected at least 8"),
        ("c {train} --train columns.jsonl", "columns.jsonl line 1: prompt is None"),
        ("c {train} --train long.jsonl", "training rows: line 1 has 40 tokens"),
        ("c {train} --train no.jsonl", "no.jsonl is not a file"),
        ("c {train} --lr 1e30", "lower the learning rate"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(home, monkeypatch, words, reason):
    def write(name, rows):
        (home / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    pairs = [{"prompt": row(n).prompt, "completion": "ab"} for n in range(100, 110)]
    write("few.jsonl", pairs)
    bare = [pairs[0], {"prompt": "a"}]
    write("bare.jsonl", bare + [{"prompt": row(n).prompt} for n in range(40)])
    write("columns.jsonl", [{"question": "a", "answer": "b"}])
    write("long.jsonl", [{"prompt": "a" * 20 + r["prompt"][:8], "completion": "b" * 12}
                         for r in pairs * 5])  # fmt: skip
    given = " ".join(WORDS) + f" --out {home / 'o'} --steps 4 --seeds 1"
    result = call(home, monkeypatch, *words.format(train=given).split(), code=2)
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_base_is_told_from_itself_after_training(home):
    base = open_base(home / "base", device="cpu")
    before = base_fingerprint(base)
    assert base_fingerprint(open_base(home / "base", device="cpu")) == before
    with torch.no_grad():
        base.model.get_submodule("model.norm").weight[3] += 1e-3
    assert base_fingerprint(base) != before
