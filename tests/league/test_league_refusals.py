"""Bad input: one clear error, and neither state nor files any different."""

import json
import math
import os
from pathlib import Path

import pytest

from league import (
    ConflictingResult,
    League,
    LeagueConfig,
    LeagueError,
    LeagueLocked,
    Outcome,
    Pair,
    UnknownMember,
    UnreadableLeague,
)
from league.events.files import EVENTS, LOCK, SETTINGS, SNAPSHOT

FINE = Outcome(8, 8, 32, 16, 1)


@pytest.fixture
def league(tmp_path):
    with League(tmp_path / "l", ["t0", "t1", "t2"], ["s0", "s1", "s2"]) as found:
        for number in range(2):
            found.record_many([(pair, FINE) for pair in found.pair(number)])
        yield found


def everything(league: League) -> tuple[object, dict[str, bytes]]:
    home = Path(league.directory)
    return league.state.to_dict(), {path.name: path.read_bytes() for path in home.iterdir()}


CALLS = [
    (lambda x: x.rating("nobody"), UnknownMember, "'nobody'; alive are t0"),
    (lambda x: x.predict("nobody", "s0"), UnknownMember, "'nobody'"),
    (lambda x: x.predict("t0", "t1"), LeagueError, "expected a student"),
    (lambda x: x.replace("nobody", "c", ["t0"], "copy"), UnknownMember, "'nobody'"),
    (lambda x: x.replace("t0", "c", ["nobody"], "copy"), UnknownMember, "'nobody'"),
    (lambda x: x.replace("t0", "c", ["t1"], "copy", weights=[math.nan]), LeagueError, "weights"),
    (lambda x: x.add_anchor("a", "teacher", of="nobody"), UnknownMember, "'nobody'"),
    (lambda x: x.members("judge"), LeagueError, "expected 'teacher' or 'student'"),
    (lambda x: x.anchors("judge"), LeagueError, "expected 'teacher' or 'student'"),
    (lambda x: x.leaderboard("judge"), LeagueError, "expected 'teacher' or 'student'"),
    (lambda x: x.select("judge", 1), LeagueError, "expected 'teacher' or 'student'"),
    (lambda x: x.select("teacher", 3), LeagueError, "from 0 to 2"),
    (lambda x: x.select("teacher", 1.0), LeagueError, "whole number"),
    (
        lambda x: x.select("teacher", 1, fitness={"t0": 0.0, "t1": math.nan, "t2": 1.0}),
        LeagueError,
        "fitness of t1 is nan; expected a finite number",
    ),
    (lambda x: x.pair(-1), LeagueError, "round is -1"),
    (lambda x: x.pair(2, matches=4), LeagueError, "from 1 to 3"),
    (
        lambda x: x.record(x.pair(0)[0], Outcome(8, 8, 32, 17, 1)),
        ConflictingResult,
        "already recorded as Outcome.*now came as",
    ),
    (
        lambda x: x.record_many([(x.pair(0)[0], Outcome(8, 8, 32, 17, 1))]),
        ConflictingResult,
        "already recorded",
    ),
    (lambda x: x.record(Pair("9/t0/s0", 9, "t0", "s0", 0.5), FINE), LeagueError, "pair.round."),
    (lambda x: x.record(x.pair(0)[0], (8, 8, 32, 16, 1)), LeagueError, "expected an Outcome"),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_a_refused_call_changes_nothing(league, call, error, message):
    before = everything(league)
    with pytest.raises(error, match=message) as caught:
        call(league)
    assert "\n" not in str(caught.value)
    assert everything(league) == before
    assert league.pair(0) == league.pair(0)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((8, 8, 4, 5, 0), "solved 5 exceeds attempts 4"),
        ((8, 9, 4, 4, 0), "valid 9 exceeds tasks 8"),
        ((-1, 0, 0, 0, 0), "tasks is -1; expected a whole number >= 0"),
        ((8, 8, -4, 0, 0), "attempts is -4"),
        ((8, 8, 4, math.nan, 0), "solved is nan"),
        ((8, 8, 4, 4, 0, -2), "void is -2"),
        ((8, 8, 4, 4, 0, 1.5), "void is 1.5"),
    ],
)
def test_an_impossible_outcome_cannot_be_made(numbers, message):
    with pytest.raises(LeagueError, match=message):
        Outcome(*numbers)


def test_a_population_of_one_plays_and_of_none_is_refused(tmp_path):
    for names in (([], ["s0"]), (["t0"], []), ([], [])):
        with pytest.raises(LeagueError, match="at least one name"):
            League(tmp_path / "none", *names)
    assert not (tmp_path / "none").exists()
    with League(tmp_path / "one", ["t0"], ["s0"]) as league:
        for number in range(3):
            league.record(league.pair(number, matches=1 if number else None)[0], FINE)
        before = everything(league)
        for call in (
            lambda: league.select("teacher", 1),
            lambda: league.replace("s0", "c", ["s0"], "mutate"),
        ):
            with pytest.raises(LeagueError):
                call()
        assert everything(league) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (SETTINGS, b'{"schema":99,"config":{}}\n', "schema 99, this version reads up to 2"),
        (EVENTS, b'{"event":"time_travel"}\n', "written by a newer"),
        (EVENTS, b"\x00\xff\n", "line 1 is not JSON"),
        (EVENTS, b'{"event":"league_founded","teachers":["t0"]}\n', "line 1"),
    ],
)
def test_corrupt_and_newer_files_are_refused_and_left_alone(tmp_path, name, content, message):
    path = tmp_path / "l"
    with League(path, ["t0"], ["s0"]) as league:
        league.record(league.pair(0)[0], FINE)
    (path / name).write_bytes(content)
    before = {p.name: p.read_bytes() for p in path.iterdir()}
    for read_only in (True, False):
        with pytest.raises(UnreadableLeague, match=message):
            League(path, read_only=read_only)
        assert {p.name: p.read_bytes() for p in path.iterdir()} == before


def test_a_newer_snapshot_is_ignored(tmp_path):
    path = tmp_path / "l"
    with League(path, ["t0"], ["s0"]) as league:
        league.record(league.pair(0)[0], FINE)
        state = league.state.to_dict()
    (path / SNAPSHOT).write_text('{"schema":99}\n')
    with League(path) as league:
        assert league.state.to_dict() == state
        assert "upgrade" in league.warnings[0]


def test_the_second_writer_is_refused_by_name_and_the_first_goes_on(league):
    before = everything(league)
    with pytest.raises(LeagueLocked, match=f"process {os.getpid()};"):
        League(league.directory)
    assert everything(league) == before
    league.record_many([(pair, FINE) for pair in league.pair(2)])
    assert (Path(league.directory) / LOCK).read_text() == f"{os.getpid()}\n"


def test_a_payoff_matrix_of_thousands_is_refused(tmp_path):
    config = LeagueConfig(matcher="thompson")
    names = [[f"{side}{i}" for i in range(513)] for side in "ts"]
    with League(tmp_path / "l", *names, config=config) as league:
        with pytest.raises(LeagueError, match="at most 512 a side"):
            league.payoff()
        assert len(league.pair(0)) == 513
        assert json.loads((tmp_path / "l" / SETTINGS).read_bytes())["schema"] == 2
