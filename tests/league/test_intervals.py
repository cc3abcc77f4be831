"""How often intervals hold the truth: members whose skills are drawn from the newcomers' prior.

The table of docs/league.md is printed by `pytest tests/league/test_intervals.py -m slow -s`.
"""

import numpy as np
import pytest

from league import League, LeagueConfig, Outcome, rank_intervals, rate
from league.ratings import Z95
from simulated import STUDENTS, TEACHERS, win_chance

pytestmark = pytest.mark.slow

WORLDS, ROUNDS, TASKS = 60, 60, 16
WIDE = 3.0
"""Standard deviations that hold nearly 95 % of the gaps of a league."""


def world(path, seed, tau, drift):
    """Play a league; return it, its members' true skills, and its matches as a table."""
    rng = np.random.default_rng(seed)
    names = [*TEACHERS, *STUDENTS]
    config = LeagueConfig(seed=seed, tau=tau)
    skills = dict(zip(names, rng.normal(config.mu, config.sigma, len(names)), strict=True))
    scale, table = config.model.performance_scale, []
    with League(path, TEACHERS, STUDENTS, config) as league:
        for number in range(ROUNDS):
            for pair in league.pair(number):
                gap = np.array(skills[pair.student] - skills[pair.teacher])
                solved = int(rng.binomial(TASKS, float(win_chance(gap, scale))))
                outcome = Outcome(TASKS, TASKS, TASKS, solved, TASKS - solved)
                league.record(pair, outcome)
                table.append({"teacher": pair.teacher, "student": pair.student, "outcome": outcome})
            if number < ROUNDS - 1:
                skills = {name: x + drift * rng.standard_normal() for name, x in skills.items()}
    return league, skills, table


def shares(path, tau, drift):
    """Return the share of truths inside: alone, gaps, wide gaps, ranks, gaps of a fitted table."""
    inside = [[] for _ in range(5)]
    for seed in range(WORLDS):
        league, skills, table = world(path / f"{seed}", seed, tau, drift)
        for role, names in (("teacher", TEACHERS), ("student", STUDENTS)):
            board = league.leaderboard(role)
            ranks = rank_intervals(board)
            order = sorted(names, key=lambda name: -skills[name])
            inside[3] += [ranks[n].low <= i <= ranks[n].high for i, n in enumerate(order, 1)]
            for i, one in enumerate(board):
                inside[0].append(abs(one.mu - skills[one.member]) <= Z95 * one.sigma)
                for two in board[i + 1 :]:
                    miss = abs(one.mu - two.mu - skills[one.member] + skills[two.member])
                    sigma = np.hypot(one.sigma, two.sigma)
                    inside[1].append(miss <= Z95 * sigma)
                    inside[2].append(miss <= WIDE * sigma)
        best, *others = rate(table)
        for row in others:
            miss = abs(row.behind - skills[best.member] + skills[row.member])
            inside[4].append(miss <= Z95 * row.behind_sigma)
    return [float(np.mean(found)) for found in inside]


@pytest.mark.parametrize(("tau", "drift"), [(LeagueConfig.tau, 0.0), (0.25, 0.25), (0.4, 0.4)])
def test_ranks_and_gaps_hold_the_truth_and_a_sigma_alone_does_not(tmp_path, tau, drift):
    alone, gaps, wide, ranks, fitted = shares(tmp_path, tau, drift)
    print(
        f"\ntau {tau:.3g}, change {drift}: sigma alone {alone:.0%}, gaps {gaps:.0%}, gaps at "
        f"{WIDE:g} sigma {wide:.0%}, ranks {ranks:.0%}, gaps of rate {fitted:.0%}"
    )
    assert alone < 0.7
    assert 0.83 < gaps < 0.95
    assert wide > 0.92
    assert ranks > 0.95
    if not drift:
        assert 0.92 < fitted < 0.98
