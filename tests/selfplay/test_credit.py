"""Credit: rewards and advantages of a step made by hand, and whom it trains on what."""

from dataclasses import replace
from math import sqrt

import pytest

from code_verifier import Proposal, Task
from evals.engine.rollout import Rollout
from selfplay.config.run_config import RunConfig
from selfplay.population.writing import Written
from selfplay.run.stages import FORM, Attempt, Match, Proposed, Solved, Verified
from selfplay.step.credit import assign_credit
from selfplay.step.step_record import task_rows

PROGRAM = "def f(a):\n    return a"
MATCH = Match("t0", "s0")


def rollout(n, reason="stop"):
    """A sample that its first token tells from all others."""
    return Rollout("s0", (1, 2), (n, 7, 7), (-1.0, -2.0, -3.0), reason)


def solved(n, scores, *, match=MATCH, kind="code_o", status="ok"):
    """A proposal with attempts of these scores; None is an ill-formed text."""
    proposal = None if status == FORM else Proposal(kind, PROGRAM, "1")
    written = Written(rollout(1000 * n), "text", proposal, proposal)
    p = Proposed(f"p{n}", n, match, kind, (), written)
    task = Task(kind, PROGRAM, "1", "1") if status == "ok" else None
    attempts = tuple(
        Attempt(
            rollout(1000 * n + 1 + i, "length" if score is None else "stop"),
            "text",
            None if score is None else "1",
            score or 0.0,
            "",
        )
        for i, score in enumerate(scores)
    )
    return Solved(Verified(p, status, "", task, None), attempts)


STEP = [
    solved(0, [1.0, 1.0, 0.0, None]),  # rho 0.5
    solved(1, [0.0, 0.0, 0.0, 0.0]),  # nobody
    solved(2, [1.0, 1.0, 1.0, 1.0]),  # everybody
    solved(3, [], status=FORM),
    solved(4, [], status="exception"),
]


def test_rho_is_the_share_of_attempts_that_solved_the_task():
    assert [s.rho for s in STEP] == [0.5, 0.0, 1.0, 0.0, 0.0]


def test_partial_credit_does_not_count_as_solved():
    assert solved(0, [0.5, 1.0]).rho == 0.5


def test_teachers_earn_by_the_papers_table():
    credit = assign_credit(STEP, RunConfig())
    assert [p.reward for p in credit.proposals] == [0.5, 0.0, 0.0, -1.0, -1.0]
    assert {(p.member, p.role) for p in credit.proposals} == {("t0", "propose")}


def test_the_single_agent_earns_by_azrs_table():
    agent = Match("a0", "a0")
    step = [
        solved(0, [1.0, 0.0, 0.0, 0.0], match=agent),
        solved(1, [0.0] * 4, match=agent),
        solved(2, [1.0] * 4, match=agent),
        solved(3, [], match=agent, status=FORM),
    ]
    credit = assign_credit(step, RunConfig(mode="azr"))
    assert [p.reward for p in credit.proposals] == [0.75, -0.5, -0.5, -1.0]
    assert {p.member for p in (*credit.proposals, *credit.attempts)} == {"a0"}
    assert {p.role for p in credit.proposals} == {"propose"}
    assert {p.role for p in credit.attempts} == {"solve"}
    assert [a.reward for a in credit.attempts[:4]] == [1.0, -0.5, -0.5, -0.5]


def test_students_earn_by_their_own_table():
    credit = assign_credit(STEP, RunConfig())
    assert [a.reward for a in credit.attempts[:4]] == [1.0, 1.0, -0.5, -1.0]
    plain = replace(RunConfig().reward, right=1.0, wrong=0.0, ill_formed=0.0)
    credit = assign_credit(STEP, RunConfig(reward=plain))
    assert [a.reward for a in credit.attempts[:4]] == [1.0, 1.0, 0.0, 0.0]


def test_the_rollouts_behind_rho_are_the_ones_the_student_learns_from():
    credit = assign_credit(STEP, RunConfig())
    teacher = [s for s in credit.samples if s.member == "t0"]
    student = [s for s in credit.samples if s.member == "s0"]
    assert [s.completion_ids[0] for s in teacher] == [0, 1000, 2000, 3000, 4000]
    assert [s.completion_ids[0] for s in student] == [
        a.rollout.completion_ids[0] for s in STEP for a in s.attempts
    ]
    for sample, attempt in zip(student, (a for s in STEP for a in s.attempts), strict=True):
        assert sample.logprobs == attempt.rollout.logprobs
        assert sample.prompt_ids == attempt.rollout.prompt_ids
        assert sample.truncated == (attempt.rollout.finish_reason == "length")


