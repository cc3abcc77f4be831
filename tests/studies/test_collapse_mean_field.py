"""The mean field of self-play: closed forms, and what it predicts of rewards and populations."""

from dataclasses import replace
from itertools import product
from math import comb

import numpy as np
import pytest
from studies.collapse.mean_field import (
    World,
    expected_reward,
    simulate,
    threshold,
    trap_pay,
)

SEEDS = range(3)


def of_rates(kind, rate, rival):
    """The reward of two observed solve rates, as a run computes it."""
    if kind == "populora":
        return 0.0 if rate == 0.0 else 1.0 - rate
    if kind == "learnability":
        return 4.0 * rate * (1.0 - rate)
    return max(0.0, rival - rate)


@pytest.mark.parametrize("kind", ["populora", "learnability", "regret"])
@pytest.mark.parametrize(("skill", "rival"), [(0.25, 0.25), (0.6, 0.9), (0.9, 0.1), (1.0, 0.0)])
def test_expected_rewards_are_sums_over_all_outcomes(kind, skill, rival):
    attempts = 5

    def chance(k, s):
        return comb(attempts, k) * s**k * (1 - s) ** (attempts - k)

    wanted = sum(
        chance(i, skill) * chance(j, rival) * of_rates(kind, i / attempts, j / attempts)
        for i, j in product(range(attempts + 1), repeat=2)
    )
    found = expected_reward(kind, np.array([skill]), np.array([rival]), attempts)
    assert found == pytest.approx([wanted])


@pytest.mark.parametrize(("luck", "attempts"), [(0.125, 4), (0.25, 6), (0.25, 16), (0.5, 4)])
def test_threshold_is_the_skill_that_pays_as_a_trap_does(luck, attempts):
    rho, pay = threshold(luck, attempts), trap_pay(luck, attempts)
    assert 1 - rho - (1 - rho) ** attempts == pytest.approx(pay)
    # Where students solve something in nearly every group, it is 1 - pay.
    assert rho == pytest.approx(1 - pay, abs=(1 - rho) ** attempts + 1e-9)


@pytest.mark.parametrize("above", [False, True])
def test_teachers_prefer_traps_exactly_above_the_threshold(above):
    rho = threshold(0.25, 6)
    skill = rho + (0.05 if above else -0.05)
    # A base at this skill whose students neither learn nor forget.
    world = World(gain=0.0, forgetting=0.0, rate=1.0, steps=1500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("studies.collapse.mean_field.START", skill)
        course = simulate(world, SEEDS)
    assert course.skill == pytest.approx(skill)
    assert (course.trap_share > 0.99) if above else (course.trap_share < 0.01)


def test_more_members_do_not_help_and_regret_does():
    one = World(steps=400)
    many = replace(one, members=8)
    assert simulate(one, SEEDS).trap_share > 0.95
    assert simulate(many, SEEDS).trap_share > 0.95
    assert simulate(replace(many, evolution=True), SEEDS).trap_share > 0.95
    ideal = simulate(replace(many, reward="ideal_regret"), SEEDS)
    assert ideal.trap_share < 0.15
    assert ideal.skill > 0.9
    # Noise of few attempts pays for traps, and less of it with more attempts.
    sampled, exact = (
        simulate(replace(many, reward="regret", attempts=g), SEEDS).trap_share for g in (6, 64)
    )
    assert ideal.trap_share < exact < sampled < 0.95
