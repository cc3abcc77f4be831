"""kill -9 at any moment, a log cut at any byte: what was reported as done is never lost."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from league import League, LeagueConfig, LeagueError, LeagueLocked, Outcome
from league.events.files import EVENTS, SETTINGS, SNAPSHOT
from league.events.store import replayed

KILLS = 30
PROGRAM = """
import os, random, sys
from league import League, Outcome, Rating

path = sys.argv[1]


def say(*words):
    # One write of a short line to a pipe happens whole or not at all.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())


def some_outcome(draw):
    solved = draw.randint(1, 31)
    return Outcome(10, 8, 32, solved, max(0, 8 - solved), draw.randint(0, 2))


def step(league, draw):
    state = league.state
    waiting = [pair for i, pair in state.pairs.items() if i not in state.outcomes]
    kind = draw.choice(["pair", "record", "record", "record_many", "replace", "add_anchor"])
    role = draw.choice(["teacher", "student"])
    if kind == "pair" or len(waiting) < 2:
        number = max(state.rounds, default=-1) + 1
        league.pair(number, draw.choice([None, None, 2]))
    elif kind == "record":
        league.record(draw.choice(waiting), some_outcome(draw))
    elif kind == "record_many":
        league.record_many([(pair, some_outcome(draw)) for pair in draw.sample(waiting, 2)])
    elif kind == "replace":
        old, parent = draw.sample(league.members(role), 2)
        league.replace(old, f"c{state.events}", [parent], "copy", "kill test")
    elif len(state.anchors) < 20:
        league.add_anchor(f"a{state.events}", role, Rating(25.0, 1.0))


def work(draw):
    league = League(path)
    say("open", league.state.events, league.byte_length)
    while True:
        step(league, draw)
        # The event is in the log before the method returns: from here on it must not be lost.
        say("done", league.state.events, league.byte_length)


for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            work(random.Random(int(line)))
        finally:
            os._exit(1)
    say("child", child)
    say("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Writers:
    """Processes that write to a league until they are killed, forked from one that imported it."""

    def __init__(self, path: Path) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", PROGRAM, str(path)]
        self.source = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
        )
        self.lines: list[list[str]] = []
        self.child = 0

    def start(self, seed: int, reports: int) -> None:
        """Begin, and read so many reports."""
        assert self.source.stdin is not None
        self.source.stdin.write(f"{seed}\n".encode())
        self.lines = []
        self.child = 0
        while len(self.lines) < reports or not self.child:
            self._read()

    def kill(self, delay: float) -> list[str]:
        """Kill after a delay; return the last whole report."""
        time.sleep(delay)
        os.kill(self.child, signal.SIGKILL)
        while not self._read():
            pass
        return self.lines[-1]

    def _read(self) -> bool:
        assert self.source.stdout is not None
        line = self.source.stdout.readline().decode()
        assert line, "the writers' process has ended"
        words = line.split()
        if words[0] == "child":
            self.child = int(words[1])
        elif words[0] == "ended":
            assert words[1] == str(-signal.SIGKILL)
            return True
        else:
            self.lines.append(words)
        return False

    def close(self) -> None:
        assert self.source.stdin is not None
        assert self.source.stdout is not None
        self.source.stdin.close()
        self.source.stdout.close()
        self.source.wait(60)


@pytest.fixture
def writers(tmp_path):
    found = Writers(tmp_path / "l")
    yield found
    found.close()


def test_a_killed_writer_leaves_what_it_reported(tmp_path, writers):
    path = tmp_path / "l"
    config = LeagueConfig(
        seed=7, snapshot_every=4, anchor_share=0.3, hall_every=4, hall_at_replacement=True
    )
    names = [[f"{side}{i}" for i in range(3)] for side in "ts"]
    League(path, *names, config=config).close()
    draw = random.Random(11)
    total = 0
    for number in range(KILLS):
        writers.start(number, draw.randint(10, 40))
        last = writers.kill(draw.uniform(0.0, 0.01))
        events, length = int(last[1]), int(last[2])
        total += len(writers.lines) - 1
        before = (path / EVENTS).read_bytes()
        with League(path, read_only=True) as league:
            seen = league.state.to_dict()
        with League(path) as league:
            assert league.state.events in (events, events + 1)
            assert league.state.to_dict() == seen
            log = (path / EVENTS).read_bytes()
            assert log == before[: len(log)]
            assert len(log) >= length
            if number % 3 == 2:
                assert replayed(league.config, log, path).to_dict() == seen
            assert len(log.splitlines()) == league.state.events
        if number % 6 == 5:
            shutil.copytree(path, tmp_path / "bare")
            (tmp_path / "bare" / SNAPSHOT).unlink()
            with League(tmp_path / "bare") as league:
                assert league.state.to_dict() == seen
            assert (tmp_path / "bare" / SNAPSHOT).read_bytes() == (path / SNAPSHOT).read_bytes()
            shutil.rmtree(tmp_path / "bare")
    assert total > 400


