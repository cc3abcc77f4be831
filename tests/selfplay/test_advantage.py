import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.learning.advantage import (
    RewardedSample,
    student_advantages,
    teacher_advantages,
    whiten,
)


def sample(reward, *, member="s0", role="student", kind="code_o", task=0, tokens=1):
    return RewardedSample(member, role, kind, reward, task, tokens)


def test_students_are_centred_per_task_then_whitened_per_stratum():
    rewards = {0: [1.0, -0.5, -0.5], 1: [1.0, 1.0, -1.0]}
    samples = [sample(r, task=t) for t, rs in rewards.items() for r in rs]
    centred = np.concatenate([np.array(rs) - np.mean(rs) for rs in rewards.values()])
    expected = (centred - centred.mean()) / centred.std(ddof=1)
    assert student_advantages(samples).values == pytest.approx(expected)


def test_teachers_are_whitened_without_regard_to_tasks():
    rewards = [-1.0, 0.0, 0.25, 0.75]
    samples = [sample(r, role="teacher", task=i) for i, r in enumerate(rewards)]
    expected = (np.array(rewards) - np.mean(rewards)) / np.std(rewards, ddof=1)
    assert teacher_advantages(samples).values == pytest.approx(expected)


def test_strata_do_not_touch_each_other():
    own = [sample(r, task=i) for i, r in enumerate([1.0, -0.5, -1.0])]
    alone = teacher_advantages(own).values
    for change in ({"member": "s1"}, {"role": "teacher"}, {"kind": "code_f"}):
        crowd = [sample(100.0, **change), *own, sample(-100.0, **change)]
        assert teacher_advantages(crowd).values[1:-1] == alone


def test_token_weighting_is_whitening_of_every_token():
    rewards, tokens = [1.0, -0.5, -1.0, 1.0], [3, 5, 2, 7]
    samples = [sample(r, tokens=t) for r, t in zip(rewards, tokens, strict=True)]
    repeated = np.repeat(rewards, tokens)
    expected = (np.array(rewards) - repeated.mean()) / repeated.std(ddof=1)
    assert teacher_advantages(samples, token_weighted=True).values == pytest.approx(expected)


@pytest.mark.parametrize("rewards", [[], [1.0], [0.1 + 0.2, 0.3], [0.7] * 9])
def test_nothing_to_compare_gives_exact_zeros(rewards):
    samples = [sample(r) for r in rewards]
    for function in (student_advantages, teacher_advantages):
        for weighted in (False, True):
            result = function(samples, token_weighted=weighted)
            assert result.values == (0.0,) * len(rewards)
            assert result.frac_strata_zero_std == (1.0 if rewards else 0.0)


def test_frac_reward_zero_std_counts_groups():
    samples = [sample(r, task=t) for t, r in [(0, 1.0), (0, 1.0), (1, 1.0), (1, -0.5)]]
    result = student_advantages(samples)
    assert result.frac_reward_zero_std == 0.5
    assert result.frac_strata_zero_std == 0.0


def test_an_attempt_without_company_keeps_its_reward_as_signal():
    samples = [sample(1.0, task=0), sample(-0.5, task=1)]
    assert student_advantages(samples).values == pytest.approx((2**-0.5, -(2**-0.5)))


def test_a_reward_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="reward of a sample of 's0' is nan"):
        teacher_advantages([sample(float("nan")), sample(1.0)])


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.125, 1.0]), max_size=20))
def test_whitened_values_are_finite_with_mean_0_and_deviation_1_or_all_zero(rewards):
    values = whiten(np.array(rewards))
    assert np.isfinite(values).all()
    if values.any():
        assert values.mean() == pytest.approx(0.0, abs=1e-12)
        assert values.std(ddof=1) == pytest.approx(1.0)
