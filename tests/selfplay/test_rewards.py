"""Rewards and advantages of a step made by hand, and whom it trains on what."""

import asyncio
import math
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from code_verifier import Proposal, Task
from lora_evo.model import Rollout
from selfplay.config import Config, read_config
from selfplay.errors import SelfplayError
from selfplay.learning.batch import TrainingSample
from selfplay.learning.rewards import (
    TEACHER_REWARDS,
    advantages,
    training_samples,
    verifier,
)
from selfplay.sampling.texts import FORM, Attempt, Proposed
from selfplay.step_rows import frac_reward_zero_std, task_row

PROGRAM = "def f(a):\n    return a"
OF_STUDENTS = partial(advantages, by_task=True)
OF_TEACHERS = partial(advantages, by_task=False)


def rollout(n, reason="stop"):
    """A sample that differs from all others in its first token."""
    return Rollout("s0", (1, 2), (n, 7, 7), (-1.0, -2.0, -3.0), reason, "text")


def solved(n, scores, *, match=("t0", "s0"), kind="code_o", status="ok"):
    """A proposal with attempts of these scores; None is an ill-formed text."""
    task = Task(kind, PROGRAM, "1", "1") if status == "ok" else None
    attempts = [
        Attempt(
            match[1],
            task,
            0,
            1.0,
            rollout(1000 * n + 1 + i, "length" if score is None else "stop"),
            None if score is None else "1",
            score or 0.0,
        )
        for i, score in enumerate(scores)
    ]
    proposal = None if status == FORM else Proposal(kind, PROGRAM, "1")
    written = {"rollout": rollout(1000 * n), "proposal": proposal}
    asked = Proposed(n, f"p{n}", *match, kind, (), 0, **written)
    return replace(asked, status=status, task=task, attempts=attempts)


STEP = [
    solved(0, [1.0, 1.0, 0.0, None]),  # solve rate 0.5
    solved(1, [0.0, 0.0, 0.0, 0.0]),  # no attempt
    solved(2, [1.0, 1.0, 1.0, 1.0]),  # all attempts
    solved(3, [], status=FORM),
    solved(4, [], status="exception"),
]


def recorded(step, student_reward=None):
    """Samples and rows of a step whose texts know what they earned, as after an update."""
    samples = training_samples(step, Config(), (), None, student_reward)
    for sample in samples:
        sample.text.reward, sample.text.advantage = sample.reward, sample.advantage
    return samples, [task_row(p, 1) for p in step]


def split(samples):
    return [[s for s in samples if s.phase == phase] for phase in ("propose", "solve")]


def compared(rate, *, rival=(), valid=True):
    """A proposal that so much of four attempts solve, and what another student does."""
    p = solved(0, [float(i < 4 * rate) for i in range(4)], status="ok" if valid else "exception")
    return replace(p, rival_attempts=solved(0, rival).attempts)


@pytest.mark.parametrize(
    ("rate", "rewards"),
    [
        (0.0, {"populora": 0.0, "azr": -0.5, "learnability": 0.0, "regret": 0.5}),
        (0.25, {"populora": 0.75, "azr": 0.75, "learnability": 0.75, "regret": 0.25}),
        (0.5, {"populora": 0.5, "azr": 0.5, "learnability": 1.0, "regret": 0.0}),
        (1.0, {"populora": 0.0, "azr": -0.5, "learnability": 0.0, "regret": 0.0}),
    ],
)
def test_what_a_proposal_earns_by_its_solve_rate(rate, rewards):
    p = compared(rate, rival=[1.0, 0.0])
    assert {name: reward(p) for name, reward in TEACHER_REWARDS.items()} == rewards
    refused = compared(rate, valid=False)
    assert {reward(refused) for reward in TEACHER_REWARDS.values()} == {-1.0}


def test_a_task_whose_witness_got_no_verdict_teaches_no_teacher():
    broken = replace(STEP[0].attempts[0], infra_error=True)
    step = [compared(0.5, rival=[1.0]), replace(compared(0.5), rival_attempts=(broken,))]
    proposals, attempts = split(training_samples(step, Config(), (), TEACHER_REWARDS["regret"]))
    assert ([p.reward for p in proposals], len(attempts)) == ([0.5], 8)


