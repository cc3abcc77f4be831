"""`rollout.tasks`: students, or one agent, attempt the tasks of a file, and no teacher writes."""

import json
from collections import Counter

import pytest
from msgspec import UNSET

from league import League
from selfplay import Extensions, seed_tasks
from selfplay.config import load_preset
from selfplay.errors import ConfigError
from selfplay.files.record import read_run
from selfplay.files.trackers import step_metrics
from selfplay.reports.run_page import report, summary
from selfplay.step import match, propose
from selfplay.tasks.held_out import NANO_SETS, guard_of, tasks_of
from selfplay.training import new_run, resume, train
from selfplay_command import command, refused

CALM = ("eval.eval_every=0", "eval.same_tasks=0", "evolution.evolve_every=0")
FIXED = "rollout.proposals=3"


def write(path, tasks, **more):
    rows = [task.to_row() | {name: of(i) for name, of in more.items()} for i, task in tasks]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Seven tasks with solve rates in no order."""
    tasks = enumerate(seed_tasks("nano", 7, 5, guard_of(NANO_SETS)))
    return write(
        tmp_path_factory.mktemp("given") / "t.jsonl", tasks, solve_rate=lambda i: i % 4 / 4
    )


@pytest.fixture(scope="module")
def fixed(runs, given, tmp_path_factory):
    """A run of three steps on them, with two students and an evolution."""
    return runs.train(tmp_path_factory.mktemp("fixed") / "run", f"rollout.tasks={given}", FIXED)


def calls(rows):
    """Program and input of each row."""
    return [(row["program"], row["input"]) for row in rows]


def test_students_learn_from_the_file_and_evolve_and_nobody_proposes(runs, fixed, tmp_path):
    run = read_run(fixed)
    assert run.config["teachers"] == 0
    assert {name for row in run.steps for name in row.members} == {"s0", "s1", "s2"}
    assert any(m.stepped for row in run.steps for m in row.members.values())
    assert [birth.child for _, birth in run.births] == ["s2"]
    for row in run.steps:
        assert not {"propose", "verify"} & row.seconds.keys()
        assert row.ratings.keys() >= {"tasks"}
        assert row.teacher_reward is None
        assert row.valid_share == 1.0
        assert any("s" in name for name in step_metrics(row, runs.config()))
    with League(fixed / "league", read_only=True) as league:
        assert [pair.teacher for pair in league.pair(1)] == ["tasks", "tasks"]
        assert sorted(league.members("student")) == sorted(run.steps[-1].ratings.keys() - {"tasks"})
    assert {row.member for row in run.evals} >= {"base", "s2"}
    assert all(row.teaching is UNSET and row.rate for row in run.evals)
    report(fixed, tmp_path / "page.html")
    assert "the file → s0" in (tmp_path / "page.html").read_text()
    assert "2 students on the tasks of" in summary(fixed)


def test_every_task_comes_once_before_any_comes_again(runs, fixed, given):
    file = set(calls(runs.rows(given)))
    drawn = calls(runs.rows(fixed / "tasks.jsonl"))  # two students, three tasks a step, three steps
    assert len(drawn) == 18
    assert set(drawn[:7]) == set(drawn[7:14]) == file
    assert drawn[:7] != drawn[7:14]


def test_order_by_solve_rate_by_chance_and_as_recorded(runs, given, tmp_path):
    """Twelve draws of seven tasks."""
    rows, found = runs.rows(given), {}
    rates = dict(zip(calls(rows), (row["solve_rate"] for row in rows), strict=True))
    for order in ("solve_rate", "random", "recorded"):
        own = (f"rollout.tasks={given}", f"rollout.tasks_order={order}", *CALM)
        with new_run(runs.config(*own), tmp_path / order) as run:
            matches = match(run, 1)
            tasks = [p.task for step in (1, 2, 3) for p in propose(run, matches, step)]
        drawn = [(task.program, task.input) for task in tasks]
        found[order], counts = [rates[call] for call in drawn], Counter(drawn)
        assert len(drawn) == 12
        assert (max(counts.values()) <= 2) == (order != "random")
    assert found["solve_rate"] == sorted(found["solve_rate"], reverse=True)
    assert {max(rates.values()), min(rates.values())} <= set(found["solve_rate"])
    assert found["random"] != sorted(found["random"], reverse=True)
    assert found["recorded"] == [*rates.values(), *rates.values()][:12]


def test_a_resumed_run_needs_no_file_and_has_the_same_bytes(runs, fixed, given, tmp_path):
    file = tmp_path / "moved.jsonl"
    file.write_text(given.read_text())
    home = tmp_path / "run"

    def stop(run, row):
        if row.step == 2:
            raise KeyboardInterrupt

    config = runs.config(f"rollout.tasks={file}", FIXED)
    with pytest.raises(KeyboardInterrupt):
        train(config, home, extensions=Extensions(callbacks=[stop]))
    file.unlink()
    resume(home)
    mine, whole = runs.outcome(home), runs.outcome(fixed)
    assert [name for name in whole if mine[name] != whole[name]] == ["config.yaml"]


def test_one_agent_learns_from_its_attempts_at_them(runs, given, tmp_path):
    home = runs.train(tmp_path / "run", "mode=azr", f"rollout.tasks={given}", *CALM, "steps=1")
    rows = runs.rows(home / "tasks.jsonl")
    assert len(rows) == 2
    assert {row["student"] for row in rows} == {"a0"}
    assert all(a["advantage"] is not None for row in rows for a in row["attempts"])
    steps = read_run(home).steps
    assert all(row.members.keys() == {"a0"} and row.student_reward is not None for row in steps)


def test_all_kinds_of_a_file_are_proved_once_and_a_repeated_row_counts_twice(runs, tmp_path):
    tasks = [t for name in ("nano_code_o", "nano_code_f") for t, _ in tasks_of(name)[:3]]
    file = write(tmp_path / "t.jsonl", enumerate([*tasks, tasks[1]]))
    kinds, other = "rollout.kinds=[code_o, code_f]", "eval.held_out=[easy_code_o]"
    own = (f"rollout.tasks={file}", kinds, other, *CALM, "steps=1")
    home = runs.train(tmp_path / "run", *own)
    assert {row["kind"] for row in runs.rows(home / "tasks.jsonl")} == {"code_o", "code_f"}
    seeds = runs.rows(home / "seeds.jsonl")
    assert len(seeds) == len({row["id"] for row in seeds}) == 7
    programs = [task.program for task in tasks]
    assert sorted(row["program"] for row in seeds) == sorted([*programs, programs[1]])


IDENTITY = '{"kind": "code_o", "program": "def f(x):\\n    return x", "input": "1", "output": "1"}'


@pytest.mark.parametrize(
    ("text", "own", "said"),
    [
        (None, "steps=1", "there is no file"),
        ("", "steps=1", "expected rows as `selfplay tasks` writes them"),
        ('{"program": 3}', "steps=1", "line 1"),
        (IDENTITY, "rollout.kinds=[code_o,code_f]", "has no valid task of code_f; give some, or"),
        (IDENTITY, "rollout.tasks_order=solve_rate", "or --set rollout.tasks_order=shuffled"),
    ],
)
def test_a_wrong_file_is_one_line_and_leaves_nothing(runs, tmp_path, text, own, said):
    file, home = tmp_path / "given.jsonl", tmp_path / "run"
    if text is not None:
        file.write_text(text)
    done = command(*runs.arguments(home, f"rollout.tasks={file}", own))
    refused(done, "rollout.tasks", said)
    assert not home.exists()


def test_teachers_and_a_file_exclude_each_other(runs, given):
    assert runs.config("teachers=3", f"rollout.tasks={given}").founders == ["s0", "s1"]
    with pytest.raises(ConfigError, match=r"teachers is 0 and rollout.tasks is None; expected"):
        runs.config("teachers=0")


def test_teachers_that_are_typed_beside_a_file_are_refused_and_those_of_a_preset_left_out():
    tasks = "rollout.tasks=t.jsonl"
    said = "teachers is 3 and rollout.tasks is t.jsonl, .* leave out teachers, or --set"
    for assignments, teachers in (((tasks,), 3), ((tasks, "teachers=3"), None)):
        with pytest.raises(ConfigError, match=said):
            load_preset("nano", *assignments, teachers=teachers)
    assert load_preset("nano", tasks).teachers == 0
    assert load_preset("nano", tasks, "teachers=0", teachers=3).teachers == 0
    assert load_preset("nano", tasks, "rollout.tasks=null", teachers=3).teachers == 3
