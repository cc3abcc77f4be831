"""Warm starts: what is learned from, that it is learned, and that no death changes a byte of it."""

import json
import shutil

import pytest
import torch
from json_lines import write_rows
from mortal import changes_until_death

from code_verifier import Limits, Sandbox, Task
from lora_evo import load_adapter
from selfplay import training
from selfplay.errors import ConfigError, RunDirectoryError, SelfplayError
from selfplay.experiments.measures import measure
from selfplay.files.record import read_run
from selfplay.reports.findings import conclusion
from selfplay.reports.run_page import summary
from selfplay.sft import RECORD, fine_tune, make_examples, read_tasks
from selfplay.tasks.template import AZR, template_named
from selfplay_command import command, refused, worked

SMALL = ("rollout.kinds=[code_o, code_i]", "sandbox.workers=1", "steps=4", "seed=0")
FEW = {"batch_size": 4, "learning_rate": 5e-3, "held_out": 2}


def program(n):
    return f"def f(x):\n    return x * {n} + {n + 1}"


def azr_row(n, **more):
    return {"snippet": program(n), "input": f"{n}", "output": "not looked at", "imports": []} | more


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_rows(
        tmp_path_factory.mktemp("data") / "tasks.jsonl", [azr_row(n) for n in range(8)]
    )


@pytest.fixture(scope="module")
def judge():
    with Sandbox(workers=1, limits=Limits(wall_s=60)) as sandbox:
        yield sandbox


def start(runs, data, out, *assignments, say=lambda text: None, **more):
    return fine_tune(runs.config(*SMALL, *assignments), data, out, say, **(FEW | more))


@pytest.fixture(scope="module", autouse=True)
def _checkpoints_often():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("selfplay.sft.SAVE_EVERY", 2)
        yield


