"""Three files are the whole truth, whatever happened to the process."""

import errno
import json
import os

import pytest
from full_disk import on_full_disk

from league import League, LeagueConfig, LeagueError, LeagueLocked, Outcome, UnreadableLeague
from league.state import State
from league.store import EVENTS, SETTINGS, SNAPSHOT, replayed
from worlds import outcome_of

FILES = (SETTINGS, EVENTS, SNAPSHOT)


def step(league: League, number: int) -> None:
    for pair in league.pair(number):
        league.record(pair, outcome_of(pair))
    if number % 3 == 2:
        for role in ("teacher", "student"):
            for weak in league.select(role, 1):
                best = league.leaderboard(role)[0].member
                league.replace(weak, f"{role[0]}-{number}", [best], "copy", "weakest")


def make(path, rounds=0, every=8) -> League:
    config = LeagueConfig(seed=2, snapshot_every=every, grace_matches=2)
    league = League(path, ["t0", "t1", "t2"], ["s0", "s1"], config)
    for number in range(rounds):
        step(league, number)
    return league


def contents(path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in FILES}


def test_replay_of_the_log_is_the_state(tmp_path):
    with make(tmp_path / "l", 9) as league:
        assert replayed(league.config, tmp_path / "l" / EVENTS).to_dict() == league.state.to_dict()
        assert State.from_dict(league.config, json.loads(json.dumps(league.state.to_dict()))) == (
            league.state
        )


def test_snapshots_stay_in_proportion_to_the_log(tmp_path):
    """At many members a snapshot is large, and must not follow every few small events."""
    names = [[f"{side}{i}" for i in range(300)] for side in "ts"]
    config = LeagueConfig(matcher="uniform", snapshot_every=1)
    written = 0
    with League(tmp_path / "l", *names, config) as league:
        identity = None
        for pair in league.pair(0):
            league.record(pair, Outcome(10, 8, 32, 4, 4))
            stat = (tmp_path / "l" / SNAPSHOT).stat()
            if (stat.st_ino, stat.st_mtime_ns) != identity:
                identity = (stat.st_ino, stat.st_mtime_ns)
                written += stat.st_size
        assert written <= 4 * league.byte_length + 200_000


def test_equal_runs_give_equal_bytes_however_often_they_are_interrupted(tmp_path):
    make(tmp_path / "whole", 9).close()
    make(tmp_path / "parts").close()
    for number in range(9):
        with League(tmp_path / "parts") as league:
            assert league.warnings == ()
            step(league, number)
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
    with make(tmp_path / "sparse", 9, every=1000) as league:
        assert json.loads((tmp_path / "sparse" / SNAPSHOT).read_bytes())["state"]["events"] == 1
        state = league.state.to_dict()
    with League(tmp_path / "sparse") as league:
        assert league.state.to_dict() == state


def test_a_copy_is_a_league_and_a_cut_back_log_is_an_earlier_one(tmp_path):
    with make(tmp_path / "l", 4) as league:
        league.copy_to(tmp_path / "checkpoint")
        length = league.byte_length
        for number in range(4, 9):
            step(league, number)
    with League(tmp_path / "checkpoint") as copy:
        assert copy.warnings == ()
        assert copy.byte_length == length
        for number in range(4, 9):
            step(copy, number)
    assert contents(tmp_path / "checkpoint") == contents(tmp_path / "l")
    os.truncate(tmp_path / "l" / EVENTS, length)
    with League(tmp_path / "l") as league:
        assert "rebuilt" in league.warnings[0]
        for number in range(4, 9):
            step(league, number)
    assert contents(tmp_path / "checkpoint") == contents(tmp_path / "l")


def test_a_lost_or_damaged_snapshot_is_rebuilt(tmp_path):
    make(tmp_path / "l", 5).close()
    whole, path = contents(tmp_path / "l"), tmp_path / "l" / SNAPSHOT
    path.unlink()
    for damage in (b"{", b'{"schema":2,"bytes":"x"}', whole[SNAPSHOT][:-40] + b"\n", b""):
        with League(tmp_path / "l") as league:
            assert "rebuilt" in league.warnings[0]
        assert contents(tmp_path / "l") == whole
        path.write_bytes(damage)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (EVENTS, b"", "empty"),
        (EVENTS, b'{"event":"party"}\n', "unknown event 'party'"),
        (EVENTS, b"rubbish\n", "line 1 is not JSON"),
        (EVENTS, b"[]\n", "line 1 is not a JSON object"),
        (EVENTS, b'{"event":"league_founded"}\n', "line 1"),
        (SETTINGS, b'{"schema":3,"config":{}}\n', "schema 3, this version reads 2"),
        (EVENTS, b'{"event":"anchor_added","name":"a"}\n', "line 1: a is an anchor, which this"),
        (SETTINGS, b'{"schema":2}\n', "bad settings"),
        (SETTINGS, b'{"schema":2,"config":{"pfsp":[1,1],"anchor_share":0.2}}\n', "_share is 0.2"),
        (SETTINGS, b'{"schema":2,"config":{"pfsp":[1,1],"sed":1}}\n', "unexpected.*'sed'"),
        (SETTINGS, b"\xff\n", "cannot read"),
        (SETTINGS, b"[]\n", "not a league file"),
    ],
)
def test_damaged_files_are_named_and_left_alone(tmp_path, name, content, message):
    make(tmp_path / "l", 2).close()
    (tmp_path / "l" / name).write_bytes(content)
    damaged = contents(tmp_path / "l")
    for read_only in (True, False):
        with pytest.raises(UnreadableLeague, match=message):
            League(tmp_path / "l", read_only=read_only)
    assert contents(tmp_path / "l") == damaged


