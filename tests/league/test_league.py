"""The league as its callers see it."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from league import League, LeagueConfig, LeagueError, Outcome, Pair, rate
from worlds import EASY, HARD, new_league, outcome_of, play_rounds

IMPOSSIBLE = Outcome(8, 8, 32, 0, 8)


def test_a_late_result_still_counts_for_a_member_that_was_replaced(tmp_path):
    with new_league(tmp_path / "l") as league:
        late, *others = league.pair(0)
        for pair in (*others, *league.pair(1)):
            league.record(pair, EASY)
        mu = league.rating(late.student).mu
        league.replace(late.student, "c1", [others[0].student], "mutate")
        league.record(late, HARD)
        assert league.rating(late.student).mu < mu
        assert late.student not in league.members("student")


def test_a_child_takes_the_slot_and_inherits(tmp_path):
    with new_league(tmp_path / "l") as league:
        play_rounds(league, range(6), outcome_of)
        t0, t2 = league.rating("t0"), league.rating("t2")
        mean = sum(league.rating(m).mu for m in league.members("teacher")) / 3
        league.replace("t1", "c1", ["t0", "t2"], "slot_swap", reason="weakest")
        assert league.members("teacher") == ["t0", "c1", "t2"]
        child = league.rating("c1")
        assert child.mu == pytest.approx((t0.mu + t2.mu) / 2)
        assert child.sigma > max(t0.sigma, t2.sigma)
        (entry,) = league.replacements()
        moved = sum(league.rating(m).mu for m in league.members("teacher")) / 3 - mean
        assert entry.offset == pytest.approx(moved)
        row = next(s for s in league.leaderboard("teacher") if s.member == "c1")
        assert (row.parents, row.operator) == (("t0", "t2"), "slot_swap")
        assert (row.age, row.matches) == (0, 0)
        play_rounds(league, range(6, 8), outcome_of)
        row = next(s for s in league.leaderboard("teacher") if s.member == "c1")
        assert (row.age, row.matches) == (2, 2)


def test_history_pulls_the_prediction_to_what_was_seen(tmp_path):
    predicted = {}
    for past in (1e9, 20.0):
        settings = {"history_tasks": past, "history_decay": 1.0}
        with new_league(tmp_path / str(past), 1, 2, **settings) as league:
            # One pair goes against the ratings that all the other matches make.
            play_rounds(league, range(6), lambda pair: EASY if pair.student == "s0" else HARD)
            predicted[past] = league.payoff().expected[0]
    assert predicted[20.0][0] == pytest.approx(30 / 32, abs=0.05)
    assert abs(predicted[20.0][1] - 2 / 32) < abs(predicted[1e9][1] - 2 / 32)


@pytest.mark.parametrize(("fitness", "place"), [("rating", 0), ("lower_bound", 0), ("reward", -1)])
def test_a_teacher_of_impossible_tasks_is_rated_first_and_rewarded_least(tmp_path, fitness, place):
    results = {"t0": IMPOSSIBLE, "t1": EASY}
    with new_league(tmp_path / "l", fitness=fitness, seed=1) as league:
        if fitness == "reward":
            assert league.select("teacher", 1) == []
        play_rounds(league, range(6), lambda pair: results.get(pair.teacher, HARD))
        board = league.leaderboard("teacher")
        assert board[place].member == "t0"
        shown = {"rating": "mu", "lower_bound": "lower_bound", "reward": "mean_reward"}[fitness]
        assert [row.fitness for row in board] == [getattr(row, shown) for row in board]


def test_a_random_fitness_names_anyone_once_a_round(tmp_path):
    """Whatever the results, and the same until the next round."""
    with new_league(tmp_path / "l", fitness="random", seed=1, grace_matches=0) as league:
        weakest = set()
        for step in range(24):
            play_rounds(league, [step], lambda pair: EASY if pair.student == "s0" else HARD)
            weakest |= {*league.select("student", 1)}
            assert league.select("student", 1) == [league.leaderboard("student")[-1].member]
        assert weakest == {*league.members("student")}


@pytest.mark.parametrize(("mu", "sigma"), [(25.0, 25 / 3), (-10.0, 2.0), (1500.0, 200.0)])
def test_the_lower_bound_is_three_sigmas_below_whatever_the_scale(tmp_path, mu, sigma):
    scale = {"mu": mu, "sigma": sigma, "beta": sigma / 2, "tau": 0.0, "grace_matches": 0}
    with new_league(tmp_path / "l", 1, 3, **scale) as league:
        play_rounds(league, range(6), lambda pair: HARD if pair.student == "s1" else EASY)
        league.replace("s2", "s3", ["s0"], "copy")
        for role in ("teacher", "student"):
            for row in league.leaderboard(role):
                assert row.fitness == row.lower_bound == pytest.approx(row.mu - 3.0 * row.sigma)
        board = league.leaderboard("student")
        assert league.select("student", 1) == [min(board, key=lambda r: r.mu - 3 * r.sigma).member]
    rows = [{"member": "a", "opponent": "b", "outcome": 1.0, "tasks": 9}]
    for row in rate(rows, LeagueConfig(mu=mu, sigma=sigma, beta=sigma / 2)):
        assert row.lower_bound == pytest.approx(row.mu - 3.0 * row.sigma)


def test_newborns_are_spared(tmp_path):
    with new_league(tmp_path / "l", grace_matches=2) as league:
        play_rounds(league, range(3), lambda _pair: HARD)
        league.replace("t0", "c0", ["t1"], "copy")
        assert sorted(league.select("teacher", 2)) == ["t1", "t2"]
        league.replace("t1", "c1", ["t2"], "copy")
        assert league.select("teacher", 2) == ["t2"]
        play_rounds(league, range(3, 5), lambda _pair: HARD)
        assert sorted(league.select("teacher", 2)) == ["c0", "c1"]


@pytest.mark.parametrize(
    "populations",
    [
        {"teachers": [], "students": ["s"]},
        {"teachers": ["t", "t"], "students": ["s"]},
        {"teachers": ["x"], "students": ["x"]},
        {"teachers": "t0", "students": ["s"]},
        {"teachers": ["a b"], "students": ["s"]},
        {"members": []},
        {"members": ["a", "b"], "teachers": ["t"]},
    ],
)
def test_bad_populations_are_refused(tmp_path, populations):
    with pytest.raises(LeagueError, match="expected"):
        League(tmp_path / "l", **populations)
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"tau": -1.0},
        {"seed": 1.5},
        {"fitness": "beauty"},
        {"pfsp": (1.0,)},
        {"explore": 1.5},
        {"evidence": math.nan},
        {"sigma": "big"},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(LeagueError, match="expected"):
        LeagueConfig(**settings)


def test_tasks_without_a_verdict_are_counted_and_never_rated(tmp_path):
    boards = []
    for lost in (0, 5):
        with new_league(tmp_path / str(lost), 1, 1) as league:
            (pair,) = league.pair(0)
            league.record(pair, Outcome(8, 6, 24, 12, 1, lost))
            league.record(league.pair(1)[0], Outcome(0, 0, 0, 0, 0, infra_errors=lost))
            boards.append(league.leaderboard("teacher")[0])
            assert boards[-1].infra_errors == 2 * lost
            assert league.state.outcomes[pair.id].infra_errors == lost
    first, second = boards
    assert (first.mu, first.sigma, first.valid_rate) == (second.mu, second.sigma, 0.75)
    with pytest.raises(LeagueError, match="infra_errors is -1"):
        Outcome(1, 1, 1, 1, 0, -1)


def test_threads_may_share_a_league(tmp_path):
    with new_league(tmp_path / "l", 12, 12) as league:
        pairs = league.pair(0)

        def work(mine: list[Pair]) -> None:
            for pair in mine:
                league.record(pair, outcome_of(pair))
                league.leaderboard("teacher")
                league.payoff()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [pairs[i::4] for i in range(4)]))
        state = league.state
    with new_league(tmp_path / "m", 12, 12) as league:
        work(league.pair(0))
        assert league.state == state
    with League(tmp_path / "l") as league:
        assert league.state == state
