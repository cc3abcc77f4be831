"""The rating schemes: each against its source, and all against what every scheme owes."""

import numpy as np
import pytest
import trueskill
from hypothesis import given, settings
from hypothesis import strategies as st

from league import League, LeagueConfig, LeagueError, Outcome
from league.rating.posterior import single_games
from league.rating.rating import RatingModel, Skills
from league.rating.schemes import Batch, Elo, TrueSkillGames, WengLin, in_single_games, logistic
from league.state.config import SCHEMES, scheme_of

MODEL = RatingModel()
ALL = [scheme_of(LeagueConfig(scheme=name)) for name in SCHEMES]
FAST = [scheme for name, scheme in zip(SCHEMES, ALL, strict=True) if name != "trueskill"]
GAUSSIAN = [scheme_of(LeagueConfig(scheme=name)) for name in ("batch", "trueskill")]

# Winner and loser before and after: openskill 6.2.0, BradleyTerryFull(mu=25, sigma=25/3,
# beta=25/6, kappa=1e-4, tau=25/300).
OPENSKILL = [
    ((25, 25 / 3), (25, 25 / 3), (27.635389493140497, 8.06590141354368),
     (22.364610506859503, 8.06590141354368)),
    ((30, 2.0), (20, 5.0), (30.111549628446785, 1.9990063780184517),
     (19.30382978849762, 4.893323523399535)),
    ((18, 1.5), (33, 0.9), (18.337675208601894, 1.501504425102767),
     (32.87777196449253, 0.9037438681723476)),
    ((25, 8), (26, 1), (28.364885104704516, 7.469991042482792),
     (25.947064300728854, 1.0033392798071978)),
]  # fmt: skip


def skills(*rows):
    mu, sigma = np.array(rows, dtype=float).T
    return Skills(mu, sigma)


def rows(skills):
    return list(zip(skills.mu.tolist(), skills.sigma.tolist(), strict=True))


def test_the_config_knows_every_scheme():
    assert LeagueConfig().scheme == "batch"
    with pytest.raises(LeagueError, match="expected one of batch, trueskill, weng_lin, elo"):
        LeagueConfig(scheme="glicko")
    old = LeagueConfig().to_dict()
    del old["scheme"], old["elo_k"]
    assert LeagueConfig.from_dict(old) == LeagueConfig()


@pytest.mark.parametrize(("winner", "loser", "new_winner", "new_loser"), OPENSKILL)
def test_weng_lin_is_bradley_terry_full(winner, loser, new_winner, new_loser):
    lost, won = WengLin(MODEL).update(skills(loser), skills(winner), np.ones(1), np.ones(1))
    assert rows(won)[0] == pytest.approx(new_winner, abs=1e-12)
    assert rows(lost)[0] == pytest.approx(new_loser, abs=1e-12)


def test_weng_lin_agrees_with_openskill_itself():
    models = pytest.importorskip("openskill.models")
    oracle = models.BradleyTerryFull(mu=25, sigma=25 / 3, beta=25 / 6, kappa=1e-4, tau=25 / 300)
    rng = np.random.default_rng(5)
    for _ in range(20):
        first, second = (skills((rng.normal(25, 6), rng.uniform(0.5, 8))) for _ in range(2))
        a, b = (oracle.rating(mu=s.mu[0], sigma=s.sigma[0]) for s in (first, second))
        ((a,), (b,)) = oracle.rate([[a], [b]])
        new = WengLin(MODEL).update(first, second, np.zeros(1), np.ones(1))
        assert rows(new[0])[0] == pytest.approx((a.mu, a.sigma), abs=1e-9)
        assert rows(new[1])[0] == pytest.approx((b.mu, b.sigma), abs=1e-9)


def test_trueskill_games_are_the_packages():
    env = trueskill.TrueSkill(draw_probability=0.0)
    still = trueskill.TrueSkill(draw_probability=0.0, tau=0.0)
    teacher, student = env.create_rating(24, 3), env.create_rating(27, 5)
    # Three of four tasks solved: the order is win, win, loss, win.
    expected = [student, teacher]
    for game, won in enumerate((True, True, False, True)):
        which = still if game else env
        ranks = [0, 1] if won else [1, 0]
        groups = which.rate([(expected[0],), (expected[1],)], ranks=ranks)
        expected = [groups[0][0], groups[1][0]]
    found = TrueSkillGames(MODEL).update(
        skills((24, 3)), skills((27, 5)), np.array([0.75]), np.array([4.0])
    )
    assert rows(found[1])[0] == pytest.approx((expected[0].mu, expected[0].sigma), abs=1e-9)
    assert rows(found[0])[0] == pytest.approx((expected[1].mu, expected[1].sigma), abs=1e-9)


