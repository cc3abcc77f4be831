"""The game between teachers and students: equilibria, alpha-rank and diversity of known games."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from league import LeagueConfig, LeagueError, Rating
from league.analysis import (
    Game,
    History,
    Life,
    Match,
    alpha_rank,
    diversity,
    exploitability,
    game,
    nash,
)
from league.games.alpha_rank import stationary
from league.games.diversity import effective_rows
from league.rating.rating import predict

ROCK_PAPER_SCISSORS = [[0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [1.0, 0.0, 0.5]]

matrices = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda shape: arrays.arrays(np.float64, shape, elements=st.floats(0.0, 1.0, width=32))
)
few = settings(max_examples=30, deadline=None)


def made(share, tasks=100):
    rows, columns = np.shape(share)
    return Game(
        teachers=tuple(f"t{i}" for i in range(rows)),
        students=tuple(f"s{j}" for j in range(columns)),
        share=tuple(tuple(float(x) for x in row) for row in share),
        tasks=((tasks,) * columns,) * rows,
        filled=0.0,
        notes=(),
    )


def weights(side):
    return [member.weight for member in side]


def test_rock_paper_scissors():
    found = nash(made(ROCK_PAPER_SCISSORS))
    assert weights(found.teachers) == pytest.approx([1 / 3] * 3, abs=1e-3)
    assert weights(found.students) == pytest.approx([1 / 3] * 3, abs=1e-3)
    assert found.value == pytest.approx(0.5, abs=1e-5)
    assert found.unique is True
    assert found.uniform.total == pytest.approx(0.0, abs=1e-12)


def test_a_mixed_game_worked_by_hand():
    # 0.8 x + 0.1 (1-x) = 0.2 x + 0.6 (1-x) gives x = 5/11, likewise y = 4/11, value 4.6/11.
    found = nash(made([[0.8, 0.2], [0.1, 0.6]]))
    assert weights(found.teachers) == pytest.approx([5 / 11, 6 / 11], abs=1e-9)
    assert weights(found.students) == pytest.approx([4 / 11, 7 / 11], abs=1e-9)
    assert found.value == pytest.approx(4.6 / 11, abs=1e-9)
    assert found.gap <= 1e-5
    assert found.unique is True


def test_dominated_members_get_no_weight_and_a_saddle_is_found():
    # Teacher 1 is better than teacher 0 everywhere, student 2 than the others.
    found = nash(made([[0.7, 0.8, 0.9], [0.2, 0.3, 0.4]]))
    assert weights(found.teachers) == pytest.approx([0.0, 1.0], abs=1e-4)
    assert weights(found.students) == pytest.approx([0.0, 0.0, 1.0], abs=1e-4)
    assert found.value == pytest.approx(0.4, abs=1e-5)
    assert found.uniform.teacher_gain == pytest.approx(0.55 - 0.3)
    assert found.uniform.student_gain == pytest.approx(0.65 - 0.55)


def test_copies_share_a_weight_and_change_nothing_else():
    doubled = [[*row, row[0]] for row in ROCK_PAPER_SCISSORS]
    found = nash(made(doubled))
    assert found.value == pytest.approx(0.5, abs=1e-5)
    assert weights(found.teachers) == pytest.approx([1 / 3] * 3, abs=5e-3)
    first, *_, copy = weights(found.students)
    assert first == pytest.approx(copy, abs=1e-12)
    assert found.unique is False
    assert any("other mixtures" in note for note in found.notes)


def test_nash_says_when_it_was_cut_short():
    rng = np.random.default_rng(0)
    found = nash(made(rng.random((20, 20))), iterations=3)
    assert found.gap > 1e-4
    assert found.unique is None
    assert "3 iterations" in found.notes[0]


@few
@given(matrices)
def test_the_value_lies_between_maximin_and_minimax(share):
    found = nash(made(share), iterations=3000, tolerance=1e-4)
    assert share.min(axis=1).min() - 1e-9 <= found.value <= share.max() + 1e-9
    assert share.min(axis=0).max() - found.gap - 1e-9 <= found.value
    assert found.value <= share.max(axis=1).min() + found.gap + 1e-9
    assert found.gap <= 1e-2
    assert sum(weights(found.teachers)) == pytest.approx(1.0)
    for side in (found.uniform.teacher_gain, found.uniform.student_gain):
        assert side >= 0.0


@few
@given(matrices, st.integers(0, 2**32 - 1))
def test_the_order_of_members_has_no_part_in_it(share, seed):
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(share.shape[0]), rng.permutation(share.shape[1])
    straight, turned = nash(made(share)), nash(made(share[np.ix_(rows, columns)]))
    assert turned.value == pytest.approx(straight.value, abs=straight.gap + turned.gap + 1e-9)
    if straight.unique and turned.unique:
        moved = [weights(straight.teachers)[i] for i in rows]
        assert weights(turned.teachers) == pytest.approx(moved, abs=1e-2)
    assert effective_rows(share[rows]) == pytest.approx(effective_rows(share), abs=1e-9)
    mass = stationary(1.0 - share, share)
    again = stationary((1.0 - share)[np.ix_(rows, columns)], share[np.ix_(rows, columns)])
    assert again == pytest.approx(mass[np.ix_(rows, columns)], abs=1e-9)


def test_exploitability_refuses_what_does_not_fit():
    share = np.array(ROCK_PAPER_SCISSORS)
    with pytest.raises(LeagueError, match="shape"):
        exploitability(share, np.ones(2) / 2, np.ones(3) / 3)
    with pytest.raises(LeagueError, match="sum 1"):
        exploitability(share, np.ones(3), np.ones(3) / 3)
    pure = exploitability(share, np.array([1.0, 0, 0]), np.array([0, 1.0, 0]))
    assert (pure.value, pure.teacher_gain, pure.student_gain) == (1.0, 1.0, 0.0)
    assert (pure.best_teacher, pure.best_student) == (2, 1)


def test_alpha_rank_of_two_states_is_the_ratio_of_fixations():
    # One column; the two rows differ by 0.1: the masses are as e^(alpha (m-1) 0.1) to 1.
    mass = stationary(np.array([[0.6], [0.5]]), np.array([[0.4], [0.5]]), alpha=0.5, population=20)
    assert mass[0, 0] / mass[1, 0] == pytest.approx(math.exp(0.5 * 19 * 0.1), rel=1e-12)


def test_alpha_rank_goes_round_in_matching_pennies():
    found = alpha_rank(made([[1.0, 0.0], [0.0, 1.0]]))
    assert found.teacher_mass == pytest.approx((0.5, 0.5))
    assert found.student_mass == pytest.approx((0.5, 0.5))
    assert [mass for *_names, mass in found.states] == pytest.approx([0.25] * 4)


@pytest.mark.parametrize("alpha", [None, 1.0])
def test_alpha_rank_of_the_prisoners_dilemma(alpha):
    # Rows: cooperate, defect.
    first = np.array([[3.0, 0.0], [5.0, 1.0]])
    mass = stationary(first, first.T, alpha=alpha)
    assert mass[1, 1] > 0.99
    assert mass.sum() == pytest.approx(1.0)


def test_alpha_rank_solves_its_own_chain():
    # By hand, epsilon e: three rows, one column, row gains 0 < 1 = 1. Up 1-e, down e, tie 1/2:
    # flow balance of row 0 gives m0 * 2 (1-e) = (m1 + m2) e, and m1 = m2.
    mass = stationary(np.array([[0.0], [1.0], [1.0]]), np.array([[0.5]] * 3), epsilon=0.1)
    low = 0.1 / (0.1 + 2 * 0.9)
    assert mass.ravel() == pytest.approx([low, (1 - low) / 2, (1 - low) / 2])


def test_alpha_rank_bad_input():
    share = np.full((2, 2), 0.5)
    for wrong in ({"alpha": 0.0}, {"alpha": math.nan}, {"population": 1}, {"epsilon": 0.5}):
        with pytest.raises(LeagueError, match=next(iter(wrong))):
            stationary(share, share, **wrong)
    with pytest.raises(LeagueError, match="at most 32 a side"):
        alpha_rank(made(np.full((33, 2), 0.5)))
    with pytest.raises(LeagueError, match="never left"):
        stationary(np.eye(2), np.eye(2), alpha=1e6)
    assert alpha_rank(made([[0.3]])).teacher_mass == (1.0,)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_diversity_of_identical_and_of_distinct_rows(size):
    assert effective_rows(np.full((size, 4), 0.37)) == pytest.approx(1.0)
    assert effective_rows(0.8 * np.eye(size)) == pytest.approx(size)
    assert effective_rows(np.zeros((size, 3))) == 1.0


def test_diversity_sees_each_role_from_its_own_side_and_knows_chance():
    specialists = diversity(made(np.eye(4)))
    assert specialists.students == pytest.approx(4.0)
    assert specialists.students > specialists.students_alike
    assert specialists.teachers < 3.5
    assert diversity(made(1.0 - np.eye(4))).teachers == pytest.approx(4.0)
    rng = np.random.default_rng(1)
    noisy = made(rng.binomial(20, 0.5, (4, 4)) / 20, tasks=20)
    alike = diversity(noisy)
    assert alike.students > 1.1
    assert alike.students <= 1.3 * alike.students_alike
    assert diversity(noisy) == alike
    with pytest.raises(LeagueError, match="draws"):
        diversity(noisy, draws=0)


def life(name, role, slot, mu=25.0, sigma=1.0):
    return Life(name, role, slot, 0, None, Rating(mu, sigma))


def past(cells):
    """Two teachers and two students; cells: (teacher, student, counted, won)."""
    lives = tuple(
        life(f"{role[0]}{i}", role, i, 25.0 + i) for role in ("teacher", "student") for i in (0, 1)
    )
    matches = tuple(
        Match(i, t, s, 0.5, 1.0, counted, won, counted, 8 * counted, 0)
        for i, (t, s, counted, won) in enumerate(cells)
    )
    return History(LeagueConfig(), lives, matches, len(matches))


def test_a_game_is_what_was_played_and_names_what_was_not():
    history = past([("t0", "s0", 10, 5.0), ("t0", "s0", 30, 5.0), ("t0", "s1", 4, 4.0)])
    with pytest.raises(LeagueError, match=r"2 of 4 pairs .* t1 with s0, t1 with s1; .*--fill"):
        game(history)
    filled = game(history, fill="predicted")
    assert filled.share[0] == (0.25, 1.0)
    assert filled.tasks == ((40, 4), (0, 0))
    assert filled.filled == 0.5
    ratings = [Rating(26.0, 1.0), Rating(25.0, 1.0)]
    assert filled.share[1][0] == pytest.approx(predict(*ratings, history.config.model), abs=1e-9)
    assert "predicted" in filled.notes[0]
    assert filled.notes == nash(filled).notes[:1]


def test_former_members_play_only_when_asked_for():
    history = past([("t0", "s0", 8, 2.0), ("t1", "s0", 8, 4.0), ("t0", "s1", 8, 8.0)])
    lives = tuple(
        replace(life, ended=2) if life.name in ("t1", "s1") else life for life in history.lives
    )
    ended = replace(history, lives=lives)
    assert game(ended).share == ((0.25,),)
    with pytest.raises(LeagueError, match="1 of 4 pairs have never met: t1 with s1"):
        game(ended, replaced=True)
    assert game(ended, replaced=True, fill="predicted").teachers == ("t0", "t1")


def test_a_game_of_the_best_only():
    history = past([("t1", "s1", 8, 2.0)])
    best = game(history, top=1)
    assert (best.teachers, best.students, best.share) == (("t1",), ("s1",), ((0.25,),))
    assert "best 1 of 2 teachers" in best.notes[0]
    doubtful = replace(history.lives[1], rating=Rating(27.0, 8.0))
    others = (history.lives[0], doubtful, *history.lives[2:])
    assert game(replace(history, lives=others), top=1, fill="predicted").teachers == ("t0",)
    for wrong in ({"fill": "half"}, {"top": 0}, {"since": -1}):
        with pytest.raises(LeagueError, match=next(iter(wrong))):
            game(history, **wrong)
