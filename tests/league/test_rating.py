"""The default update against TrueSkill, and the laws that it keeps."""

import math

import numpy as np
import pytest
import trueskill
from hypothesis import given, settings
from hypothesis import strategies as st

from league import Rating, RatingModel, predict, rate_matches
from league.ratings import child_rating, log_cdf_pair

MODEL = RatingModel()

ratings = st.builds(Rating, st.floats(-20, 70), st.floats(0.3, 8.4))


def one_match(teacher: Rating, student: Rating, score: float, weight: float) -> list[Rating]:
    teachers, students = rate_matches(
        [teacher], [student], np.array([score]), np.array([weight]), MODEL
    )
    return [teachers[0], students[0]]


def both(rating: Rating) -> tuple[float, float]:
    return rating.mu, rating.sigma


@pytest.mark.parametrize(("backend", "tolerance"), [("mpmath", 1e-9), (None, 2e-5)])
def test_one_task_agrees_with_the_package(backend, tolerance):
    if backend:
        pytest.importorskip(backend)
    env = trueskill.TrueSkill(draw_probability=0.0, backend=backend)
    rng = np.random.default_rng(7)
    sides = [(25 + 6 * rng.standard_normal(), rng.uniform(0.5, 8.3)) for _ in range(50)]
    odd = [(25, 25 / 3), (25, 25 / 3), (10, 1), (45, 1), (25, 8), (40, 0.8)]
    for first, second in zip([*sides[::2], *odd[::2]], [*sides[1::2], *odd[1::2]], strict=True):
        for teacher_wins in (True, False):
            order = (first, second) if teacher_wins else (second, first)
            (a,), (b,) = env.rate([(env.create_rating(*x),) for x in order], min_delta=1e-12)
            new = one_match(Rating(*first), Rating(*second), 0.0 if teacher_wins else 1.0, 1.0)
            won, lost = new if teacher_wins else new[::-1]
            assert both(won) == pytest.approx((a.mu, a.sigma), abs=tolerance)
            assert both(lost) == pytest.approx((b.mu, b.sigma), abs=tolerance)


@pytest.mark.parametrize("beta", [25 / 6, 1.0, 0.5, 0.1])
@pytest.mark.parametrize("tasks", [1, 16, 64, 256])
def test_the_gap_is_integrated_exactly_at_every_scale(beta, tasks):
    """Against a sum over a fine grid."""
    rng = np.random.default_rng(tasks)
    model = RatingModel(beta=beta, tau=0.0)
    for _ in range(4):
        teacher = Rating(25.0, rng.uniform(0.5, 8.3))
        student = Rating(25.0 + rng.normal(0, 8), rng.uniform(0.5, 8.3))
        won = float(rng.integers(0, tasks + 1))
        (new,), _ = rate_matches(
            [teacher], [student], np.array([won / tasks]), np.array([tasks + 1e-9]), model
        )
        total = teacher.sigma**2 + student.sigma**2
        low, high = -200.0, 200.0
        for points in (20_001, 40_001):
            gap = np.linspace(low, high, points)
            up, down = log_cdf_pair(gap / model.performance_scale)
            density = won * up + (tasks - won) * down
            density -= (gap - student.mu + teacher.mu) ** 2 / (2 * total)
            dense = gap[density > density.max() - 60.0]
            low, high = dense[0], dense[-1]
        weight = np.exp(density - density.max())
        mean = float((weight * gap).sum() / weight.sum())
        variance = float((weight * (gap - mean) ** 2).sum() / weight.sum())
        share = teacher.sigma**2 / total
        expected = teacher.mu - share * (mean - student.mu + teacher.mu)
        assert new.mu == pytest.approx(expected, abs=1e-7)
        expected = teacher.sigma * math.sqrt(1.0 + share * (variance - total) / total)
        assert new.sigma == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("a", "b", "probability", "quality"),
    [
        (Rating(25, 25 / 3), Rating(25, 25 / 3), 0.5, 0.4472135954999579),
        (Rating(30, 2), Rating(25, 4), 0.7504507450829981, 0.6338953560878519),
        (Rating(18.5, 1.25), Rating(33, 7), 0.05819379293570964, 0.18601211017094757),
        (Rating(25, 0.5), Rating(24, 0.5), 0.5669037643879047, 0.9788819402135133),
    ],
)
def test_a_prediction_has_the_packages_probability_and_quality(a, b, probability, quality):
    """`quality_1vs1` of trueskill 0.4.5, and `cdf` of its environment with the backend mpmath."""
    found, turned = predict(a, b), predict(b, a, RatingModel(tau=1.0))
    assert found.probability == pytest.approx(probability, abs=1e-12)
    assert found.quality == turned.quality == pytest.approx(quality, rel=1e-12)
    assert turned.probability == pytest.approx(1.0 - probability, abs=1e-12)
    exact = predict(a, b, RatingModel(beta=1e-9))
    assert exact.quality < 1e-8
    assert abs(exact.probability - 0.5) >= abs(found.probability - 0.5)