def test_a_reward_whose_witness_was_never_asked_is_refused():
    with pytest.raises(SelfplayError, match=r"regret needs attempts of the rival, and p0 has none"):
        training_samples(STEP, Config(), (), TEACHER_REWARDS["regret"])


def test_the_configured_rewards_are_those_that_none_is_given_for():
    proposals, _ = split(training_samples(STEP, read_config({"reward": {"teacher": "azr"}})))
    assert [p.reward for p in proposals] == [0.5, -0.5, -0.5, -1.0, -1.0]
    for role, function in (("teacher", lambda p: 1.0), ("student", lambda a: 1.0)):
        config = read_config({"reward": {role: "mine:reward"}})
        with pytest.raises(SelfplayError, match=r"teacher_reward=run.extensions.teacher_reward"):
            training_samples(STEP, config)
        samples = training_samples(STEP, config, (), **{f"{role}_reward": function})
        assert {s.reward for s in split(samples)[role == "student"]} == {1.0}


def test_every_member_earns_by_its_table():
    assert [p.solve_rate for p in STEP] == [0.5, 0.0, 1.0, 0.0, 0.0]
    assert solved(0, [0.5, 1.0]).solve_rate == 0.5, "partial credit is not solved"
    proposals, attempts = split(training_samples(STEP, Config()))
    assert [p.reward for p in proposals] == [0.5, 0.0, 0.0, -1.0, -1.0]
    assert {p.member for p in proposals} == {"t0"}
    assert [a.reward for a in attempts[:4]] == [1.0, 1.0, -0.5, -1.0]
    assert verifier(solved(0, [0.25]).attempts[0]) == 0.25
    assert split(training_samples(STEP[3:], Config()))[1] == []


def test_absolute_zero_learns_from_earlier_tasks_whitened_over_tokens():
    config = read_config({"mode": "azr"})
    assert config.reward.teacher == "azr"
    agent = {"match": ("a0", "a0")}
    step = [solved(n, [1.0, 0.0], **agent) for n in range(3)]
    replayed = [replace(solved(9 + n, [n % 2], **agent).attempts[0], member="a0") for n in range(3)]
    long = replace(replayed[0].rollout, completion_ids=(1,) * 9, logprobs=(-1.0,) * 9)
    replayed[0] = replace(replayed[0], rollout=long)
    replayed.append(replace(replayed[1], infra_error=True))
    proposals, attempts = split(training_samples(step, config, replayed))
    assert [s.rollout.completion_ids for s in attempts] == [
        a.rollout.completion_ids for a in replayed[:3]
    ]
    # Rewards -0.5 (9 tokens), 1 and -0.5 (3 each), no task with a second attempt to centre over.
    mean = (-0.5 * 9 + 1.0 * 3 - 0.5 * 3) / 15
    std = sqrt((12 * (-0.5 - mean) ** 2 + 3 * (1.0 - mean) ** 2) / 14)
    expected = [(r - mean) / std for r in (-0.5, 1.0, -0.5)]
    assert [s.advantage for s in attempts] == pytest.approx(expected)
    assert len(proposals) == 3
    assert training_samples(step, read_config({}), replayed) == training_samples(step, Config())


def test_advantages_of_the_hand_made_step():
    samples = training_samples(STEP, Config())
    rewards = [0.5, 0.0, 0.0, -1.0, -1.0]
    mean = sum(rewards) / 5
    std = sqrt(sum((r - mean) ** 2 for r in rewards) / 4)
    assert [s.advantage for s in samples[:5]] == pytest.approx([(r - mean) / std for r in rewards])
    # Centred over each task; the two flat tasks are all zeros; whitened over the twelve.
    baseline = (1.0 + 1.0 - 0.5 - 1.0) / 4
    centred = [1.0 - baseline, 1.0 - baseline, -0.5 - baseline, -1.0 - baseline] + [0.0] * 8
    std = sqrt(sum(c * c for c in centred) / 11)
    assert [s.advantage for s in samples[5:]] == pytest.approx([c / std for c in centred])
    assert frac_reward_zero_std(samples) == pytest.approx(2 / 3)
    assert frac_reward_zero_std(samples[:5]) == 0.0


