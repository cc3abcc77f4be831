"""Many programs through one sandbox: do memory, descriptors and processes stay flat?

    python benchmarks/sandbox_soak.py [--programs 100000] [--workers 2] [--every 1000]

Ordinary programs, and two in a hundred that spin, eat memory, crash, leave, recurse without end,
raise, write too much or do not parse. Every verdict is compared with the wanted status. Samples are
taken between two streams, at rest. Flat means: at the least-squares slope after the first
tenth, 100,000 programs add less than 8 MiB to the caller and to a fork server (a rise of less
than 1 MiB in all is noise), no sample of the second half has more descriptors or processes than
those of the first, and there is no zombie.
"""

import os
import sys
import time
from collections.abc import Iterator
from statistics import linear_regression

from benchmarking import Row, family, parser, read_process, show

from code_verifier import Limits, Sandbox

ALLOWED_MIB = 8.0
SPIN = "def f(x):\n    while True: pass"
HOSTILE = (
    ("timeout", SPIN),
    ("memory", "def f(x):\n    return [0] * 10**9"),
    (
        "memory",
        "def f(x):\n    kept = []\n    while True: kept.append('x' * 10**6 + str(len(kept)))",
    ),
    ("exception", "def f(x):\n    return f(x)"),
    ("exception", "def f(x):\n    raise SystemExit"),
    ("exception", "def f(x):\n    return x / 0"),
    ("exception", "class E(BaseException): pass\ndef f(x):\n    raise E('?', x)"),
    ("too_long", "def f(x):\n    return 'a' * 10**6"),
    ("syntax_error", "def f(x:"),
    ("banned", "import socket\ndef f(x):\n    return x"),
    ("not_literal", "def f(x):\n    return f"),
)
ORDINARY = (
    "def f(x):\n    return [x, str(x), {x: -x}]",
    "def f(x):\n    total = 0\n    for i in range(x % 500): total += i * i\n    return total",
    "import re\ndef f(x):\n    return re.sub('[13579]', '-', str(x))",
    "from collections import Counter\ndef f(x):\n    return sorted(Counter(str(x)).items())",
)


def programs(first: int, last: int) -> Iterator[tuple[str, str, str]]:
    """Yield (wanted status, program, input); two in a hundred are hostile."""
    for number in range(first, last):
        if number % 50 == 7:
            status, program = HOSTILE[number // 50 % len(HOSTILE)]
        else:
            status, program = "ok", ORDINARY[number % len(ORDINARY)]
        yield status, f"{program}\n# {number}", str(number)


def sample(count: int, wrong: int, seconds: float, sandbox: Sandbox) -> Row:
    """Return one row of the table."""
    for _ in range(20):  # a child that has just ended is a zombie until its server looks
        caller, *children = family(os.getpid())
        if not any(process.state == "Z" for process in children):
            break
        time.sleep(0.05)
    servers = [process for pid in sandbox.pids() if (process := read_process(pid)) is not None]
    return {
        "programs": count,
        "caller MiB": caller.rss_mib,
        "servers MiB": max((s.rss_mib for s in servers), default=0.0),
        "caller descriptors": caller.descriptors,
        "servers' descriptors": max((s.descriptors for s in servers), default=0),
        "processes": len(children),
        "zombies": sum(process.state == "Z" for process in children),
        "seconds": seconds,
        "wrong": wrong,
    }


def steady(rows: list[Row]) -> bool:
    """Print the slopes after the warm-up; return whether everything stayed flat."""
    settled = [row for row in rows if row["programs"] >= rows[-1]["programs"] / 10]
    flat = not any(row["zombies"] for row in rows)
    for name in ("caller MiB", "servers MiB"):
        points = [(row["programs"] / 100_000, row[name]) for row in settled]
        slope = linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else 0.0
        print(f"{name} per 100,000 programs: {slope:.3f}")
        flat &= slope < ALLOWED_MIB or settled[-1][name] - settled[0][name] < 1.0
    for name in ("caller descriptors", "servers' descriptors", "processes"):
        early, late = rows[: (len(rows) + 1) // 2], rows[len(rows) // 2 :]
        flat &= max(row[name] for row in late) <= max(row[name] for row in early)
    return flat


def main() -> int:
    args = parser(__doc__, programs=100_000, workers=2, every=1000).parse_args()
    rows: list[Row] = []
    with Sandbox(args.workers, Limits(wall_s=10.0, cpu_s=0.2, memory_mb=64)) as sandbox:
        for start in range(0, args.programs, args.every):
            batch = list(programs(start, min(start + args.every, args.programs)))
            wrong, started = 0, time.monotonic()
            verdicts = sandbox.run_many((program, text) for _, program, text in batch)
            for (status, program, _), verdict in zip(batch, verdicts, strict=True):
                if verdict.status != status:
                    wrong += 1
                    print(f"{status} wanted, got {verdict}:\n{program}", file=sys.stderr)
            rows.append(sample(start + len(batch), wrong, time.monotonic() - started, sandbox))
    show(rows)
    flat = steady(rows)
    print("flat" if flat else "NOT FLAT")
    return 0 if flat and not any(row["wrong"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
