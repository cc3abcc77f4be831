"""The tables of known-truth worlds: what they must show, whatever the luck."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from league_studies.contenders import contenders
from league_studies.cycle_table import cycle_table
from league_studies.draws import draw_margin, games_with_draws
from league_studies.drift_table import drift_table
from league_studies.impossible_table import impossible_table
from league_studies.invalid_table import invalid_table
from league_studies.matcher_table import matcher_table
from league_studies.replacement_table import replacement_table
from league_studies.scheme_table import scheme_table
from league_studies.world import World, play, solve
from league_study import main

from league.basics.errors import LeagueError
from league.rating.rating import RatingModel, Skills
from league.rating.schemes import TrueSkillGames

SMALL = World(worlds=8, rounds=40)


def test_games_with_draws_are_trueskills():
    trueskill = pytest.importorskip("trueskill")
    model = RatingModel()
    env = trueskill.TrueSkill(tau=0.0, draw_probability=0.10)
    still = Skills(np.array([24.0]), np.array([3.0])), Skills(np.array([27.0]), np.array([5.0]))
    for result, ranks in ((1.0, [1, 0]), (0.0, [0, 1]), (0.5, [0, 0])):
        a, b = env.create_rating(24, 3), env.create_rating(27, 5)
        (a,), (b,) = env.rate([(a,), (b,)], ranks=ranks)
        new = games_with_draws(*still, np.array([result]), draw_margin(0.10, model), model)
        assert (new[0].mu[0], new[0].sigma[0]) == pytest.approx((a.mu, a.sigma), abs=2e-5)
        assert (new[1].mu[0], new[1].sigma[0]) == pytest.approx((b.mu, b.sigma), abs=2e-5)


def test_the_tables_trueskill_is_the_scheme_of_that_name():
    model = RatingModel()
    rng = np.random.default_rng(8)
    sides = [Skills(rng.normal(25, 5, 3), rng.uniform(1, 8, 3)) for _ in range(2)]
    solved = rng.integers(0, 5, (3, 6))
    quick = next(c for c in contenders(model) if "(trueskill)" in c.name)
    found = quick.update(*sides, solved, 4)
    played = TrueSkillGames(model).update(*sides, solved.mean(axis=1) / 4, np.full(3, 6.0))
    for a, b in zip(found, played, strict=True):
        assert a.mu == pytest.approx(b.mu, abs=1e-4)
        assert a.sigma == pytest.approx(b.sigma, abs=1e-4)


def test_worlds_are_what_they_say():
    world = World(worlds=400, rounds=4, drift=0.0, spread=3.0, tasks=64, rollouts=32)
    first = next(play(world))
    assert np.std(first.gaps) == pytest.approx(3.0 * np.sqrt(2.0), rel=0.06)
    assert np.array_equal(np.sort(first.partner, axis=1), np.tile(np.arange(4), (400, 1)))
    gaps = np.full(3000, world.scale)
    solved = solve(World(tasks=8, rollouts=4, alike=0.9), gaps, np.random.default_rng(0))
    assert solved.mean() / 4 == pytest.approx(0.8413, abs=0.01)
    again = [turn.solved for turn in play(SMALL)]
    assert all(np.array_equal(a, b.solved) for a, b in zip(again, play(SMALL), strict=True))


def test_a_planted_circle_adds_up_to_nothing_for_anybody():
    plain, twisted = (next(play(World(worlds=2, cycle=c, seed=4))) for c in (0.0, 3.0))
    difference = plain.gaps - twisted.gaps
    assert np.abs(difference).max() == 3.0
    assert difference.sum(axis=1) == pytest.approx(0.0, abs=1e-9)
    assert difference.sum(axis=2) == pytest.approx(0.0, abs=1e-9)


def test_the_default_scheme_predicts_and_covers_and_a_flag_per_batch_does_not():
    rows = {row.scheme: row for row in scheme_table(SMALL)}
    batch = rows["fractional, weight = tasks (batch)"]
    assert batch.rmse < 0.05
    assert 0.90 <= batch.coverage <= 0.999
    flag = rows["whole batch win/lose at 1/2"]
    assert flag.rmse > 3 * batch.rmse
    assert flag.coverage < 0.7
    assert flag.bias > 0.1
    assert rows["whole batch vs expected value"].bias < -0.05
    assert rows["Elo (elo)"].coverage is None
    assert all(row.rmse >= batch.rmse * 0.93 for row in rows.values())


def test_intervals_hold_when_tasks_weigh_what_they_tell():
    rows = {row.scheme: row for row in scheme_table(World(worlds=24))}
    varied = rows["fractional, weight from task variance"]
    assert varied.rmse < 0.05
    assert 0.90 <= varied.coverage <= 0.99


def test_a_tau_that_fits_comes_near_the_floor_and_the_default_does_not():
    rows = {row.setting: row for row in drift_table(World(worlds=10), [0.42])}
    floor = rows["floor: knows drift, spread, covariance"]
    assert floor.rmse < rows["tau = drift"].rmse < 1.2 * floor.rmse
    assert rows["calibrated tau"].rmse < 0.75 * rows["default tau"].rmse
    assert 0.90 <= floor.coverage <= 0.98
    assert rows["default tau"].coverage < 0.7
    assert rows["tau = drift"].coverage > 0.93


def test_a_broken_teacher_is_champion_only_where_invalid_tasks_are_ignored():
    ignored, ours, unmoved = invalid_table(World(worlds=8, rounds=30, tasks=64, spread=2.5))
    assert ignored.broken_first == 1.0
    assert ours.broken_last == 1.0
    assert unmoved.broken_last == 1.0
    assert ours.students > ignored.students
    assert unmoved.students < ours.students
    assert ours.order > 0.9


def test_matchers_show_neglect_unfairness_and_repetition():
    rows = {row.matcher: row for row in matcher_table([6], rounds=40, leagues=6)}
    ours = [row for name, row in rows.items() if name.endswith("(ours)")]
    assert len(ours) == 4
    assert all(row.least_used == 1.0 and abs(row.first_less_last) < 0.1 for row in ours)
    assert rows["in turn, fixed order"].first_less_last > 0.1
    assert rows["independent draws"].least_used < 0.8
    best = rows["optimal assignment"]
    assert best.met == pytest.approx(1 / 6)
    assert best.worth >= max(row.worth for row in ours)
    assert rows["sampled (ours)"].worth > rows["uniform (ours)"].worth


def test_replacing_often_under_reset_culls_newborns():
    rows = replacement_table(SMALL, intervals=[2])
    found = {(row.child, row.ranked_by, row.grace): row for row in rows}
    reset = found["reset", "mu - 3 sigma", 0]
    by_mu = found["inherit + inflate", "mu", 0]
    assert reset.newborn > 0.6 > by_mu.newborn
    assert reset.regret > by_mu.regret >= 0.0
    assert found["inherit + inflate", "mu", 5].newborn == 0.0


def test_a_circle_is_found_and_pair_history_mends_it():
    none, strong = cycle_table(World(worlds=6, drift=0.0), [0.0, 6.0])
    assert none.found <= 1 / 6
    assert strong.found == 1.0
    assert strong.share > none.share + 0.05
    assert strong.rating_rmse > 3 * none.rating_rmse
    assert strong.memory_rmse < strong.default_rmse < strong.rating_rmse
    with pytest.raises(LeagueError, match="at least 3"):
        cycle_table(World(members=2), [1.0])


def test_an_impossible_teacher_wins_by_rating_and_loses_by_reward():
    rows = {row.fitness: row for row in impossible_table(World(worlds=12))}
    assert rows["rating"].first == rows["lower_bound"].first == 1.0
    assert rows["reward"].last > 0.8
    assert rows["blend"].first < 0.5


def test_grace_longer_than_the_life_of_all_spares_some():
    rows = replacement_table(World(worlds=4, rounds=12, members=2), intervals=[1])
    graced = [row for row in rows if row.grace == 5]
    assert all(0.0 < row.spared < 1.0 for row in graced)
    assert all(row.spared == 0.0 for row in rows if row.grace == 0)
    never = replacement_table(World(worlds=2, rounds=6), intervals=[7])
    assert all(row.newborn is None and row.regret is None for row in never)


@pytest.mark.parametrize(
    "bad",
    [
        {"members": 1},
        {"rounds": 0},
        {"alike": 1.0},
        {"drift": -1.0},
        {"spread": float("nan")},
        {"seed": -1},
    ],
)
def test_impossible_worlds_are_refused(bad):
    with pytest.raises(LeagueError, match="expected"):
        World(**bad)


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ("schemes", "--worlds", "2", "--rounds", "8"),
        ("drift", "--worlds", "2", "--rounds", "8", "--drift", "0.3"),
        ("invalid", "--worlds", "2", "--rounds", "8"),
        ("impossible", "--worlds", "2", "--rounds", "8"),
        ("cycles", "--worlds", "1", "--rounds", "12", "--cycle", "3"),
        ("matchers", "--size", "3", "--rounds", "4", "--leagues", "2"),
        ("replacement", "--worlds", "2", "--rounds", "8", "--every", "3"),
    ],
)
def test_one_command_per_table(arguments):
    shown = run(*arguments)
    assert shown.exit_code == 0, shown.output
    data = json.loads(run(*arguments, "--json").stdout)
    assert len(shown.stdout.splitlines()) > len(data) + 1
    assert run(*arguments).stdout == shown.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("schemes", "--tasks", "0"),
        ("matchers", "--size", "1"),
        ("matchers", "--size", "300"),
        ("replacement", "--every", "0"),
        ("drift", "--drift", "-1"),
        ("cycles", "--members", "2"),
        ("invalid", "--members", "1"),
    ],
)
def test_wrong_usage_is_one_line(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output
