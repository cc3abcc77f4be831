"""A run in which a role cannot learn says so, and why."""

import pytest

from selfplay import Extensions
from selfplay.files.read import cut_roles, idle_roles, read_run, warnings_of
from selfplay.files.rows import MemberRow, StepRow
from selfplay.step import train_step
from selfplay.training import open_run, train
from selfplay_command import train_until

SHORT = (
    *("steps=6", "eval.eval_every=0", "eval.same_tasks=0", "evolution.evolve_every=0"),
    *("teachers=1", "students=1"),
)
STILL = ("learner.learning_rate=0", "learner.teacher_learning_rate=null")
SAME = "all that is compared earned the same reward"
CUT = "all their texts ended at the most tokens that are allowed"


def constant(written):
    return 0.25


def lines(capsys):
    return [line for line in capsys.readouterr().err.splitlines() if "learned in 5" in line]


@pytest.mark.parametrize(
    ("settings", "rewards", "expected"),
    [
        (STILL, {}, dict.fromkeys(("teacher", "student"), "learner.learning_rate is 0")),
        (("learner.entropy_coef=0.01",), {"student_reward": constant}, {"student": SAME}),
        (
            ("rollout.max_proposal_length=2",),
            {},
            {"teacher": CUT, "student": "no proposal was a valid task"},
        ),
    ],
    ids=["rate", "entropy", "invalid"],
)
def test_a_role_that_never_learns_is_named_once_with_why(
    runs, tmp_path, capsys, settings, rewards, expected
):
    home = tmp_path / "run"
    train(runs.config(*SHORT, *settings), home, extensions=Extensions(**rewards))
    err = capsys.readouterr().err.splitlines()
    told = "step 1: every text of the teachers ended at the limit of 2 tokens; raise "
    told += "rollout.max_proposal_length, for a model that thinks to thousands"
    assert (told in err) == ("rollout.max_proposal_length=2" in settings)
    said = [f"step 5: no {role} learned in 5 steps: {why}" for role, why in expected.items()]
    assert sorted(line for line in err if "learned in 5" in line) == sorted(said)
    signs = [f"In the last 5 steps no {role} learned: {why}" for role, why in expected.items()]
    assert sorted(w for w in warnings_of(read_run(home)) if "learned" in w) == sorted(signs)


def test_teachers_that_are_not_to_learn_are_no_news(runs, tmp_path, capsys):
    train(runs.config(*SHORT, "learner.frozen=[t0]"), tmp_path / "run")
    assert not [line for line in lines(capsys) if "teacher" in line]
    assert not [w for w in warnings_of(read_run(tmp_path / "run")) if "teacher learned" in w]


def test_it_is_said_after_a_resume_too_and_once(runs, tmp_path, capsys):
    home, config = tmp_path / "run", runs.config(*SHORT, "steps=7", *STILL)
    train_until(4, config, home)
    assert not lines(capsys)
    with open_run(home) as run:
        for _ in range(3):
            train_step(run)
    assert len(lines(capsys)) == 2
    with open_run(home) as run:
        train_step(run)
    assert not lines(capsys)


def steps(**row):
    return [StepRow(step=n, members={"s0": MemberRow(role="student", **row)}) for n in range(1, 6)]


def test_answers_that_are_all_cut_are_the_reason():
    rows = steps(stepped=False, cut=1.0, well_formed=0.0)
    assert cut_roles(rows[0]) == {"student"}
    assert idle_roles(rows, {}) == {"student": CUT}
    assert not idle_roles(rows[1:], {})
    assert not cut_roles(steps(cut=1.0, well_formed=0.5)[0])


def test_a_number_that_is_not_finite_is_the_reason():
    rows = steps(stepped=False, skipped="its loss is nan")
    assert idle_roles(rows, {}) == {"student": "its loss is nan"}
