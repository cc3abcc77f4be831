"""Nash averaging, alpha-rank and diversity of games whose answer is known, and payoff matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from league import League, LeagueError, Outcome, Payoff, alpha_rank, diversity, nash
from league.game_theory import effective_rows, stationary

ROCK_PAPER_SCISSORS = [[0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [1.0, 0.0, 0.5]]

matrices = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda shape: arrays.arrays(np.float64, shape, elements=st.floats(0.0, 1.0, width=32))
)
few = settings(max_examples=30, deadline=None)


def made(share, tasks=100):
    rows, columns = np.shape(share)
    cells = tuple(tuple(float(x) for x in row) for row in share)
    return Payoff(
        teachers=tuple(f"t{i}" for i in range(rows)),
        students=tuple(f"s{j}" for j in range(columns)),
        observed=cells,
        share=cells,
        expected=cells,
        tasks=((tasks,) * columns,) * rows,
    )


def weights(side):
    return list(side.values())


@pytest.mark.parametrize(
    ("share", "teachers", "students", "value", "uniform"),
    [
        (ROCK_PAPER_SCISSORS, [1 / 3] * 3, [1 / 3] * 3, 0.5, (0.0, 0.0)),
        # 0.8 x + 0.1 (1-x) = 0.2 x + 0.6 (1-x) gives x = 5/11, likewise y = 4/11, value 4.6/11.
        ([[0.8, 0.2], [0.1, 0.6]], [5 / 11, 6 / 11], [4 / 11, 7 / 11], 4.6 / 11, (0.075, 0.025)),
        # Teacher 1 is better than teacher 0 everywhere, student 2 than the others.
        ([[0.7, 0.8, 0.9], [0.2, 0.3, 0.4]], [0.0, 1.0], [0.0, 0.0, 1.0], 0.4, (0.25, 0.1)),
    ],
)
def test_nash_of_games_solved_by_hand(share, teachers, students, value, uniform):
    found = nash(made(share))
    assert weights(found.teachers) == pytest.approx(teachers, abs=1e-3)
    assert weights(found.students) == pytest.approx(students, abs=1e-3)
    assert found.value == pytest.approx(value, abs=1e-5)
    assert found.gap <= 1e-5
    assert found.uniform_gains == pytest.approx(uniform, abs=1e-12)
    assert min(found.teacher_shares.values()) == pytest.approx(value, abs=1e-5)
    assert max(found.student_shares.values()) == pytest.approx(value, abs=1e-5)


def test_copies_share_a_weight_and_change_nothing_else():
    found = nash(made([[*row, row[0]] for row in ROCK_PAPER_SCISSORS]))
    assert found.value == pytest.approx(0.5, abs=1e-5)
    assert weights(found.teachers) == pytest.approx([1 / 3] * 3, abs=5e-3)
    first, *_, copy = weights(found.students)
    assert first == pytest.approx(copy, abs=1e-12)


@few
@given(matrices)
def test_the_value_lies_between_maximin_and_minimax(share):
    found = nash(made(share))
    assert share.min(axis=0).max() - found.gap - 1e-9 <= found.value
    assert found.value <= share.max(axis=1).min() + found.gap + 1e-9
    assert found.gap <= 1e-2
    assert sum(weights(found.teachers)) == pytest.approx(1.0)


@few
@given(matrices, st.integers(0, 2**32 - 1))
def test_the_order_of_members_has_no_effect(share, seed):
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(share.shape[0]), rng.permutation(share.shape[1])
    straight, turned = nash(made(share)), nash(made(share[np.ix_(rows, columns)]))
    assert turned.value == pytest.approx(straight.value, abs=straight.gap + turned.gap + 1e-9)
    assert effective_rows(share[rows]) == pytest.approx(effective_rows(share), abs=1e-9)
    mass = stationary(1.0 - share, share)
    turned = share[np.ix_(rows, columns)]
    assert stationary(1.0 - turned, turned) == pytest.approx(mass[np.ix_(rows, columns)], abs=1e-9)


def test_alpha_rank_goes_round_in_matching_pennies():
    found = alpha_rank(made([[1.0, 0.0], [0.0, 1.0]]))
    assert weights(found.teachers) == pytest.approx([0.5, 0.5])
    assert weights(found.students) == pytest.approx([0.5, 0.5])


def test_alpha_rank_solves_its_own_chain():
    # By hand, epsilon e: three rows, one column, row gains 0 < 1 = 1. Up 1-e, down e, tie 1/2:
    # flow balance of row 0 gives m0 * 2 (1-e) = (m1 + m2) e, and m1 = m2.
    mass = stationary(np.array([[0.0], [1.0], [1.0]]), np.array([[0.5]] * 3), 0.1)
    low = 0.1 / (0.1 + 2 * 0.9)
    assert mass.ravel() == pytest.approx([low, (1 - low) / 2, (1 - low) / 2])
    assert alpha_rank(made([[0.3]])).teachers == {"t0": 1.0}


def test_alpha_rank_refuses_more_than_32_members():
    with pytest.raises(LeagueError, match="at most 32 a side"):
        alpha_rank(made(np.full((33, 2), 0.5)))


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
    assert 1.1 < alike.students <= 1.3 * alike.students_alike
    assert diversity(noisy) == alike


def test_a_payoff_matrix_is_what_was_played_and_names_what_was_not(tmp_path):
    with League(tmp_path / "l", ["t0", "t1"], ["s0", "s1"]) as league:
        (pair,) = league.pair(0, matches=1)
        # Two of ten tasks are invalid, which the student wins; it solves a quarter of the others.
        league.record(pair, Outcome(10, 8, 32, 8, 2))
        found = league.payoff()
        i, j = found.teachers.index(pair.teacher), found.students.index(pair.student)
        assert found.share[i][j] == pytest.approx((2 + 8 / 4) / 10)
        assert (found.observed[i][j], found.tasks[i][j]) == (0.25, 10)
        other = found.teachers[1 - i], found.students[1 - j]
        with pytest.raises(LeagueError, match=rf"3 of 4 pairs .*{other[0]} with {other[1]}"):
            found.matrix()
        filled = found.matrix(fill=True)
        assert filled[i, j] == found.share[i][j]
        assert filled[1 - i, 1 - j] == found.expected[1 - i][1 - j] == pytest.approx(0.5)
        best = max(
            league.members("teacher"), key=lambda n: league.leaderboard("teacher")[0].member == n
        )
        assert league.payoff(top=1).teachers == (best,)
        with pytest.raises(LeagueError, match="top is 0"):
            league.payoff(top=0)