def test_trueskill_games_beyond_the_packages_reach_go_on_in_log_space():
    teacher, student = skills((400, 1)), skills((0, 1))
    env = trueskill.TrueSkill(draw_probability=0.0)
    with pytest.raises((ArithmeticError, ValueError)):
        env.rate([(env.create_rating(0, 1),), (env.create_rating(400, 1),)])
    games = TrueSkillGames(MODEL).update(teacher, student, np.ones(1), np.ones(1))
    batch = FAST[0].update(teacher, student, np.ones(1), np.ones(1))
    assert rows(games[1])[0] == pytest.approx(rows(batch[1])[0], rel=1e-12)


def test_one_task_is_the_same_game_in_both_gaussian_schemes():
    for score in (0.0, 1.0):
        one = [
            s.update(skills((24, 3)), skills((27, 5)), np.array([score]), np.ones(1))
            for s in GAUSSIAN
        ]
        assert rows(one[0][0])[0] == pytest.approx(rows(one[1][0])[0], abs=2e-5)
        assert rows(one[0][1])[0] == pytest.approx(rows(one[1][1])[0], abs=2e-5)


def test_elo_by_hand():
    # 200 Elo points, one beta apart: 1 / (1 + 10^-0.5) = .7597469; k = 32 points.
    elo = Elo(MODEL, 0.16 * MODEL.beta)
    weak, strong = skills((25, 8)), skills((25 + MODEL.beta, 8))
    assert elo.predict(weak, strong)[0] == pytest.approx(0.7597469266479578)
    teacher, student = elo.update(weak, strong, np.zeros(1), np.ones(1))
    moved = 0.16 * MODEL.beta * 0.7597469266479578
    assert student.mu[0] == pytest.approx(25 + MODEL.beta - moved)
    assert teacher.mu[0] == pytest.approx(25 + moved)
    assert student.sigma[0] == 8


belief = st.tuples(st.floats(-60, 110), st.floats(0.05, 8.4))
match = st.tuples(belief, belief, st.floats(0, 1), st.floats(0, 64))


@pytest.mark.parametrize("scheme", FAST, ids=lambda s: type(s).__name__)
@settings(max_examples=25, deadline=None)
@given(matches=st.lists(match, min_size=1, max_size=6), data=st.data())
def test_matches_of_a_batch_do_not_feel_each_other(scheme, matches, data):
    order = data.draw(st.permutations(range(len(matches))))

    def updated(chosen):
        t, s, score, weight = zip(*chosen, strict=True)
        new = scheme.update(skills(*t), skills(*s), np.array(score), np.array(weight))
        return list(zip(rows(new[0]), rows(new[1]), strict=True))

    together = updated(matches)
    shuffled = updated([matches[i] for i in order])
    for place, i in enumerate(order):
        for side in (0, 1):
            assert shuffled[place][side] == pytest.approx(together[i][side], rel=1e-12)
            alone = updated([matches[i]])[0][side]
            assert alone == pytest.approx(together[i][side], rel=1e-12)


@pytest.mark.parametrize("scheme", ALL, ids=lambda s: type(s).__name__)
@settings(max_examples=25, deadline=None)
@given(
    gap=st.sampled_from([0.0, 1.0, 40.0, 1e3, 1e6, -1e6]),
    sigmas=st.tuples(st.floats(1e-3, 9), st.floats(1e-3, 9)),
    score=st.sampled_from([0.0, 1.0, 0.5]),
    weight=st.sampled_from([0.0, 1.0, 3.0]),
)
def test_updates_are_finite_and_go_the_right_way(scheme, gap, sigmas, score, weight):
    teacher, student = skills((25.0, sigmas[0])), skills((25.0 + gap, sigmas[1]))
    expected = scheme.predict(teacher, student)
    assert 0.0 <= expected[0] <= 1.0
    new = scheme.update(teacher, student, np.array([score]), np.array([weight]))
    for side, was in zip(new, sigmas, strict=True):
        assert np.isfinite(side.mu).all()
        assert 0.0 < side.sigma[0] <= np.hypot(was, MODEL.tau) * (1 + 1e-9)
    step = float(new[1].mu[0] - student.mu[0])
    noise = 1e-6 * max(1.0, abs(gap) * 1e-3)
    if score == 1.0:
        assert step >= -noise
    if score == 0.0:
        assert step <= noise
    if weight == 0.0:
        assert step == pytest.approx(0.0, abs=noise)


