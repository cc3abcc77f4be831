"""Two files are the whole truth, whatever happened to the process."""

import errno
import fcntl
import json
import os

import pytest
from full_disk import on_full_disk

from league import League, LeagueConfig, LeagueError, LeagueLocked, UnreadableLeague
from league.analysis import replay
from league.store import EVENTS, SETTINGS, write_atomically
from league_command import run
from worlds import outcome_of

FILES = (SETTINGS, EVENTS)


def step(league: League, number: int) -> None:
    for pair in league.pair(number):
        league.record(pair, outcome_of(pair))
    if number % 3 == 2:
        for role in ("teacher", "student"):
            for weak in league.select(role, 1):
                best = league.leaderboard(role)[0].member
                league.replace(weak, f"{role[0]}-{number}", [best], "copy", "weakest")


def make(path, rounds=0) -> League:
    config = LeagueConfig(seed=2, grace_matches=2)
    league = League(path, ["t0", "t1", "t2"], ["s0", "s1"], config)
    for number in range(rounds):
        step(league, number)
    return league


def contents(path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in FILES}


def test_a_league_opened_again_is_the_same_and_its_ratings_follow(tmp_path):
    with make(tmp_path / "l", 9) as league:
        pass
    with League(tmp_path / "l", read_only=True) as again:
        assert again.state == league.state
        assert replay(again) == []


def test_equal_runs_give_equal_bytes_however_often_they_are_interrupted(tmp_path):
    make(tmp_path / "whole", 9).close()
    make(tmp_path / "parts").close()
    for number in range(9):
        with League(tmp_path / "parts") as league:
            assert league.warnings == ()
            step(league, number)
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")


def test_a_copy_is_a_league_and_a_cut_back_log_is_an_earlier_one(tmp_path):
    with make(tmp_path / "l", 4) as league:
        league.copy_to(tmp_path / "checkpoint")
        length = (tmp_path / "checkpoint" / EVENTS).stat().st_size
        for number in range(4, 9):
            step(league, number)
    with League(tmp_path / "checkpoint") as copy:
        assert copy.warnings == ()
        for number in range(4, 9):
            step(copy, number)
    assert contents(tmp_path / "checkpoint") == contents(tmp_path / "l")
    os.truncate(tmp_path / "l" / EVENTS, length)
    with League(tmp_path / "l") as league:
        assert league.warnings == ()
        for number in range(4, 9):
            step(league, number)
    assert contents(tmp_path / "checkpoint") == contents(tmp_path / "l")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (EVENTS, b"", "empty"),
        (EVENTS, b"rubbish\n", "line 1 is not JSON"),
        (EVENTS, b'{"event":"league_founded"}\n', "line 1 does not follow"),
        (SETTINGS, b'{"schema":4,"config":{}}\n', "schema 4, this version reads 3"),
        (SETTINGS, b'{"schema":3,"config":{"pfsp":[1,1],"sed":1}}\n', "unexpected.*'sed'"),
        (SETTINGS, b"\xff\n", "cannot read"),
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


def changed(old: bytes, new: bytes, at: int = 2):
    """Return a function that changes one line of a log."""

    def edit(lines: list[bytes]) -> list[bytes]:
        assert old in lines[at]
        return [*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]]

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(changed(b"64", b"65"), id="a digit of a result"),
        pytest.param(changed(b'"t0":[', b'"t0":[1'), id="a rating"),
        pytest.param(changed(b'"s1"', b'"s9"', at=0), id="a member's name"),
        pytest.param(changed(b'"hash":"', b'"hash":"0'), id="a hash"),
        pytest.param(lambda lines: [*lines, lines[-1]], id="the last line doubled"),
        pytest.param(lambda lines: [*lines[:3], *lines[4:]], id="a line lost"),
        pytest.param(lambda lines: [*lines[:3], bytes(512) + b"\n", *lines[3:]], id="NULs"),
    ],
)
def test_what_was_changed_after_it_was_written_is_found(tmp_path, edit):
    make(tmp_path / "l", 2).close()
    path = tmp_path / "l" / EVENTS
    lines = edit(path.read_bytes().splitlines(keepends=True))
    path.write_bytes(b"".join(lines))
    with pytest.raises(UnreadableLeague, match=r"events.jsonl line \d+ ") as refused:
        League(tmp_path / "l", read_only=True)
    assert "\n" not in str(refused.value)
    run("replay", tmp_path / "l", code=1)


def test_settings_changed_after_the_founding_are_found(tmp_path):
    make(tmp_path / "l", 1).close()
    path = tmp_path / "l" / SETTINGS
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data, indent=1))  # the same in other words
    League(tmp_path / "l").close()
    data["config"]["tau"] = 0.4
    path.write_text(json.dumps(data))
    with pytest.raises(UnreadableLeague, match=r"league\.json was changed after the league was f"):
        League(tmp_path / "l")


def test_a_missing_league_and_a_second_founding_are_refused(tmp_path):
    with pytest.raises(LeagueError, match="no league"):
        League(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    make(tmp_path / "l").close()
    with pytest.raises(LeagueError, match="already holds a league"):
        make(tmp_path / "l")
    with pytest.raises(LeagueError, match="seed 2 not 9"):
        League(tmp_path / "l", config=LeagueConfig(seed=9, grace_matches=2))
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
            assert reader.state == league.state
            with pytest.raises(LeagueError, match="reading only"):
                reader.pair(1)
    League(tmp_path / "l").close()


@pytest.mark.parametrize(
    "tail", [b'{"event":"mat', b"\0" * 700, b"\0" * 700 + b"\n", b'{"event":"mat\0\0\n\0\0\n\0']
)
def test_what_a_crash_or_a_power_cut_left_at_the_end_is_dropped_and_named(tmp_path, tail):
    make(tmp_path / "l", 3).close()
    path = tmp_path / "l" / EVENTS
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    for read_only in (True, False):
        with League(tmp_path / "l", read_only=read_only) as league:
            assert league.state.events == whole.count(b"\n")
            assert league.warnings == (
                f"{path} ended in an unfinished event of {len(tail)} bytes; it was dropped",
            )
        assert path.read_bytes() == (whole + tail if read_only else whole)


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
    state = league.state
assert (place / "events.jsonl").read_bytes().endswith(b"\n")
try:
    (home / "more").write_bytes(bytes(2**20))
except OSError:
    pass
with League(place) as league:
    assert league.state == state
    make_room()
    league.pair(n + 1)
assert len(League(place, read_only=True).state.rounds) == len(state.rounds) + 1
"""
    on_full_disk(tmp_path / "disk", 64, program)


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch):
    def refuse(handle, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        with make(tmp_path / "l", 2) as league:
            (warning,) = league.warnings
            assert f"{tmp_path / 'l'} cannot be locked" in warning
        assert League(tmp_path / "l", read_only=True).warnings == ()
    with make(tmp_path / "l2", 2) as league:
        assert league.warnings == ()
    assert contents(tmp_path / "l") == contents(tmp_path / "l2")


def test_links_are_followed_and_names_of_255_bytes_are_written(tmp_path):
    home, real = tmp_path / "league", tmp_path / ("é" * 127)
    make(home, 2).close()
    (home / EVENTS).rename(real)
    (home / EVENTS).symlink_to(real)
    write_atomically(home / EVENTS, real.read_bytes())
    write_atomically(real, real.read_bytes(), alone=False)
    assert (home / EVENTS).is_symlink()
    assert sorted(os.listdir(tmp_path)) == sorted(["league", real.name])
    assert replay(League(home, read_only=True)) == []
