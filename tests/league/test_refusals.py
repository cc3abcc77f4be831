"""Bad input: one clear error, and neither state nor files any different."""

import math
from copy import deepcopy
from pathlib import Path

import pytest

from league import (
    ConflictingResult,
    League,
    LeagueConfig,
    LeagueError,
    Outcome,
    Pair,
    UnknownMember,
)
from worlds import play_rounds

FINE = Outcome(8, 8, 32, 16, 1)


@pytest.fixture
def league(tmp_path):
    with League(tmp_path / "l", ["t0", "t1", "t2"], ["s0", "s1", "s2"]) as found:
        play_rounds(found, range(2), lambda _pair: FINE)
        yield found


def everything(league: League) -> tuple[object, dict[str, bytes]]:
    home = Path(league.directory)
    return deepcopy(league.state), {path.name: path.read_bytes() for path in home.iterdir()}


def replacing(**changes):
    given = {"member": "t1", "child": "c", "parents": ["t0"], "operator": "copy"} | changes
    return lambda league: league.replace(**given)


REFUSED = [
    (lambda _: LeagueConfig(fitness="lower-bound"), "did you mean lower_bound?"),
    (replacing(child="a/b"), "cannot be a member's name"),
    (replacing(parents=[]), "expected a list"),
    (replacing(parents=["s0"]), "is no teacher"),
    (replacing(weights=[0.5, 0.5]), "expected 1 numbers"),
    (replacing(weights=[math.nan]), "weights"),
    (lambda x: x.rating("t00"), "did you mean t0?"),
    (lambda x: x.members("judge"), "expected 'teacher' or 'student'"),
    (lambda x: x.select("teacher", 3), "from 0 to 2"),
    (lambda x: x.pair(-1), "round is -1"),
    (lambda x: x.record(Pair("9/t0/s0", 9, "t0", "s0", 0.5), FINE), "pair.round."),
]
CALLS = [
    *((call, LeagueError, message) for call, message in REFUSED),
    (lambda x: x.rating("nobody"), UnknownMember, "'nobody'; alive are t0"),
    (lambda x: x.replace("nobody", "c", ["t0"], "copy"), UnknownMember, "'nobody'"),
    (
        lambda x: x.record(x.pair(0)[0], Outcome(8, 8, 32, 17, 1)),
        ConflictingResult,
        "already recorded as Outcome.*now came as",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_a_refused_call_changes_nothing(league, call, error, message):
    before = everything(league)
    with pytest.raises(error, match=message) as caught:
        call(league)
    assert "\n" not in str(caught.value)
    assert everything(league) == before
    assert league.pair(0) == league.pair(0)


def test_names_are_never_used_again_and_a_retired_member_may_be_a_parent(league):
    league.replace("t1", "c1", ["t0"], "mutate")
    for member, child, message in (
        ("t1", "c2", "already been replaced"),
        ("t0", "t1", "has been used"),
        ("t0", "c1", "has been used"),
    ):
        with pytest.raises(LeagueError, match=message):
            league.replace(member, child, ["t2"], "mutate")
    league.replace("t0", "c3", ["t1"], "mutate")


def test_a_role_never_dies_out(tmp_path):
    with League(tmp_path / "one", ["t0"], ["s0"]) as league:
        play_rounds(league, range(3), lambda _pair: FINE)
        before = everything(league)
        assert league.select("teacher", 0) == []
        with pytest.raises(LeagueError, match="never dies out"):
            league.select("teacher", 1)
        with pytest.raises(LeagueError, match="only student"):
            league.replace("s0", "c", ["s0"], "mutate")
        assert everything(league) == before
