"""What a league of many members costs: founding, a round of pairing and recording, reopening.

    python tests/benchmarks/league_scale.py --members 10000 --rounds 5

Each part runs in a process of its own, so that its peak memory (ru_maxrss, the interpreter and
NumPy included) is its own. Times are CPU times of that process, files and fsync included but not
waited for; the wall times are beside them.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarking import alone, parser, show

PARTS = ("import", "found", "round", "single", "reopen", "replay")


def main() -> None:
    """Print one row per part."""
    options = parser(__doc__)
    options.add_argument("--members", type=int, default=10_000, help="both sides together")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--matcher", default="thompson")
    options.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options.add_argument("--directory", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.part:
        print(json.dumps(_part(given)))
        return
    with tempfile.TemporaryDirectory() as home:
        words = (__file__, *sys.argv[1:], "--directory", home)
        show([alone(*words, "--part", part) for part in PARTS])


def _part(options: argparse.Namespace) -> dict[str, Any]:
    from league import League, LeagueConfig, Outcome
    from league.store import EVENTS, SNAPSHOT

    directory = Path(options.directory) / "league"
    half = options.members // 2
    outcomes = [Outcome(64, 60, 480, 8 * k, 60 - k) for k in range(1, 60)]
    timings: list[tuple[float, float]] = []

    def timed(action: Any) -> Any:
        cpu, wall = time.process_time(), time.perf_counter()
        result = action()
        timings.append((time.process_time() - cpu, time.perf_counter() - wall))
        return result

    what = "nothing but the import"
    if options.part == "import":
        timings.append((0.0, 0.0))
    elif options.part == "found":
        names = [[f"{side}{i}" for i in range(half)] for side in "ts"]
        timed(
            lambda: League(directory, *names, config=LeagueConfig(matcher=options.matcher)).close()
        )
        what = f"{half} + {half} members"
    elif options.part == "round":
        with League(directory) as league:
            for number in range(options.rounds):

                def play(number: int = number) -> None:
                    pairs = league.pair(number)
                    results = [(p, outcomes[(i * 7) % 59]) for i, p in enumerate(pairs)]
                    league.record_many(results)

                timed(play)
        what = f"pair + record_many, dearest of {options.rounds} rounds"
    elif options.part == "single":
        with League(directory) as league:
            pairs = league.pair(options.rounds)

            def record() -> None:
                for i, pair in enumerate(pairs[:1000]):
                    league.record(pair, outcomes[i % 59])

            timed(record)
        what = f"record, {min(1000, len(pairs))} times"
    elif options.part == "reopen":
        timed(lambda: League(directory).close())
        what = f"open after {options.rounds + 1} rounds"
    else:
        (directory / SNAPSHOT).unlink()
        timed(lambda: League(directory).close())
        what = f"open after {options.rounds + 1} rounds without a snapshot"
    cpu, wall = max(timings)
    log = directory / EVENTS
    return {
        "part": options.part,
        "what": what,
        "members": options.members,
        "cpu": cpu,
        "wall": wall,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "log_mb": log.stat().st_size / 1e6 if log.exists() else 0.0,
    }


if __name__ == "__main__":
    main()