def test_an_attempt_without_verdict_enters_neither_solve_rate_nor_baseline():
    """And a task none of whose attempts has one enters nothing."""
    whole, other = solved(0, [1.0, 0.0, 0.0, None]), solved(1, [1.0, 0.0])
    (first, second, *rest), (third,) = whole.attempts, solved(2, [1.0]).attempts
    broken = replace(whole, attempts=(first, replace(second, infra_error=True), *rest))
    lost = replace(solved(2, []), attempts=(replace(third, infra_error=True),))
    fewer = replace(whole, attempts=(first, *rest))
    assert broken.solve_rate == fewer.solve_rate == pytest.approx(1 / 3)
    samples, (row, _, none) = recorded([broken, other, lost])
    of_fewer = training_samples([fewer, other], Config())
    assert [(s.task_id, s.reward, s.advantage) for s in samples] == [
        (s.task_id, s.reward, s.advantage) for s in of_fewer
    ]
    assert {a.verdict: a.reward is None for a in row.attempts}["not judged"]
    assert all(a.reward is not None for a in row.attempts if a.verdict != "not judged")
    assert (none.reward, none.advantage) == (None, None)
    assert {(a.reward, a.advantage) for a in none.attempts} == {(None, None)}


def test_rows_say_what_every_text_earned_and_was_moved_by():
    samples, rows = recorded(STEP)
    first = len(rows)
    assert [row.reward for row in rows] == [s.reward for s in samples[:first]]
    assert [row.advantage for row in rows] == [s.advantage for s in samples[:first]]
    found = [(a.answer, a.score, a.count, a.reward, a.advantage) for a in rows[0].attempts]
    assert found == [
        (answer, score, count, samples[first + i].reward, samples[first + i].advantage)
        for answer, score, count, i in (("1", 1.0, 2, 0), ("1", 0.0, 1, 2), (None, 0.0, 1, 3))
    ]
    assert found[0][4] > 0.0 > found[1][4] > found[2][4]


def test_equal_answers_of_unequal_rewards_have_a_row_each():
    """As by a reward of one's own for short texts."""

    def short(attempt):
        return attempt.score - len(attempt.rollout.completion_ids) / 10

    p = solved(0, [1.0, 1.0, 1.0, 0.0])
    p.attempts[1].rollout = replace(p.attempts[1].rollout, completion_ids=(1,), logprobs=(-1.0,))
    _, (row,) = recorded([p], short)
    found = [(a.count, a.score, a.reward) for a in row.attempts]
    assert found == [(2, 1.0, 0.7), (1, 1.0, 0.9), (1, 0.0, -0.3)]


def sample(reward, *, member="s0", phase="solve", kind="code_o", task=0, tokens=1):
    ids = (0,) * tokens
    sampled = Rollout(member, (1,), ids, (0.0,) * tokens, "stop")
    return TrainingSample(member, sampled, phase=phase, kind=kind, reward=reward, task_id=str(task))


def test_strata_do_not_touch_each_other():
    own = [sample(r, task=i) for i, r in enumerate([1.0, -0.5, -1.0])]
    alone = OF_TEACHERS(own)
    for change in ({"member": "s1"}, {"phase": "propose"}, {"kind": "code_f"}):
        crowd = [sample(100.0, **change), *own, sample(-100.0, **change)]
        assert OF_TEACHERS(crowd)[1:-1] == alone


def test_an_attempt_without_company_keeps_its_reward_as_signal():
    samples = [sample(1.0, task=0), sample(-0.5, task=1)]
    assert OF_STUDENTS(samples) == pytest.approx([2**-0.5, -(2**-0.5)])


