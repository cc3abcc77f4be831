"""What a run shows while it trains, on a terminal of 80 columns and elsewhere."""

import re
from io import StringIO
from pathlib import Path

import pytest
from msgspec import UNSET
from rich.console import Console

from selfplay import Extensions
from selfplay.files.record import read_run
from selfplay.files.rows import (
    EvalRow,
    MemberRow,
    RateRow,
    SolvingRow,
    StepRow,
)
from selfplay.reports.findings import idle_roles, warnings_of
from selfplay.reports.progress import PATIENCE_S, Progress
from selfplay.training import train

HOME = Path("runs/a-run")
SECONDS = {"match": 1.0, "propose": 300.0, "solve": 200.0, "update": 99.0}


def shown(*, terminal=True):
    """Return a progress, for which no time passes, and what it prints to."""
    said, kind = StringIO(), {"force_terminal": terminal, "color_system": None}
    return Progress(Console(file=said, width=80, get_time=float, **kind)), said


def seen(said):
    """The lines that were written, those of the bar too."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.getvalue()).replace("\r", "\n").splitlines()


def rate(**values):
    numbers = {"solve_rate": 0.5, "base_solve_rate": 0.25, "difference": 0.25}
    numbers["standard_error"] = 0.1
    kinds = {"code_o": RateRow(**numbers)}
    return SolvingRow(**numbers | values, kinds=kinds)


def test_a_start_says_what_run_it_is_and_how_to_stop_and_resume(runs):
    progress, said = shown()
    with progress.showing(runs.config("steps=40", "save_every=2"), HOME):
        pass
    for words in (
        "populora on nano: 2 teachers, 2 students, 40 steps, seed 1, in runs/a-run\n",
        "Ctrl-C stops it; from its last checkpoint (one every 2 steps)",
        f"selfplay resume {HOME}\n",
    ):
        assert words in said.getvalue()
    progress, said = shown(terminal=False)
    with progress.showing(runs.config("steps=2", "mode=azr"), Path("a run"), 1):
        pass
    first, _, resume, *_ = said.getvalue().splitlines()
    assert first == "azr on nano: one agent, 1 of 2 steps done, seed 1, in a run"
    assert resume.endswith("selfplay resume 'a run'")


def test_a_run_whose_teachers_learn_is_told_what_may_come(runs):
    for settings, frozen in (
        *(((), "t0,t1"), (("learner.teacher_learning_rate=0",), "")),
        *((("learner.frozen=t0",), "t0,t1"), (("learner.frozen=t0,t1",), "")),
        (("mode=azr",), "t0,t1"),
    ):
        progress, said = shown(terminal=False)
        with progress.showing(runs.config(*settings), HOME):
            pass
        assert ("In long runs " in said.getvalue()) == bool(frozen)
        assert max(map(len, said.getvalue().splitlines())) <= 80
        last = said.getvalue().splitlines()[-1]
        assert last.endswith(f"--set learner.frozen={frozen}" if frozen else str(HOME))
        assert ("--mode populora" in last) == ("mode=azr" in settings)


def test_without_a_terminal_a_line_comes_every_fifth_step_or_after_a_minute(runs, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("selfplay.reports.progress.monotonic", lambda: now[0])
    progress, said = shown(terminal=False)
    with progress.showing(runs.config("steps=20"), HOME):
        progress.phase("solve")
        for step in range(1, 11):
            now[0] += PATIENCE_S if step in (2, 3) else 0.0
            progress.step(StepRow(step=step, seconds={"solve": 1.0}))
    lines = [line for line in said.getvalue().splitlines() if line.startswith("step")]
    assert [line.partition(":")[0] for line in lines] == [f"step {n} of 20" for n in (2, 3, 5, 10)]
    assert lines[-1].endswith("; about 10.0 s left")
    assert "\x1b" not in said.getvalue()


def of_hundred(step, member, solved):
    of_tasks = (1,) * solved + (0,) * (100 - solved)
    numbers = rate(solve_rate=solved / 100, solved=of_tasks, judged=(1,) * 100)
    return EvalRow(step=step, member=member, role=member, solving=numbers)


def test_a_role_that_learns_nothing_in_five_steps_is_named_once_with_the_reason(runs, tmp_path):
    progress, said = shown(terminal=False)
    settings = ("steps=6", "teachers=1", "students=1", "eval.eval_every=0", "eval.same_tasks=0")
    config, home = runs.config(*settings, "learner.frozen=t0"), tmp_path / "run"
    equal = Extensions(student_reward=lambda attempt: 0.5)
    train(config, home, extensions=equal, progress=progress)
    run = read_run(home)
    assert not any(row.stepped for step in run.steps for row in step.members.values())
    lines = [line for line in seen(said) if "learned:" in line]
    reason = "no student learned: rewards that are compared with each other were equal (0.5 in the"
    assert len(lines) == 1
    assert f"warning: in the last 5 steps {reason}" in lines[0]
    assert any(f"In the last 5 steps {reason}" in line for line in warnings_of(run))


EQUAL = {"stepped": False, "tokens": 9, "learning_rate": 1e-5, "reward": 1.0, "cut": 0.5}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "rewards that are compared with each other were equal (1 in the mean)"),
        ({"stepped": True, "regularised": True}, "were equal (1 in the mean)"),
        ({"skipped": "its loss is nan"}, "its loss is nan"),
        ({"learning_rate": 0.0}, "the learning rate is 0"),
        ({"tokens": UNSET, "stepped": UNSET, "solve_rate": None}, "there was no valid task"),
        ({"cut": 1.0}, "every text ended at the token limit"),
        ({"stepped": True}, None),
        ({"tokens": UNSET, "stepped": UNSET}, None),
    ],
)
def test_why_a_role_learns_nothing(changes, words):
    idle, busy = (
        MemberRow(role="student", **EQUAL | changes),
        MemberRow(role="teacher", stepped=True),
    )
    steps = [StepRow(step=i, members={"s0": idle, "t0": busy}) for i in range(1, 6)]
    lines = idle_roles(steps)
    assert list(lines) == ([] if words is None else ["student"])
    assert words is None or words in lines["student"]
    assert not idle_roles(steps[1:]), "four steps are too few"
    assert not idle_roles(steps, frozen=["s0"])


def test_a_role_whose_texts_are_all_cut_is_named_with_the_setting_to_raise(runs, tmp_path):
    home, (progress, said) = tmp_path / "run", shown(terminal=False)
    short = ("steps=1", "rollout.max_proposal_length=2", "eval.eval_every=0", "eval.same_tasks=0")
    train(runs.config(*short), home, progress=progress)
    line = "every text of the teachers ended at the token limit; raise rollout.max_proposal_length"
    assert f"warning: {line}" in " ".join(said.getvalue().split())
    assert warnings_of(read_run(home)) == [f"In the last step {line}"]
