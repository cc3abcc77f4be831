"""A league whose process dies at any change of its files continues to the same files."""

import mmap

import pytest
from mortal import changes_until_death

from league import League, LeagueConfig, Outcome
from league.store import EVENTS, LOCK, SETTINGS

CONFIG = LeagueConfig(seed=3, grace_matches=0)
AFTER = (1, 2, 3, 4, 6, 7, 10, 10)
"""How many events are in the log after each operation of the series."""
OUTCOMES = (Outcome(4, 4, 8, 5, 0), Outcome(4, 3, 6, 2, 1))


def series(home, done=lambda: None):
    """Found a league or open it, and do of a short series what has not been done.

    done: called when an operation has returned.
    """
    if (home / SETTINGS).exists():
        league = League(home, config=CONFIG)
    else:
        league = League(home, ["t0", "t1"], ["s0", "s1"], CONFIG)
    with league:
        done()
        for turn in range(2):
            pairs = league.pair(turn)
            done()
            for pair, outcome in zip(pairs, OUTCOMES, strict=True):
                league.record(pair, outcome)
            done()
        if "t2" not in league.members("teacher"):
            league.replace("t1", "t2", ["t0"], "mutate, " * 25, "weaker, " * 25)
        done()
        for pair, outcome in zip(league.pair(2), OUTCOMES, strict=True):
            league.record(pair, outcome)
        done()
        league.copy_to(home / "copy")
        done()


def files(home):
    """All files but the lock, which names the process."""
    found = {str(p.relative_to(home)): p for p in sorted(home.rglob("*")) if p.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != LOCK}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The undisturbed league's files, and how many changes it makes."""
    home = tmp_path_factory.mktemp("whole") / "league"
    made = changes_until_death(lambda: series(home), home, None)
    found = files(home)
    assert {EVENTS, SETTINGS, f"copy/{EVENTS}"} <= found.keys()
    assert b'"t2"' in found[EVENTS]
    return found, made


def dies_and_continues(whole, home, *deaths):
    expected, made = whole
    for k in deaths:
        calls = mmap.mmap(-1, 1)  # shared with the process that dies

        def done(calls=calls):
            calls[0] += 1

        killed = changes_until_death(lambda done=done: series(home, done), home, k)
        assert killed is None, f"the series makes fewer than {k} changes"
        lost_at_most_the_last_event(expected, home, calls[0])
    series(home)
    assert files(home) == expected, f"killed at change {deaths} of {made}"


def lost_at_most_the_last_event(expected, home, done):
    """What returned before the death is in the log, which is the beginning of the whole one."""
    if done:
        with League(home, read_only=True) as league:
            lines = len(list(league.events()))
        kept = b"".join((home / EVENTS).read_bytes().splitlines(keepends=True)[:lines])
        assert expected[EVENTS].startswith(kept)
        assert kept.count(b"\n") >= AFTER[done - 1]


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_a_change(whole, tmp_path, every):
    for k in range(1, whole[1] + 1, every):
        dies_and_continues(whole, tmp_path / f"league-{k}", k)


def test_killed_again_after_it_continued(whole, tmp_path):
    for late in (4, 9, 14, 23):
        dies_and_continues(whole, tmp_path / f"league-{late}", whole[1] - late, 6, 2)
