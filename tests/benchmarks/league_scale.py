"""What a league of many members costs: founding, a round of pairing and recording, reopening.

    python tests/benchmarks/league_scale.py [--members 10000] [--rounds 5]

Each part runs in a process of its own, so that its peak memory (ru_maxrss, the interpreter and
NumPy included) is its own. Times are CPU times of that process, files and fsync included but not
waited for; the wall times are next to them. Of several rounds the dearest counts; `record` is up to
1,000 matches one by one.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarking import Row, alone, parser, show

PARTS = ("found", "pair and record_many", "record", "open", "open without a snapshot")
SINGLE = 1000
"""Matches recorded one by one."""


def main() -> None:
    options = parser(__doc__, rounds=5)
    options.add_argument("--members", type=int, default=10_000, help="both sides together")
    options.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.part:
        print(json.dumps(measured(given.part, given.directory, given.members, given.rounds)))
        return
    with tempfile.TemporaryDirectory() as home:
        words = (__file__, *sys.argv[1:], "--directory", Path(home) / "league")
        show([alone(*words, "--part", part) for part in PARTS])


def measured(part: str, directory: Path, members: int, rounds: int) -> Row:
    """Do a part of the work in this process, and return its row."""
    from league import League, LeagueConfig, Outcome
    from league.store import EVENTS, SNAPSHOT

    outcomes = [Outcome(64, 60, 480, 8 * k, 60 - k) for k in range(1, 60)]
    names = [[f"{side}{i}" for i in range(members // 2)] for side in "ts"]
    timings: list[tuple[float, float]] = []
    if part == "open without a snapshot":
        (directory / SNAPSHOT).unlink()
    given = {} if directory.exists() else {"config": LeagueConfig(matcher="thompson")}
    cpu, wall = time.process_time(), time.perf_counter()
    with League(directory, *(names if given else ()), **given) as league:
        timings.append((time.process_time() - cpu, time.perf_counter() - wall))
        if part == "record":
            singles = league.pair(rounds)[:SINGLE]
        for number in range({"record": 1, "pair and record_many": rounds}.get(part, 0)):
            cpu, wall = time.process_time(), time.perf_counter()
            if part == "record":
                for i, pair in enumerate(singles):
                    league.record(pair, outcomes[i % 59])
            else:
                pairs = league.pair(number)
                league.record_many([(p, outcomes[(i * 7) % 59]) for i, p in enumerate(pairs)])
            timings.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = max(timings[1:] or timings)
    log = directory / EVENTS
    return {
        "part": part,
        "members": members,
        "CPU s": cpu,
        "wall s": wall,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "log MB": log.stat().st_size / 1e6 if log.exists() else 0.0,
    }


if __name__ == "__main__":
    main()