@pytest.mark.parametrize("scheme", [FAST[0], FAST[1]], ids=lambda s: type(s).__name__)
@settings(max_examples=30, deadline=None)
@given(teacher=belief, student=belief, score=st.floats(0, 1), weight=st.floats(0, 1))
def test_a_game_conserves_the_precision_weighted_sum(scheme, teacher, student, score, weight):
    new = scheme.update(skills(teacher), skills(student), np.array([score]), np.array([weight]))
    before = after = 0.0
    for old, now in zip((teacher, student), new, strict=True):
        variance = old[1] ** 2 + MODEL.tau**2
        before += old[0] / variance
        after += now.mu[0] / variance
    assert after == pytest.approx(before, rel=1e-9, abs=1e-8)


@settings(max_examples=30, deadline=None)
@given(teacher=belief, student=belief, score=st.floats(0, 1), weight=st.floats(0, 64))
def test_elo_moves_both_sides_by_the_same(teacher, student, score, weight):
    new = Elo(MODEL, 0.5).update(
        skills(teacher), skills(student), np.array([score]), np.array([weight])
    )
    total = teacher[0] + student[0]
    assert new[0].mu[0] + new[1].mu[0] == pytest.approx(total, abs=1e-9)


def test_more_tasks_of_the_same_share_bring_the_prediction_to_it():
    for scheme in ALL:
        teacher, student = skills((25, 8)), skills((25, 8))
        for _ in range(8):
            teacher, student = scheme.update(teacher, student, np.array([0.75]), np.array([32.0]))
        assert scheme.predict(teacher, student)[0] == pytest.approx(0.75, abs=0.05)


def test_matches_are_cut_into_games():
    pieces = list(in_single_games(np.array([2.5, 1.0, 0.0])))
    assert np.array(pieces).tolist() == [[1, 1, 0], [1, 0, 0], [0.5, 0, 0]]
    assert list(in_single_games(np.zeros(2))) == []
    assert logistic(np.array([-1e9, 0.0, 1e9])).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("name", SCHEMES)
def test_a_league_under_each_scheme_replays_and_tells_good_from_bad(tmp_path, name):
    config = LeagueConfig(scheme=name, seed=3)
    with League(tmp_path, ["easy", "hard"], ["a", "b"], config) as league:
        for number in range(6):
            for pair in league.pair(number):
                solved = 6 if pair.teacher == "easy" else 2
                league.record(pair, Outcome(4, 4, 8, solved, 0))
        assert league.rating("hard").mu > league.rating("easy").mu
        assert league.predict("easy", "a") > league.predict("hard", "a")
        before = league.state.to_dict()
    with League(tmp_path) as again:
        assert again.config.scheme == name
        assert again.state.to_dict() == before


def test_single_games_are_trueskills():
    model = RatingModel()
    env = trueskill.TrueSkill(tau=0.0, draw_probability=0.0)
    still = Skills(np.array([24.0]), np.array([3.0])), Skills(np.array([27.0]), np.array([5.0]))
    for result, ranks in ((1.0, [1, 0]), (0.0, [0, 1])):
        a, b = env.create_rating(24, 3), env.create_rating(27, 5)
        (a,), (b,) = env.rate([(a,), (b,)], ranks=ranks)
        new = single_games(*still, np.array([result]), model)
        assert (new[0].mu[0], new[0].sigma[0]) == pytest.approx((a.mu, a.sigma), abs=2e-5)
        assert (new[1].mu[0], new[1].sigma[0]) == pytest.approx((b.mu, b.sigma), abs=2e-5)


def test_single_games_are_the_batch_update_of_one_task():
    model = RatingModel(tau=0.0)
    rng = np.random.default_rng(2)
    sides = [Skills(rng.normal(25, 6, 20), rng.uniform(1, 8, 20)) for _ in range(2)]
    result = rng.integers(0, 2, 20).astype(float)
    found = single_games(sides[0], sides[1], result, model)
    exact = Batch(model).update(sides[0], sides[1], result, np.ones(20))
    for a, b in zip(found, exact, strict=True):
        assert a.mu == pytest.approx(b.mu, abs=1e-9)
        assert a.sigma == pytest.approx(b.sigma, abs=1e-9)