def test_a_league_of_an_older_version_without_anchors_opens(tmp_path):
    make(tmp_path / "l", 3).close()
    whole = contents(tmp_path / "l")
    old = whole[SETTINGS].replace(
        b'"config":{', b'"config":{"coverage_every":0,"anchor_share":0.0,'
    )
    (tmp_path / "l" / SETTINGS).write_bytes(old)
    snapshot = whole[SNAPSHOT].replace(b'"turn":', b'"anchor":false,"turn":')
    (tmp_path / "l" / SNAPSHOT).write_bytes(snapshot)
    with League(tmp_path / "l") as league:
        assert "rebuilt" in league.warnings[0]
    assert contents(tmp_path / "l") == whole | {SETTINGS: old}


def test_a_missing_league_and_a_second_founding_are_refused(tmp_path):
    with pytest.raises(LeagueError, match="no league"):
        League(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    make(tmp_path / "l").close()
    with pytest.raises(LeagueError, match="already holds a league"):
        make(tmp_path / "l")
    with pytest.raises(LeagueError, match="seed 2 not 9"):
        League(tmp_path / "l", config=LeagueConfig(seed=9, snapshot_every=8, grace_matches=2))
    with pytest.raises(LeagueError, match="read-only"):
        League(tmp_path / "m", ["t"], ["s"], read_only=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(LeagueError, match="cannot use"):
        League(tmp_path / "file", ["t"], ["s"])
    League(tmp_path / "l").close()


def test_one_writer_and_any_number_of_readers(tmp_path):
    with make(tmp_path / "l", 1) as league:
        with pytest.raises(LeagueLocked, match=f"process {os.getpid()};"):
            League(tmp_path / "l")
        with League(tmp_path / "l", read_only=True) as reader:
            assert reader.state.to_dict() == league.state.to_dict()
            with pytest.raises(LeagueError, match="reading only"):
                reader.pair(1)
    League(tmp_path / "l").close()


def test_a_snapshot_that_cannot_be_written_is_made_up_for(tmp_path, monkeypatch):
    def full(*paths: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with make(tmp_path / "l", every=2) as league:
        with monkeypatch.context() as patch:
            patch.setattr("os.replace", full)
            for number in range(3):
                step(league, number)
        assert "No space left" in league.warnings[0]
        assert not list((tmp_path / "l").glob(".*"))
        missed = (tmp_path / "l" / SNAPSHOT).read_bytes()
    with League(tmp_path / "l", read_only=True) as league:
        assert len(league.state.rounds) == 3
    League(tmp_path / "l").close()
    make(tmp_path / "sound", 3, every=2).close()
    assert contents(tmp_path / "l") == contents(tmp_path / "sound")
    assert (tmp_path / "l" / SNAPSHOT).read_bytes() != missed


def test_an_unfinished_event_is_dropped_and_named(tmp_path):
    make(tmp_path / "l", 3).close()
    path = tmp_path / "l" / EVENTS
    torn = path.read_bytes()[:-5]
    path.write_bytes(torn)
    count = torn.count(b"\n")
    size = len(torn) - torn.rindex(b"\n") - 1
    for read_only in (True, False):
        with League(tmp_path / "l", read_only=read_only) as league:
            assert league.state.events == count
            assert f"unfinished event of {size} bytes" in " ".join(league.warnings)
        assert path.read_bytes() == (torn if read_only else torn[:-size])


def test_a_full_disk_takes_no_part_of_an_event_and_lets_the_league_be_opened(tmp_path):
    program = r"""
from league import League, LeagueError, Outcome

place = home / "l"
with League(place, ["t0"], ["s0"]) as league:
    n = 0
    while True:
        try:
            league.record(league.pair(n)[0], Outcome(4, 4, 8, 4, 1))
        except LeagueError as error:
            assert "cannot append" in str(error)
            break
        n += 1
    state = league.state.to_dict()
assert (place / "events.jsonl").read_bytes().endswith(b"\n")
try:
    (home / "more").write_bytes(bytes(2**20))
except OSError:
    pass
with League(place) as league:
    assert league.state.to_dict() == state
    make_room()
    league.pair(n + 1)
assert len(League(place, read_only=True).state.rounds) == len(state["rounds"]) + 1
"""
    on_full_disk(tmp_path / "disk", 64, program)