def test_advantages_of_the_hand_made_step():
    credit = assign_credit(STEP, RunConfig())
    rewards = [0.5, 0.0, 0.0, -1.0, -1.0]
    mean = sum(rewards) / 5
    std = sqrt(sum((r - mean) ** 2 for r in rewards) / 4)
    teaching = [s.advantage for s in credit.samples[:5]]
    assert teaching == pytest.approx([(r - mean) / std for r in rewards])

    # Centred over each task; the two flat tasks are all zeros; whitened over the twelve.
    baseline = (1.0 + 1.0 - 0.5 - 1.0) / 4
    centred = [1.0 - baseline, 1.0 - baseline, -0.5 - baseline, -1.0 - baseline] + [0.0] * 8
    std = sqrt(sum(c * c for c in centred) / 11)
    solving = [s.advantage for s in credit.samples[5:]]
    assert solving == pytest.approx([c / std for c in centred])
    assert credit.frac_reward_zero_std == pytest.approx(2 / 3)


def test_strata_do_not_touch_each_other():
    alone = assign_credit(STEP, RunConfig())
    others = [
        solved(10, [1.0, 0.0, 0.0, 0.0], kind="code_i"),
        solved(11, [1.0, None, None, None], match=Match("t1", "s1")),
        solved(12, [], match=Match("t1", "s1"), status=FORM),
    ]
    together = assign_credit(STEP + others, RunConfig())

    def mine(credit):
        return [(s.completion_ids, s.advantage) for s in credit.samples]

    assert set(mine(alone)) <= set(mine(together))
    only_one = [s for s in together.samples if s.completion_ids[0] == 10_000]
    assert [s.advantage for s in only_one] == [0.0]


def test_a_step_without_any_valid_task_teaches_teachers_only():
    credit = assign_credit([solved(0, [], status=FORM), solved(1, [], status=FORM)], RunConfig())
    assert credit.attempts == ()
    assert [s.advantage for s in credit.samples] == [0.0, 0.0]
    assert credit.frac_reward_zero_std == 0.0


def faulty(step, places):
    """The step after faults of the sandbox: at these attempts, or before any."""
    broken = []
    for s, tries in zip(step, places, strict=True):
        if tries == "all":
            verified = replace(s.verified, status="sandbox_error", task=None)
            broken.append(Solved(verified, ()))
        else:
            attempts = tuple(replace(a, void=i in tries) for i, a in enumerate(s.attempts))
            broken.append(Solved(s.verified, attempts))
    return broken


def test_a_fault_of_the_sandbox_teaches_nobody():
    """Where it failed altogether, the step equals the one without these tasks."""
    step = [*STEP, solved(5, [0.0, 1.0, 1.0, 0.0]), solved(6, [0.0, 1.0])]
    places = ["all", (), (), (), (), "all", (0, 1)]
    kept = step[1:5]
    assert assign_credit(faulty(step, places), RunConfig()) == assign_credit(kept, RunConfig())


def test_a_faulty_attempt_enters_neither_rho_nor_the_baseline():
    whole = solved(0, [1.0, 0.0, 0.0, None])
    (broken,) = faulty([whole], [(1,)])
    fewer = Solved(whole.verified, (whole.attempts[0], *whole.attempts[2:]))
    assert broken.rho == fewer.rho == pytest.approx(1 / 3)
    other = solved(1, [1.0, 0.0])
    assert assign_credit([broken, other], RunConfig()) == assign_credit([fewer, other], RunConfig())


def test_rows_say_what_every_text_earned_and_was_moved_by():
    credit = assign_credit(STEP, RunConfig())
    rows = task_rows(STEP, credit, 1)
    assert [row.reward for row in rows] == [p.reward for p in credit.proposals]
    moved = [s.advantage for s in credit.samples]
    assert [row.advantage for row in rows] == moved[: len(rows)]
    told = [(a.answer, a.score, a.count, a.reward, a.advantage) for a in rows[0].attempts]
    rewards = [a.reward for a in credit.attempts]
    first = len(rows)
    assert told == [
        ("1", 1.0, 2, rewards[0], moved[first]),
        ("1", 0.0, 1, rewards[2], moved[first + 2]),
        (None, 0.0, 1, rewards[3], moved[first + 3]),
    ]
    assert told[0][4] > 0.0 > told[1][4] > told[2][4]


def test_what_the_sandbox_broke_moved_nobody():
    broken = replace(STEP[0], attempts=tuple(replace(a, void=True) for a in STEP[0].attempts))
    whole = solved(5, [1.0, 1.0, 0.0])
    first, *others = whole.attempts
    half = replace(whole, attempts=(replace(first, void=True), *others))
    rows = task_rows([broken, half], assign_credit([broken, half], RunConfig()), 1)
    assert (rows[0].reward, rows[0].advantage) == (None, None)
    assert {(a.reward, a.advantage) for a in rows[0].attempts} == {(None, None)}
    assert all(a.reward is not None for a in rows[1].attempts)
