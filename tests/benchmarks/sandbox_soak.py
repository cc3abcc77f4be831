"""Many programs through one sandbox: do memory, descriptors and processes stay flat?

    python tests/benchmarks/sandbox_soak.py [--programs 100000] [--workers 2] [--every 1000]
        [--check] [--log FILE] [--json]

Ordinary programs, and two in a hundred that spin, eat memory, crash, leave, recurse without end,
raise, write too much or do not parse. Every verdict is compared with the wanted status. Samples are
taken between two streams, at rest, and go to the log at once; a log that exists is continued after
its last sample, with a new sandbox. Flat means: at the least-squares slope after the first
tenth, 100,000 programs add less than 8 MiB to the caller and to a fork server (a rise of less
than 1 MiB in all is noise), no sample of the second half has more descriptors or processes than
those of the first, and there is no zombie.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from process_tree import below, descriptors, read_process

from code_verifier import Limits, Sandbox

MIB = 2**20
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
    """(wanted status, program, input); two in a hundred are hostile."""
    for number in range(first, last):
        if number % 50 == 7:
            status, program = HOSTILE[number // 50 % len(HOSTILE)]
        else:
            status, program = "ok", ORDINARY[number % len(ORDINARY)]
        yield status, f"{program}\n# {number}", str(number)


def sample(done: int, wrong: int, seconds: float, sandbox: Sandbox) -> dict[str, Any]:
    """One row of the table."""
    me = os.getpid()
    for _ in range(20):  # a child that has just ended is a zombie until its server looks
        family = below(me)
        if not any(process.state == "Z" for process in family):
            break
        time.sleep(0.05)
    own = read_process(me)
    servers = [process for pid in sandbox.pids() if (process := read_process(pid)) is not None]
    return {
        "programs": done,
        "caller_mib": round((own.rss_bytes if own else 0) / MIB, 2),
        "servers_mib": round(max((s.rss_bytes for s in servers), default=0) / MIB, 2),
        "caller_fds": descriptors(me),
        "servers_fds": max((descriptors(s.pid) for s in servers), default=0),
        "processes": len(family),
        "zombies": sum(process.state == "Z" for process in family),
        "seconds": round(seconds, 1),
        "wrong": wrong,
    }


def slope(rows: list[dict[str, Any]], name: str) -> float:
    """Least-squares change per 100,000 programs."""
    xs = [row["programs"] / 100_000 for row in rows]
    ys = [float(row[name]) for row in rows]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    if spread == 0.0:
        return 0.0
    products = ((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return float(sum(products) / spread)


def judge(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Slopes after the warm-up, and whether everything stayed flat."""
    settled = [row for row in rows if row["programs"] >= rows[-1]["programs"] / 10]
    found: dict[str, Any] = {
        name: round(slope(settled, name), 3)
        for name in ("caller_mib", "servers_mib", "caller_fds", "servers_fds", "processes")
    }
    rise = {name: settled[-1][name] - settled[0][name] for name in found}
    flat = all(
        found[name] < ALLOWED_MIB or rise[name] < 1.0 for name in ("caller_mib", "servers_mib")
    )
    for name in ("caller_fds", "servers_fds", "processes"):
        early, late = (
            max(row[name] for row in half)
            for half in (rows[: (len(rows) + 1) // 2], rows[len(rows) // 2 :])
        )
        flat = flat and late <= early
    zombies = max(row["zombies"] for row in rows)
    wrong = sum(row["wrong"] for row in rows)
    found |= {"zombies": zombies, "wrong": wrong, "flat": flat and zombies == 0}
    return found


def soak(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Run what is left; append to `rows` and to the log."""
    done = rows[-1]["programs"] if rows else 0
    limits = Limits(wall_s=10.0, cpu_s=0.2, memory_mb=64)
    with Sandbox(arguments.workers, limits) as sandbox:
        many = sandbox.check_many if arguments.check else sandbox.run_many
        while done < arguments.programs:
            batch = list(programs(done, min(done + arguments.every, arguments.programs)))
            wrong, started = 0, time.monotonic()
            verdicts = many((program, given) for _, program, given in batch)
            for (wanted, program, _), verdict in zip(batch, verdicts, strict=True):
                if verdict.status != wanted:
                    wrong += 1
                    print(f"{wanted} wanted, got {verdict}:\n{program}", file=sys.stderr)
            done += len(batch)
            rows.append(sample(done, wrong, time.monotonic() - started, sandbox))
            if arguments.log:
                with arguments.log.open("a") as log:
                    log.write(json.dumps(rows[-1]) + "\n")
            if not arguments.json:
                print("| " + " | ".join(map(str, rows[-1].values())) + " |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("--check", action="store_true", help="check instead of run")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if arguments.log and arguments.log.exists():
        rows = [json.loads(line) for line in arguments.log.read_text().splitlines()]
    if not arguments.json:
        print("programs, caller and largest server MiB, caller and most server descriptors,")
        print("processes, zombies, seconds, wrong:")
    soak(arguments, rows)
    verdict = judge(rows)
    if arguments.json:
        print(json.dumps({"samples": rows, "verdict": verdict}))
    else:
        changes = ", ".join(f"{name} {value}" for name, value in verdict.items())
        print(f"change per 100,000 programs: {changes}")
        print("flat" if verdict["flat"] else "NOT FLAT")
    return 0 if verdict["flat"] and not verdict["wrong"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