@pytest.fixture(scope="module")
def finished(runs, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "warm"
    said = []
    losses = start(runs, data, out, say=said.append)
    return out, losses, said


def test_rows_of_both_forms_become_judged_tasks(tmp_path, judge):
    rows = [
        azr_row(2, thought="two"),
        azr_row(3, imports=["import math"]),
        {"kind": "code_i", "program": program(4), "input": "1", "output": "9"},
        {"kind": "code_o", "program": "import socket\ndef f(x):\n    return x", "input": "1"},
        {"snippet": program(5), "inputs": ["1", "2", "3", "4"], "message": "line"},
        {"snippet": "def f(x):\n    # says it\n    return [x]", "input": "1"},
    ]
    said = []
    found = read_tasks(
        write_rows(tmp_path / "t", rows), AZR, ("code_o", "code_i", "code_f"), judge, said.append
    )
    (line,) = said
    assert line.endswith("give 8 tasks of code_o, code_i, code_f, 1 refused: banned")
    assert [task.kind for task, _ in found] == ["code_o", "code_i"] * 2 + [
        *("code_i", "code_f", "code_o", "code_i")
    ]
    task, row = found[0]
    assert (task.input, task.output, row["thought"]) == ("2", "7", "two")
    assert found[2][0].program.startswith("import math\n")
    assert found[5][0].visible == 2
    assert "#" not in found[6][0].program
    only = read_tasks(tmp_path / "t", AZR, ("code_f",), judge, said.append)
    assert [task.kind for task, _ in only] == ["code_f"]


def test_a_file_without_tasks_is_refused_in_one_line(tmp_path, judge):
    path = tmp_path / "tasks.jsonl"
    for text, words in (
        ("{", "line 1: not JSON"),
        ('{"program": "x", "input": 3}\n', "line 1: field 'input' is of type int"),
        ('{"kind": "code_e", "program": "x"}\n', "line 1: unknown kind 'code_e'; expected one of"),
        ('{"program": "x", "input": "1"}\n', "1 rows of .* give 0 tasks of code_o, 1 refused.*"),
        ("", "0 rows of .* give 0 tasks of code_o; expected rows as"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"^.*{words}.*$"):
            read_tasks(path, AZR, ("code_o",), judge, [].append)


class Letters:
    """A tokenizer of characters."""

    eos_token = "$"

    def encode(self, text, add_special_tokens):
        return [ord(c) for c in text]


def texts(pair):
    return tuple("".join(map(chr, ids)) for ids in (pair.prompt_ids, pair.completion_ids))


def solved_tasks(count):
    return [
        (Task(kind, program(n), f"{n}", f"{n * n + n + 1}"), {"thought": "hm"})
        for n in range(count)
        for kind in ("code_o", "code_i")
    ]


def examples(runs, tasks, *assignments, said=None, held_out=2, longest=10_000):
    """Pairs to learn from, and held-out ones."""
    plain = ("template=azr", "rollout.num_references=2", f"learner.micro_batch_tokens={longest}")
    config = runs.config(*plain, *assignments)
    return make_examples(tasks, config, Letters(), (said or []).append, held_out)


@pytest.mark.parametrize("name", ["azr", "nano"])
def test_each_task_is_written_in_both_roles(runs, name):
    tasks = solved_tasks(6)
    training, held_out = examples(runs, tasks, f"template={name}", held_out=None)
    assert (len(training), len(held_out)) == (20, 4), "a fifth of few programs"
    prompts = {template_named(name, "nano").solve_prompt(task) for task, _ in tasks}
    pairs = [texts(pair) for pair in training]
    assert all(completion.endswith("$") for _, completion in pairs)
    assert sum(prompt in prompts for prompt, _ in pairs) == len(pairs) // 2


def test_the_seed_holds_programs_out_that_no_training_prompt_shows(runs):
    found = examples(runs, solved_tasks(6))
    trained, measured = ("".join("".join(texts(pair)) for pair in some) for some in found)
    apart = [n for n in range(6) if program(n) not in trained]
    assert len(apart) == 2
    assert all(program(n) in measured for n in apart)
    assert examples(runs, solved_tasks(6)) == found
    assert examples(runs, solved_tasks(6), "seed=2") != found


def test_what_is_too_long_or_has_no_words_is_left_out_and_counted(runs):
    lengths = sorted(pair.length for some in examples(runs, solved_tasks(6)) for pair in some)
    middle, said = lengths[len(lengths) // 2], [""]
    tasks = [*solved_tasks(6), (Task("code_f", program(9), None, None, ("1",), ("2",), "m", 1), {})]
    kept = [p for some in examples(runs, tasks, said=said, longest=middle) for p in some]
    assert max(pair.length for pair in kept) <= middle
    assert "1 that the template cannot express" in said[-1], "one input, where ten are asked for"
    halved = Task("code_o", program(9), "1", "19"), {"thought": "cut \ud83d in two"}
    examples(runs, [*solved_tasks(6), halved], said=said)
    assert "2 that the template cannot express" in said[-1], "half a character has no tokens"
    for more in ({"longest": 8}, {"held_out": 6}):
        with pytest.raises(SelfplayError, match="give more tasks, a larger learner"):
            examples(runs, solved_tasks(6), **more)


def test_the_held_out_loss_falls(finished):
    out, losses, said = finished
    assert [loss["step"] for loss in losses] == [0, 1, 2, 3, 4]
    assert losses[-1]["held_out"] < losses[0]["held_out"] - 0.05
    assert any("held-out loss" in line for line in said)
    assert not out.with_name("warm.part").exists()
    record = json.loads((out / RECORD).read_text())
    assert record["losses"][-1]["held_out"] == losses[-1]["held_out"]
    assert record["settings"]["data"] == "tasks.jsonl", "no folder of a machine"


def folder(path):
    return {p.name: p.read_bytes() for p in sorted(path.iterdir())}


@pytest.fixture(scope="module")
def deaths(runs, data, finished, tmp_path_factory):
    """How many changes an undisturbed warm start makes."""
    home = tmp_path_factory.mktemp("count")
    made = changes_until_death(lambda: start(runs, data, home / "warm"), home, None)
    assert folder(home / "warm") == folder(finished[0])
    return made


@pytest.mark.parametrize("share", [0.2, pytest.param(0.95, marks=pytest.mark.slow), 1.0])
def test_killed_and_run_again_gives_the_same_bytes(runs, data, finished, deaths, tmp_path, share):
    k = max(1, round(share * deaths))
    again = lambda: start(runs, data, tmp_path / "warm")  # noqa: E731
    assert changes_until_death(again, tmp_path, k) is None
    assert changes_until_death(again, tmp_path, None) is not None
    assert folder(tmp_path / "warm") == folder(finished[0]), f"killed at change {k} of {deaths}"
    assert [p.name for p in tmp_path.iterdir()] == ["warm"]


def test_a_start_that_fails_leaves_no_folder(runs, data, tmp_path):
    with pytest.raises(SelfplayError, match="larger learner"):
        start(runs, data, tmp_path / "warm", "learner.micro_batch_tokens=8")
    assert not list(tmp_path.iterdir())


def test_a_finished_one_is_left_alone(runs, data, finished, tmp_path):
    out, losses, _ = finished
    before = folder(out)
    said = []
    assert start(runs, data, out, say=said.append) == losses
    assert said == [f"{out} is finished already"]
    with pytest.raises(
        RunDirectoryError, match=r"warm was made with another learning_rate; choose"
    ):
        start(runs, data, out, learning_rate=0.125)
    other = write_rows(tmp_path / data.name, [azr_row(n) for n in range(1, 9)])
    with pytest.raises(RunDirectoryError, match=r"warm was made with another data_sha256; choose"):
        start(runs, other, out)
    assert folder(out) == before


def test_what_was_begun_is_not_resumed_with_other_settings(runs, data, tmp_path):
    def stop(text):
        if text.startswith("step 3 of"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(runs, data, tmp_path / "warm", say=stop)
    with pytest.raises(RunDirectoryError, match="was begun with another steps"):
        start(runs, data, tmp_path / "warm", "steps=7")


def test_every_member_of_a_run_starts_from_the_adapter(runs, finished, tmp_path):
    out, _, _ = finished
    still = ("learner.learning_rate=0", "learner.teacher_learning_rate=0", "learner.frozen=[t0]")
    settings = (f"warm_start={out}", "steps=1", "evolution.evolve_every=0", *still)
    run = runs.train(tmp_path / "run", *settings)
    given = load_adapter(out)
    for member in ("t0", "t1", "s0", "s1"):
        mine = load_adapter(run / "members" / member)
        for path, slot in given.slots.items():
            assert torch.equal(mine.slots[path].A, slot.A)
            assert torch.equal(mine.slots[path].B, slot.B)
    # What they can do then is measured once before the first step, and is no gain of the run.
    rows = runs.rows(run / "eval.jsonl")
    start, end = ({r["member"]: r for r in rows if r["step"] == step} for step in (0, 1))
    assert list(start) == ["base", "start"]
    assert start["start"]["teaching"]["rewards"] == end["t0"]["teaching"]["rewards"]
    for member in ("s0", "s1"):
        assert start["start"]["solving"]["solved"] == end[member]["solving"]["solved"]
        assert end[member]["solving"]["over_start"] == 0.0
    solved = start["start"]["solving"]["solve_rate"]
    assert f", the warm start {solved:.1%} (+0.0)".replace("%", " %") in conclusion(read_run(run))
    assert "over the start" in summary(run)
    over_start = measure(read_run(run))["gain over the warm start, at the end"]
    assert over_start.tolist() == [0.0] * 2


def test_beta_pulls_to_the_warm_start_or_else_to_the_base(runs, finished, tmp_path):
    settings = (
        *(f"warm_start={finished[0]}", "steps=2", "evolution.evolve_every=0"),
        *("learner.beta=1", "learner.learning_rate=1e-2", "eval.eval_every=0"),
    )
    kls = {}
    for reference, steps in (("start", 2), ("base", 1)):
        home = tmp_path / reference
        more = (f"learner.reference={reference}", f"steps={steps}")
        run = runs.train(home, *settings, *more)
        members = [row["members"] for row in runs.rows(run / "metrics.jsonl")]
        kls[reference] = [[row[name]["kl"] for name in sorted(row)] for row in members]
        assert (run / "start").exists() == (reference == "start")
    first, second = kls["start"]
    assert max(map(abs, first)) < 1e-8, "they are the reference"
    assert max(second) > 1e-7
    assert max(kls["base"][0]) > 1e-5
    again = shutil.copytree(tmp_path / "start", tmp_path / "again")
    shutil.rmtree(again / "checkpoints" / "step-2")
    training.resume(again)
    assert runs.outcome(again) == runs.outcome(tmp_path / "start")


@pytest.mark.parametrize(
    ("place", "assignment", "words"),
    [
        ("warm", "learner.r=4", "another rank.* with learner.r=4"),
        ("other", "steps=1", "is an adapter of mistral, and base is nano"),
        ("", "steps=1", "expected a PEFT adapter"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused_before_the_base_is_opened(
    runs, finished, tmp_path, monkeypatch, place, assignment, words
):
    monkeypatch.setattr(training, "open_population", None)
    shutil.copytree(finished[0], tmp_path / "warm")
    other = shutil.copytree(finished[0], tmp_path / "other") / "adapter_config.json"
    other.write_text(other.read_text().replace('"nano"', '"mistral"'))
    config = runs.config(f"warm_start={tmp_path / place}", assignment)
    line = f"^warm_start: {tmp_path / place}: .*{words}.*such as `selfplay sft"
    with pytest.raises(ConfigError, match=line):
        training.train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_command(data, tmp_path):
    small = [part for a in (*SMALL[:2], "learner.r=2") for part in ("--set", a)]
    flags = [*small, "--data", data, "--steps", 2, "--batch-size", 2, "--held-out", 2]
    said = worked("sft", *flags, "--out", tmp_path / "w")
    assert "held-out loss" in said.splitlines()[-1]
    assert load_adapter(tmp_path / "w").config.r == 2


def test_the_command_refuses_in_one_line(data, tmp_path):
    for flags, words in (
        (("--data", "nothing.jsonl"), "there is no file nothing.jsonl"),
        (("--set", "steps=3", "--data", data), "type --steps"),
        (("--held-out", "99", "--data", data), "8 programs, 8 held out"),
    ):
        refused(command("sft", *flags, "--out", tmp_path / "w"), words)
