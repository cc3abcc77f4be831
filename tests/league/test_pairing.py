"""Who plays whom: weights, fairness, and the same answer for the same question."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league import F_HARD, F_VAR, Rating
from league.pairing import choice_probabilities, match_weights, propose
from worlds import founded, play


def believe(state, name, mu, sigma):
    state.members[name] = replace(state.members[name], rating=Rating(mu, sigma))


@pytest.mark.parametrize(
    ("powers", "peak"),
    [(F_VAR, 0.5), (F_HARD, 0.0), ((1.0, 3.0), 0.25), ((1.0, 0.0), 1.0), ((0.0, 0.0), 0.0)],
)
def test_weights_peak_where_the_powers_say_and_are_finite_at_certainty(powers, peak):
    p = np.linspace(0, 1, 101)
    assert p[match_weights(p, powers).argmax()] == peak
    weights = match_weights(np.array([0.0, 1.0, 0.5, -1e-17, 1.0 + 1e-15]), powers)
    assert np.isfinite(weights).all()
    assert (weights >= 0.0).all()
    assert choice_probabilities(weights, 0.1).sum() == pytest.approx(1.0)


def test_all_hopeless_is_uniform_and_exploration_is_a_floor():
    assert choice_probabilities(np.zeros(4), 0.1).tolist() == [0.25] * 4
    assert choice_probabilities(np.array([0.0, 1.0]), 0.1) == pytest.approx([0.05, 0.95])


@settings(max_examples=60)
@given(st.integers(2, 9), st.one_of(st.none(), st.integers(1, 9)), st.integers(0, 2**40))
def test_in_a_whole_round_all_play_equally_often(teachers, students, seed):
    """In one population each is teacher once and student once, and never plays itself."""
    state = founded(teachers, students, seed=seed)
    sizes = teachers, students or teachers
    total: Counter[str] = Counter()
    for number in range(5):
        pairs = play(state, number)
        assert len(pairs) == len(set(pairs)) == max(sizes)
        assert all(teacher != student for teacher, student in pairs)
        for names, size in zip(zip(*pairs, strict=True), sizes, strict=True):
            counts = Counter(names)
            assert len(counts) == size
            assert set(counts.values()) <= {len(pairs) // size, -(-len(pairs) // size)}
            total += counts
    for names in state.slots.values():
        counts = [total[name] for name in names]
        assert max(counts) - min(counts) <= 1


def test_pairs_depend_on_seed_round_and_state_alone():
    first, again = founded(5, 5, seed=3), founded(5, 5, seed=3)
    propose(again, 7)
    assert propose(first, 4) == propose(again, 4)
    rounds = {tuple((p.teacher, p.student) for p in propose(first, n)) for n in range(20)}
    assert len(rounds) > 10
    assert {tuple(propose(founded(5, 5, seed=s), 0)) for s in range(20)} != {
        tuple(propose(first, 0))
    }


@pytest.mark.parametrize(("explore", "low", "high"), [(0.1, 170, 200), (1.0, 65, 135)])
def test_balanced_matches_are_preferred_but_by_chance_alone(explore, low, high):
    """With `explore` 1, who is best has no say: 100 of 200, standard deviation 7."""
    state = founded(2, 2, explore=explore)
    for name, mu in (("t0", 10.0), ("t1", 40.0), ("s0", 10.0), ("s1", 40.0)):
        believe(state, name, mu, 1.0)
    even = sum(
        ("t0", "s0") in {(p.teacher, p.student) for p in propose(state, n)} for n in range(200)
    )
    assert low < even <= high


def test_first_and_last_in_the_list_fare_alike():
    """The mean balance 4p(1-p) of a member's matches must not depend on its place."""
    differences = []
    for seed in range(64):
        state = founded(8, 8, seed=seed, explore=0.0)
        for side, shift in (("t", seed), ("s", seed // 8)):
            for i in range(8):
                believe(state, f"{side}{i}", 10.0 + 4.0 * ((i + shift) % 8), 2.0)
        for number in range(8):
            balance = {
                p.teacher: 4 * p.predicted * (1 - p.predicted) for p in propose(state, number)
            }
            differences.append(balance["t0"] - balance["t7"])
    # Standard error below 0.024; choosing in the order of the list gives 0.27.
    assert abs(sum(differences) / len(differences)) < 0.1