@settings(max_examples=60)
@given(ratings, ratings, st.floats(0, 1), st.floats(0, 64))
def test_a_sum_is_conserved_evidence_never_adds_doubt_and_roles_are_mirror_images(
    teacher, student, score, weight
):
    new_teacher, new_student = one_match(teacher, student, score, weight)
    before = after = 0.0
    for old, new in ((teacher, new_teacher), (student, new_student)):
        variance = old.sigma**2 + MODEL.tau**2
        before += old.mu / variance
        after += new.mu / variance
        assert 0.0 < new.sigma <= math.sqrt(variance) * (1 + 1e-12)
    assert after == pytest.approx(before, rel=1e-9, abs=1e-9)
    mirrored = one_match(student, teacher, 1.0 - score, weight)
    assert both(mirrored[1]) == pytest.approx(both(new_teacher), abs=1e-6)
    assert both(mirrored[0]) == pytest.approx(both(new_student), abs=1e-6)


@pytest.mark.parametrize("tasks", [(1,), (5,), (1, 5)])
@pytest.mark.parametrize("step", [1, 4, 16])
def test_matches_keep_their_bits_however_many_are_rated_at_once(tasks, step):
    rng = np.random.default_rng(step)
    mu, sigma = rng.normal(25, 12, (2, 96)), rng.uniform(0.05, 8.4, (2, 96))
    mu[1, :8] = mu[0, :8] + [0, 0, 70, -70, 200, -200, 1000, -1000]
    weight = rng.choice(np.array(tasks, dtype=float), 96)
    score = rng.integers(0, weight.astype(int) + 1) / weight
    sides = [list(map(Rating, *side)) for side in zip(mu.tolist(), sigma.tolist(), strict=True)]
    whole = rate_matches(*sides, score, weight, MODEL)
    for at in range(0, 96, step):
        rows = slice(at, at + step)
        part = rate_matches(*(side[rows] for side in sides), score[rows], weight[rows], MODEL)
        assert part == tuple(side[rows] for side in whole)


def test_log_tails_against_exact_values():
    # log Φ(z) by mpmath with 40 digits.
    exact = {-60.0: -1805.013560680567, -25.0: -316.63940800802026, -1.0: -1.8410216450092636}
    up, down = log_cdf_pair(np.array([*exact, 0.0]))
    assert up[:3] == pytest.approx(list(exact.values()), rel=1e-14)
    assert up[3] == down[3] == pytest.approx(-math.log(2.0))
    near, far = log_cdf_pair(np.array([-20.0, -20.0 - 1e-9]))[0]
    assert near == pytest.approx(far, rel=1e-9)
    assert np.exp(log_cdf_pair(np.ones(1))[0]) == pytest.approx(0.8413447460685429, rel=1e-14)


def test_a_child_is_like_a_parent_plus_a_jump():
    child = child_rating([Rating(20, 2), Rating(30, 2)], [0.5, 0.5], 3.0, MODEL)
    assert child.mu == pytest.approx(25.0)
    assert child.sigma == pytest.approx(math.sqrt(4 + 25 + 9))
    assert child_rating([Rating(20, 2)], [1.0], 100.0, MODEL).sigma == MODEL.sigma