def test_a_seed_replayed_as_two_kinds_is_two_tasks_of_one_attempt():
    """As in mode azr."""
    assert frac_reward_zero_std([sample(1.0), sample(1.0, kind="code_i")]) == 0.0


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_beside_a_reward_that_is_not_finite_no_advantage_is(odd):
    for function in (OF_STUDENTS, OF_TEACHERS):
        assert not np.isfinite(function([sample(odd), sample(1.0), sample(0.5)])).any()


@pytest.mark.parametrize("scale", [1e-8, 1e9])
@pytest.mark.parametrize("by_tokens", [False, True])
def test_advantages_do_not_depend_on_the_size_of_rewards(scale, by_tokens):
    def samples(size):
        rewards = enumerate([1, 0, 0.5, -1])
        return [sample(r * size, task=n // 2, tokens=1 + n) for n, r in rewards]

    for function in (OF_STUDENTS, OF_TEACHERS):
        scaled, plain = (function(samples(s), token_weighted=by_tokens) for s in (scale, 1.0))
        assert scaled == pytest.approx(plain, rel=1e-3)
        assert all(scaled)


@given(st.floats(-1e9, 1e9), st.integers(2, 10), st.booleans())
def test_equal_rewards_give_no_advantage_of_any_size(reward, count, by_tokens):
    equal = [sample(reward, tokens=1 + 2 * by_tokens) for _ in range(count)]
    for function in (OF_STUDENTS, OF_TEACHERS):
        for some in (equal, equal[:1], []):
            assert function(some, token_weighted=by_tokens) == [0.0] * len(some)
    assert OF_TEACHERS([sample(0.1 + 0.2), sample(0.3)]) == [0.0, 0.0]
    assert frac_reward_zero_std(equal) == 1.0
    beside = [*equal, sample(1.0, task=1), sample(0.0, task=1)]
    assert OF_STUDENTS(beside)[:count] == [0.0] * count


async def odd(sample):
    return "two\nlines"


def quits(sample):
    sys.exit(3)


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (lambda sample: torch.ones(2), "<lambda> returns tensor.* for WHOM.*; expected a number$"),
        (odd, r"odd returns 'two\\nlines' for WHOM"),
        (len, r"len fails at WHOM.*: TypeError: .*has no len\(\); expected a finite"),
        (quits, r"quits fails at WHOM.*: SystemExit: 3 \(.*test_rewards.py, line \d+\)"),
    ],
)
def test_a_reward_that_gives_no_number_raises_or_quits_is_blamed_itself(reward, words):
    """A coroutine, too."""
    for option, whom in (("teacher", "proposal p0 of t0"), ("student", "an attempt of s0 at ")):
        line = f"^{option}_reward: {words.replace('WHOM', whom)}"
        with pytest.raises(SelfplayError, match=line) as said:
            training_samples(STEP, read_config({}), **{f"{option}_reward": reward})
        assert "\n" not in str(said.value)


async def later(sample):
    waiting.append(sample)
    while len(waiting) < 3:  # of others, which wait at the same time
        await asyncio.sleep(0)
    return len(getattr(sample, "id", "")) + 0.5


waiting: list[object] = []


def test_coroutines_wait_together_and_their_loop_lasts():
    async def in_a_notebook():
        return training_samples(STEP, read_config({}), teacher_reward=later, student_reward=later)

    async def of_a_loop(sample):
        loops.add(asyncio.get_running_loop())
        return 0.5

    teaching, solving = split(asyncio.run(in_a_notebook()))
    assert {s.reward for s in teaching} == {2.5}
    assert {s.reward for s in solving} == {0.5}
    loops: set[object] = set()
    for _ in range(2):
        training_samples(STEP, read_config({}), teacher_reward=of_a_loop)
    assert len(loops) == 1


@pytest.mark.parametrize("value", [1, True, np.float32(0.5), torch.tensor(0.5), Fraction(1, 2)])
def test_any_real_number_is_a_reward(value):
    samples = training_samples(STEP, read_config({}), teacher_reward=lambda p: value)
    rewards = {sample.reward for sample in samples if sample.phase == "propose"}
    assert rewards == {float(value)}
    assert {type(reward) for reward in rewards} == {float}
