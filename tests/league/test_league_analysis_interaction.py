"""Interaction: a planted cycle is found, and a transitive league is not accused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league import LeagueConfig, LeagueError, Rating
from league.analysis import History, Life, Match, interaction
from league.basics.streams import stream
from league.games.probit_fit import probit_fit
from league.rating.normal import log_cdf_pair

CYCLE = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])


def phi(z):
    return np.exp(log_cdf_pair(np.asarray(z, dtype=np.float64))[0])


def played(seed, gaps, matches=8, tasks=16, rollouts=8, alike=0.3):
    """Each pair meets `matches` times; tasks differ in difficulty, so rollouts are alike."""
    rng = stream("played", seed)
    rows, columns = gaps.shape
    lives = tuple(
        Life(f"{role[0]}{i}", role, i, 0, None, Rating(25.0, 1.0))
        for role, size in (("teacher", rows), ("student", columns))
        for i in range(size)
    )
    found = []
    for number in range(matches):
        for i in range(rows):
            for j in range(columns):
                offset = np.sqrt(alike) * rng.standard_normal(tasks)
                chance = phi((gaps[i, j] - offset) / np.sqrt(1.0 - alike))
                solved = int(rng.binomial(rollouts, chance).sum())
                won = solved / rollouts
                found.append(
                    Match(
                        number,
                        f"t{i}",
                        f"s{j}",
                        0.5,
                        1.0,
                        tasks,
                        won,
                        tasks,
                        tasks * rollouts,
                        solved,
                    )
                )
    return History(LeagueConfig(), lives, tuple(found), matches)


def strengths(seed, rows=4, columns=4):
    rng = stream("strengths", seed)
    return rng.standard_normal(columns)[None, :] * 0.5 - rng.standard_normal(rows)[:, None] * 0.5


def with_cycle(seed, size=0.5):
    gaps = strengths(seed)
    gaps[:3, :3] += size * CYCLE
    return gaps


def test_a_planted_cycle_is_found_and_its_members_named():
    hits, named = 0, 0
    for seed in range(20):
        found = interaction(played(seed, with_cycle(seed)), draws=99)
        hits += found.found
        named += {"t0", "t1", "t2"} <= set(found.members) or {"s0", "s1", "s2"} <= set(
            found.members
        )
    assert hits >= 19
    assert named >= 15


@pytest.mark.parametrize("matches", [1, 8])
def test_a_transitive_league_is_not_accused(matches):
    found = [
        interaction(played(seed, strengths(seed), matches=matches), draws=99) for seed in range(20)
    ]
    assert sum(row.found for row in found) <= 2
    assert np.mean([row.share for row in found]) < 0.05
    assert all(row.members == () for row in found if not row.found)


def test_the_share_is_that_of_the_planted_variance():
    gaps = with_cycle(3, 0.6)
    found = interaction(played(3, gaps, matches=200, tasks=64, alike=0.1), draws=39)
    rest = gaps - gaps.mean(0) - gaps.mean(1)[:, None] + gaps.mean()
    truth = (rest**2).sum() / 9 / ((rest**2).sum() / 9 + (gaps - rest).var())
    assert found.share == pytest.approx(truth, abs=0.05)
    assert found.p_value == 1 / 40
    assert found.singular_values[0] > found.chance_singular_value
    assert found.dispersion < 1.0


def test_an_oddity_points_to_the_pair():
    gaps = strengths(5)
    gaps[1, 2] += 1.5
    found = interaction(played(5, gaps), draws=99)
    top = found.oddities[0]
    assert (top.teacher, top.student) == ("t1", "s2")
    assert top.observed > top.fitted
    assert set(found.members[:2]) == {"t1", "s2"}


def test_blanks_stay_blank_and_the_order_of_lives_has_no_part_in_it():
    history = played(1, strengths(1, 3, 4))
    gone = {("t0", "s1"), ("t2", "s3")}
    kept = tuple(m for m in history.matches if (m.teacher, m.student) not in gone)
    found = interaction(History(history.config, history.lives, kept, history.rounds), draws=19)
    assert found.pairs == 10
    assert found.observed[0][1] is None
    assert found.z[2][3] is None
    assert found.observed[0][0] is not None
    backwards = History(history.config, history.lives[::-1], kept[::-1], history.rounds)
    again = interaction(backwards, draws=19)
    assert (again.teachers, again.p_value) == (found.teachers, found.p_value)
    assert again.share == pytest.approx(found.share, abs=1e-9)


def test_too_few_pairs_are_refused():
    history = played(1, strengths(1, 1, 4))
    with pytest.raises(LeagueError, match="4 of 4 pairs have met"):
        interaction(history)
    with pytest.raises(LeagueError, match="0 of 16 pairs"):
        interaction(played(1, strengths(1), matches=0))
    with pytest.raises(LeagueError, match="draws"):
        interaction(history, draws=0)


def test_fast_learners_can_be_told_by_recent_matches_only():
    found = interaction(played(2, strengths(2)), since=6, draws=19)
    assert found.notes == ("matches from round 6 on",)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 6))
def test_the_fit_finds_the_strengths_it_was_made_of(seed, rows, columns):
    gaps = strengths(seed, rows, columns)
    counted = np.full(gaps.shape, 1e7)
    fit = probit_fit(phi(gaps) * counted, counted)
    assert np.abs(fit.gap - gaps).max() < 1e-5
    assert fit.freedom == (rows - 1) * (columns - 1)
    assert fit.leverage.sum() == pytest.approx(rows + columns - 1, abs=1e-6)


def test_the_fit_stays_finite_where_nobody_ever_won():
    counted = np.full((3, 3), 16.0)
    won = np.zeros((3, 3))
    won[0] = 16.0
    fit = probit_fit(won, counted)
    assert np.isfinite(fit.chi2)
    assert np.isfinite(fit.residual).all()
