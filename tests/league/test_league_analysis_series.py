"""What a league's history says: calibration, drift, lineages, generations, rank intervals."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league import League, LeagueConfig, LeagueError, Outcome, Rating
from league.analysis import (
    History,
    Life,
    Match,
    calibration,
    drift,
    generations,
    history,
    history_of,
    rank_intervals,
    survival,
)
from league.basics.streams import stream

few = settings(max_examples=30, deadline=None)


def life(name, born=0, ended=None, parents=(), weights=None, role="student", **more):
    shares = weights or (1.0 / len(parents),) * len(parents) if parents else ()
    return Life(name, role, 0, born, ended, Rating(25.0, 1.0), parents, shares, **more)


def match(number, predicted, won, counted=16, uncertainty=2.0, **more):
    named = {"teacher": "t0", "student": "s0"} | more
    return Match(
        number, named["teacher"], named["student"], predicted, uncertainty, counted, won,
        counted, counted, round(won),
    )  # fmt: skip


@pytest.fixture
def played(tmp_path):
    """Six rounds of 3 + 3 with one replacement a side, through the real thing."""
    names = [[f"{role}{i}" for i in range(3)] for role in "ts"]
    with League(tmp_path / "l", *names, LeagueConfig(seed=3)) as league:
        rng = stream("series", 0)
        for number in range(6):
            for pair in league.pair(number):
                solved = int(rng.binomial(64, 0.3 + 0.1 * int(pair.student[1])))
                league.record(pair, Outcome(8, 8, 64, solved, 0 if solved else 8))
            if number == 2:
                league.replace("t1", "t3", ["t0", "t2"], "cross", weights=[3, 1])
                league.replace("s0", "s3", ["s2"], "mutate")
    return League(tmp_path / "l", read_only=True)


def test_history_is_what_happened(played):
    past = history(played)
    assert (past.rounds, len(past.matches), past.sampled) == (6, 18, (0, 1, 2, 3, 4, 5, 6))
    by_name = {life.name: life for life in past.lives}
    assert (by_name["t1"].born, by_name["t1"].ended) == (0, 3)
    assert (by_name["t3"].born, by_name["t3"].ended) == (3, None)
    assert by_name["t3"].weights == (0.75, 0.25)
    assert by_name["t3"].offset == played.replacements()[0].offset
    assert [life.name for life in past.living("student")] == ["s3", "s1", "s2"]
    column = [life.name for life in past.lives].index("t1")
    assert np.isnan(past.mu[3:, column]).all()
    assert past.mu[0, column] == 25.0
    for life in past.living("teacher"):
        place = past.lives.index(life)
        assert past.mu[-1, place] == life.rating.mu == played.rating(life.name).mu
        assert past.sigma[-1, place] == life.rating.sigma
    first = past.matches[0]
    assert first.predicted == pytest.approx(0.5)
    assert first.uncertainty == pytest.approx(math.sqrt(2) * 25 / 3)


def test_history_refuses_what_is_no_log():
    config = LeagueConfig()
    founded = {"event": "league_founded", "teachers": ["t"], "students": ["s"]}
    with pytest.raises(LeagueError, match="event 2"):
        history_of(config, [founded, {"event": "round_paired", "round": 0}])
    with pytest.raises(LeagueError, match="unknown event"):
        history_of(config, [{"event": "dance"}])
    assert history_of(config, [founded]).sampled == (0,)


def test_long_histories_are_thinned():
    events = [{"event": "league_founded", "teachers": ["t"], "students": ["s"]}]
    pair = {"id": "x", "teacher": "t", "student": "s", "predicted": 0.5}
    for number in range(1000):
        pairs = [pair | {"id": f"{number}"}]
        events.append({"event": "round_paired", "round": number, "pairs": pairs})
    past = history_of(LeagueConfig(), events)
    assert 150 <= len(past.sampled) <= 202
    assert (past.sampled[0], past.sampled[-1]) == (0, 1000)


def test_calibration_of_scripted_matches():
    matches = (
        match(0, 0.25, 4.0),
        match(0, 0.29, 8.0, 32),
        match(1, 0.75, 12.0),
        match(2, 1.0, 0, 0),
    )
    found = calibration(History(LeagueConfig(), (), matches, 3))
    third = found.deciles[2]
    assert (third.matches, third.tasks, third.observed) == (2, 48, 0.25)
    assert third.predicted == pytest.approx((0.25 * 16 + 0.29 * 32) / 48)
    assert found.deciles[0].observed is None
    assert (found.matches, found.tasks) == (3, 64)
    assert found.bias == pytest.approx(-0.04 * 32 / 64)
    assert found.log_loss_best == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    assert found.log_loss_best < found.log_loss < found.log_loss_constant
    assert "1 matches without" in found.notes[0]
    assert calibration(History(LeagueConfig(), (), matches, 3), since=1).matches == 1


def test_calibration_covers_what_the_model_makes():
    config = LeagueConfig()
    rng = stream("coverage", 0)
    rows, shifted = [], []
    for number in range(2000):
        mean, sd = 3.0 * rng.standard_normal(), 1.0 + 3.0 * rng.random()
        scale = config.model.performance_scale
        expected = 0.5 * math.erfc(-mean / math.hypot(scale, sd) / math.sqrt(2.0))
        gap = mean + sd * rng.standard_normal()
        won = rng.binomial(16, 0.5 * math.erfc(-gap / scale / math.sqrt(2.0)))
        rows.append(match(number, expected, float(won), uncertainty=sd))
        shifted.append(replace(rows[-1], predicted=min(expected + 0.3, 1.0)))
    found = calibration(History(config, (), tuple(rows), 2000))
    assert found.coverage == pytest.approx(0.95, abs=0.02)
    assert found.bias == pytest.approx(0.0, abs=0.02)
    assert calibration(History(config, (), tuple(shifted), 2000)).coverage < 0.8


def test_many_rollouts_of_a_task_narrow_the_intervals_unless_they_agree():
    surprise = replace(match(0, 0.5, 5.0, uncertainty=0.001), attempts=128)
    covered = {
        agreement: calibration(
            History(LeagueConfig(), (), (surprise,), 1, agreement=agreement)
        ).coverage
        for agreement in (None, 0.0, 1.0)
    }
    assert covered == {None: 1.0, 0.0: 0.0, 1.0: 1.0}


def test_calibration_before_the_first_match_is_blank():
    found = calibration(History(LeagueConfig(), ()))
    assert (found.matches, found.log_loss, found.coverage) == (0, None, None)
    assert "no match" in found.notes[0]
    with pytest.raises(LeagueError, match="since"):
        calibration(History(LeagueConfig(), ()), since=-1)


def test_survival_of_a_scripted_family():
    lives = (
        life("a", ended=10),
        life("b"),
        life("c", ended=4),
        life("d", 4, parents=("a", "b"), weights=(0.25, 0.75)),
        life("e", 10, parents=("d",)),
        life("t", role="teacher"),
    )
    found = survival(History(LeagueConfig(), lives, (), 12)).students
    assert (found.members, found.living) == (5, 3)
    # Ages: a 10 and c 4 ended; b 12, d 8, e 2 still live. At 4: 4 at risk, at 10: 2 at risk.
    assert found.curve == ((4, 0.75), (10, 0.375))
    assert found.median_life == 10
    assert {x.founder: (x.living, x.ancestry) for x in found.lines} == {
        "b": (3, pytest.approx((1 + 0.75 + 0.75) / 3)),
        "a": (0, pytest.approx(0.5 / 3)),
        "c": (0, 0.0),
    }
    assert found.founders_alive == 2
    assert found.lines_left == ((0, 3), (4, 2), (10, 1))
    assert (found.takeover, found.takeover_by) == (10, "b")
    assert [x.rounds for x in found.lifetimes] == [10, 12, 4, 8, 2]


def test_survival_without_an_end():
    found = survival(History(LeagueConfig(), (life("a"), life("b")), (), 5)).students
    assert (found.curve, found.median_life, found.takeover, found.takeover_by) == (
        (),
        None,
        None,
        None,
    )
    assert found.founders_alive == 2


@few
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 30))
def test_ancestry_is_shared_out_and_the_living_belong_to_somebody(seed, size, replacements):
    rng = stream("family", seed)
    lives = [life(f"m{i}") for i in range(size)]
    for step in range(replacements):
        living = [i for i, x in enumerate(lives) if x.ended is None]
        gone = living[int(rng.integers(len(living)))]
        parents = tuple(lives[int(rng.integers(len(lives)))].name for _ in range(2))
        lives[gone] = replace(lives[gone], ended=step)
        lives.append(life(f"m{len(lives)}", step, parents=tuple(dict.fromkeys(parents))))
    past = History(LeagueConfig(), tuple(lives), (), replacements)
    found = survival(past).students
    assert sum(x.living for x in found.lines) == found.living == size
    assert sum(x.ancestry for x in found.lines) == pytest.approx(1.0)
    assert (found.takeover is not None) == (found.lines_left[-1][1] == 1)
    shares = [share for _age, share in found.curve]
    assert shares == sorted(shares, reverse=True)


def test_generations_of_scripted_births():
    lives = (
        life("t0", ended=3, role="teacher"),
        life("t1", 3, parents=("t0",), role="teacher"),
        life("s0"),
        life("s1", 2, ended=3, parents=("s0",)),
        life("s2", 3, parents=("s0",)),
    )
    matches = (
        match(0, 0.5, 4.0, teacher="t0", student="s0"),
        match(1, 0.5, 8.0, teacher="t0", student="s0"),
        match(2, 0.5, 16.0, teacher="t0", student="s1"),
        match(3, 0.5, 2.0, teacher="t1", student="s2"),
    )
    found = generations(History(LeagueConfig(), lives, matches, 4))
    assert [cohort.first for cohort in found.students] == [0, 2, 3]
    assert found.solve_rate == ((12 / 32, 1.0, None), (None, None, 2 / 16))
    assert found.tasks == ((32, 16, 0), (0, 0, 16))
    assert [cohort.living for cohort in found.students] == [1, 0, 1]
    merged = generations(History(LeagueConfig(), lives, matches, 4), cohorts=2)
    assert [(cohort.first, cohort.last) for cohort in merged.students] == [(0, 1), (2, 4)]
    assert merged.solve_rate == ((12 / 32, 1.0), (None, 2 / 16))
    with pytest.raises(LeagueError, match="cohorts"):
        generations(History(LeagueConfig(), lives), cohorts=0)


def test_a_copied_anchor_belongs_to_the_generation_of_its_original():
    lives = (
        life("t0", role="teacher"),
        life("s0"),
        life("hall", 9, parents=("t0",), role="teacher", anchor=True),
    )
    matches = (match(9, 0.5, 4.0, teacher="hall"),)
    found = generations(History(LeagueConfig(), lives, matches, 10))
    assert found.solve_rate == ((0.25,),)
    assert (found.teachers[0].members, found.teachers[0].living) == (2, 1)


def test_drift_follows_the_log(played):
    past = history(played)
    found = drift(past)
    assert found.rounds == tuple(range(7))
    assert found.gap[0] == 0.0
    alive = [played.rating(name).mu for name in played.members("student")]
    assert found.student_mean[-1] == pytest.approx(np.mean(alive))
    offset = played.replacements()[1].offset
    assert found.student_offset == pytest.approx(offset)
    assert found.student_centred[-1] == pytest.approx(np.mean(alive) - offset)
    assert found.student_centred[:3] == found.student_mean[:3]
    assert found.student_centred[3] == pytest.approx(found.student_mean[3] - offset)
    assert found.gap_centred[3] == pytest.approx(
        found.student_centred[3] - found.teacher_centred[3]
    )
    assert (found.checked, found.unchecked, found.conserved) == (18, 0, True)
    assert found.largest_imbalance < 1e-9
    assert (found.anchors, found.against_anchors) == (0, ())
    assert "no anchors" in found.statement
    assert json.loads(json.dumps(found.to_dict()))["gap"] == list(found.gap)


@pytest.mark.parametrize(
    ("scheme", "checked"), [("batch", 2), ("elo", 2), ("trueskill", 0), ("weng_lin", 0)]
)
def test_every_scheme_keeps_what_it_should_keep(tmp_path, scheme, checked):
    with League(tmp_path / "l", ["t0", "t1"], ["s0", "s1"], LeagueConfig(scheme=scheme)) as league:
        league.record_many([(pair, Outcome(4, 4, 8, 6, 0)) for pair in league.pair(0)])
        found = drift(history(league))
        assert (found.checked, found.unchecked) == (checked, 2 - checked)
        assert found.conserved is (True if checked else None)
        assert (calibration(history(league)).coverage is None) == (scheme in ("elo", "weng_lin"))


def test_anchors_of_a_real_league_are_yardsticks_and_no_members(tmp_path):
    config = LeagueConfig(seed=2, anchor_share=0.5)
    with League(tmp_path / "l", ["t0", "t1"], ["s0", "s1"], config) as league:
        league.add_anchor("base", "teacher", of="t0")
        for number in range(8):
            for pair in league.pair(number):
                league.record(pair, Outcome(4, 4, 8, 6, 0))
        past = history(league)
    assert [life.name for life in past.living("teacher")] == ["t0", "t1"]
    met = sum(m.teacher == "base" for m in past.matches)
    found = drift(past)
    assert met > 0
    assert found.anchors == 1
    assert sum(x.matches for x in found.against_anchors) == met
    assert {x.role for x in found.against_anchors} == {"student"}
    assert found.conserved is True
    assert survival(past).teachers.members == 2
    assert sum(c.members for c in generations(past).teachers) == 3


def test_drift_notices_a_match_that_makes_rating_out_of_nothing():
    matches = (replace(match(0, 0.5, 8.0), imbalance=0.2), match(1, 0.5, 8.0))
    past = History(
        LeagueConfig(), (life("s0"), life("t0", role="teacher")), matches, 2, (0, 2),
        np.full((2, 2), 25.0), np.ones((2, 2)),
    )  # fmt: skip
    found = drift(past)
    assert (found.checked, found.unchecked) == (1, 1)
    assert (found.largest_imbalance, found.conserved) == (0.2, False)


def test_drift_against_anchors():
    lives = (
        life("s0"),
        life("t0", role="teacher"),
        life("base", role="teacher", anchor=True),
        life("start", anchor=True),
    )
    matches = (
        match(0, 0.5, 4.0, teacher="base"),
        match(1, 0.5, 4.0),
        match(2, 0.5, 12.0, teacher="base"),
        match(3, 0.5, 2.0, student="start"),
    )
    mu = np.array([[25.0, 25.0, np.nan, np.nan], [26.0, 24.0, np.nan, np.nan]])
    past = History(LeagueConfig(), lives, matches, 4, (0, 4), mu, np.ones_like(mu))
    found = drift(past, spans=2)
    assert found.anchors == 2
    assert [(x.role, x.first, x.last, x.solve_rate) for x in found.against_anchors] == [
        ("student", 0, 1, 0.25),
        ("student", 2, 3, 0.75),
        ("teacher", 2, 3, 0.125),
    ]
    assert found.gap == (0.0, 2.0)
    assert "never learn" in found.statement
    with pytest.raises(LeagueError, match="spans"):
        drift(past, spans=0)


def test_rank_intervals():
    known = rank_intervals({"c": Rating(1, 0.01), "a": Rating(3, 0.01), "b": Rating(2, 0.01)})
    assert [(x.member, x.rank, x.low, x.high, x.best) for x in known.values()] == [
        ("c", 3, 3, 3, 0.0),
        ("a", 1, 1, 1, 1.0),
        ("b", 2, 2, 2, 0.0),
    ]
    alike = rank_intervals({name: Rating(25, 8) for name in "abcd"})
    assert all((x.low, x.high) == (1, 4) for x in alike.values())
    assert sum(x.best for x in alike.values()) == pytest.approx(1.0)
    assert rank_intervals({}) == {}
    with pytest.raises(LeagueError, match="draws"):
        rank_intervals({"a": Rating(1, 1)}, draws=0)


@few
@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0.1, 9)), min_size=1, max_size=8))
def test_rank_intervals_hold_for_any_order_of_members(numbers):
    ratings = {f"m{i}": Rating(*pair) for i, pair in enumerate(numbers)}
    found = rank_intervals(ratings, draws=200)
    assert rank_intervals(dict(reversed(ratings.items())), draws=200) == found
    assert sorted(x.rank for x in found.values()) == list(range(1, len(numbers) + 1))
    assert all(1 <= x.low <= x.high <= len(numbers) for x in found.values())