def test_a_second_writer_learns_who_the_first_is(tmp_path, writers):
    path = tmp_path / "l"
    League(path, ["t0", "t1"], ["s0", "s1"]).close()
    writers.start(0, 2)
    with pytest.raises(LeagueLocked, match=f"process {writers.child};"):
        League(path)
    with League(path, read_only=True) as league:
        assert league.state.events > 0
    writers.kill(0.0)
    League(path).close()


def test_a_log_cut_at_any_byte_opens_with_a_prefix(tmp_path):
    path = tmp_path / "l"
    with League(path, ["t0", "t1"], ["s0", "s1"], LeagueConfig(snapshot_every=2)) as league:
        for number in range(3):
            results = [(pair, Outcome(4, 4, 8, 3, 1)) for pair in league.pair(number)]
            league.record_many(results) if number % 2 else [league.record(*r) for r in results]
        league.replace("t0", "c0", ["t1"], "copy")
        league.add_anchor("a0", "student", of="s1")
    whole = {name: (path / name).read_bytes() for name in (SETTINGS, EVENTS, SNAPSHOT)}
    log = whole[EVENTS]
    states = [None]
    for count in range(1, log.count(b"\n") + 1):
        prefix = b"".join(log.splitlines(keepends=True)[:count])
        states.append(replayed(LeagueConfig(snapshot_every=2), prefix, path).to_dict())
    for cut in range(len(log) + 1):
        (path / EVENTS).write_bytes(log[:cut])
        count = log[:cut].count(b"\n")
        # Reading needs no repair, and leaves the files alone.
        if not count:
            with pytest.raises(LeagueError, match="empty"):
                League(path, read_only=True)
            continue
        with League(path, read_only=True) as league:
            assert league.state.to_dict() == states[count]
        assert (path / EVENTS).read_bytes() == log[:cut]
    for cut in range(log.index(b"\n") + 1, len(log), 97):
        for name, content in whole.items():
            (path / name).write_bytes(content[:cut] if name == EVENTS else content)
        with League(path) as league:
            assert league.state.to_dict() == states[log[:cut].count(b"\n")]
            league.pair(99)
        with League(path) as league:
            assert league.warnings == ()
            assert 99 in league.state.rounds


def test_a_league_of_the_first_schema_opens_and_goes_on(tmp_path):
    """Written by version 0.1.0: no void, other rows in the snapshot, fewer settings."""
    path = tmp_path / "l"
    path.mkdir()
    settings = {"schema": 1, "config": {"seed": 2, "mu": 25.0, "matcher": "uniform"}}
    pairs = [
        {"id": f"0/t{i}/s{i}", "teacher": f"t{i}", "student": f"s{i}", "predicted": 0.5}
        for i in range(2)
    ]
    numbers = {"tasks": 8, "valid": 8, "attempts": 32, "solved": 30, "unsolved": 0}
    events = [
        {"event": "league_founded", "teachers": ["t0", "t1"], "students": ["s0", "s1"]},
        {"event": "round_paired", "round": 0, "pairs": pairs},
        {"event": "match_recorded", "pair": "0/t0/s0", "outcome": numbers},
    ]
    log = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events).encode()
    (path / SETTINGS).write_text(json.dumps(settings) + "\n")
    (path / EVENTS).write_bytes(log)
    (path / SNAPSHOT).write_text('{"schema":1,"bytes":0,"digest":"","state":{}}\n')
    with League(path) as league:
        assert league.warnings == ()
        assert league.state.outcomes["0/t0/s0"] == Outcome(8, 8, 32, 30, 0)
        assert json.loads((path / SETTINGS).read_bytes()) == settings
        assert (path / EVENTS).read_bytes() == log
        league.record_many([(pair, Outcome(8, 8, 32, 30, 0, 1)) for pair in league.pair(0)[1:]])
        # What an older version cannot read, it must be told not to.
        assert json.loads((path / SETTINGS).read_bytes())["schema"] == 2
        state = league.state.to_dict()
    with League(path) as league:
        assert league.warnings == ()
        assert league.state.to_dict() == state
        assert league.config == LeagueConfig(seed=2, matcher="uniform")
