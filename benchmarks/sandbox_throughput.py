"""Programs per second of the sandbox, of its peers and of a bare fork, on the same programs.

    python benchmarks/sandbox_throughput.py [--tasks FILE] [--peer-python PATH] [--import MODULE]
        [--programs 200] [--rounds 5]

FILE: JSON Lines with `program` or `snippet` and `input` or `inputs`; by default the 200 pairs of
sandbox_programs.jsonl. --peer-python: an interpreter that has `evalplus`, which is left out without
one. --import: what each contestant holds; with torch, as where graders live, a fork of it costs
more. Each contestant is a process of its own; they take turns in slices of the programs, so that a
busy machine is equally busy for all. Seconds are wall time in the contestant; CPU time is that of
the contestant with all its children. Ratios are medians over rounds. The benchmark ends with exit
code 1 when a program was judged wrongly.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarking import Row, family, parser, show
from sandbox_contestants import CONTESTANTS

from code_verifier import Limits, LiteralError, Proposal, Sandbox, parse_arguments

HERE = Path(__file__).resolve().parent
PEERS = ("evalplus", "evalplus-serial", "evalplus-lean")
SLICES = 4
MIN_SLICE_S = 0.25


@dataclass
class Contestant:
    """One process, and programs per second and CPU milliseconds per program of each round."""

    name: str
    process: "subprocess.Popen[str]"
    passes: int = 1
    rates: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    wrong: int = 0

    def judge(self, first: int, last: int, passes: int) -> tuple[float, float]:
        """Return seconds of wall and of CPU time for tasks[first:last], `passes` times over."""
        assert self.process.stdin is not None
        before = self.cpu_seconds()
        self.process.stdin.write(f"{first} {last} {passes}\n")
        self.process.stdin.flush()
        answer = self.answer()
        self.wrong += (last - first) * passes - answer["right"]
        return answer["seconds"], self.cpu_seconds() - before

    def cpu_seconds(self) -> float:
        return sum(process.cpu_s for process in family(self.process.pid))

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (program, input) of every row, AZR's rows as they are."""
    for row in map(json.loads, path.read_text().splitlines()):
        for arguments in row.get("inputs", [row.get("input")]):
            yield Proposal.from_row(row).program, arguments


def positional(text: str) -> bool:
    """Whether evalplus can pass these arguments."""
    try:
        return not parse_arguments(text)[1]
    except LiteralError:
        return False


def screened(path: Path, count: int) -> list[dict[str, str]]:
    """Return the first `count` pairs that pass `check`, with their output."""
    tasks: list[dict[str, str]] = []
    pairs = [pair for pair in read_pairs(path) if positional(pair[1])]
    with Sandbox(limits=Limits(wall_s=30.0, cpu_s=10.0)) as sandbox:
        for (program, arguments), verdict in zip(pairs, sandbox.check_many(pairs), strict=True):
            if verdict.output is not None:
                tasks.append({"program": program, "input": arguments, "expected": verdict.output})
            if len(tasks) == count:
                return tasks
    raise SystemExit(f"{path} has {len(tasks)} programs that pass check; expected {count}")


@contextmanager
def contestant(
    name: str, python: str, tasks: Path, workers: int, modules: list[str]
) -> Iterator[Contestant | None]:
    """Start a contestant; None when its package is not installed."""
    script = str(HERE / "sandbox_contestants.py")
    command = [python, script, name, str(tasks), str(workers), *modules]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        peer = Contestant(name, process)
        hello = peer.answer()
        yield peer if "ready" in hello else print(f"{name} left out: {hello['missing']}")
        assert process.stdin is not None
        process.stdin.close()


def compete(contestants: list[Contestant], programs: int, rounds: int) -> None:
    """Warm everyone up, choose the passes of a slice, then take turns."""
    bounds = [programs * i // SLICES for i in range(SLICES + 1)]
    for each in contestants:
        each.judge(0, bounds[1], 1)
        seconds, _ = each.judge(0, bounds[1], 1)
        each.passes = max(1, round(MIN_SLICE_S / seconds))
    for number in range(rounds):
        spent: dict[str, list[tuple[float, float]]] = {each.name: [] for each in contestants}
        for first, last in pairwise(bounds):
            for each in contestants if number % 2 == 0 else contestants[::-1]:
                spent[each.name].append(each.judge(first, last, each.passes))
        for each in contestants:
            wall, cpu = map(sum, zip(*spent[each.name], strict=True))
            each.rates.append(programs * each.passes / wall)
            each.cpu_ms.append(1000.0 * cpu / (programs * each.passes))


def report(contestants: list[Contestant]) -> list[Row]:
    """Return a row for each contestant."""
    rates = {each.name: each.rates for each in contestants}

    def ratio(name: str, to: str) -> float | None:
        if to not in rates:
            return None
        return median(a / b for a, b in zip(rates[name], rates[to], strict=True))

    return [
        {
            "contestant": each.name,
            "programs/s": median(each.rates),
            "low": min(each.rates),
            "high": max(each.rates),
            "CPU ms each": median(each.cpu_ms),
            "to fork": ratio(each.name, "fork"),
            "to evalplus": ratio(each.name, "evalplus"),
            "wrong": each.wrong,
        }
        for each in contestants
    ]


def main() -> int:
    options = parser(__doc__, programs=200, rounds=5, workers=2)
    options.add_argument("--tasks", type=Path, default=HERE / "sandbox_programs.jsonl")
    options.add_argument("--peer-python", default=sys.executable)
    options.add_argument("--import", nargs="+", default=[], dest="modules", metavar="MODULE")
    options.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    args = options.parse_args()
    tasks = screened(args.tasks, args.programs)
    ready: list[Contestant] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "tasks.json"
        path.write_text(json.dumps(tasks))
        for name in args.only:
            python = args.peer_python if name in PEERS else sys.executable
            start = contestant(name, python, path, args.workers, args.modules)
            peer = stack.enter_context(start)
            ready += [peer] if peer else []
        compete(ready, len(tasks), args.rounds)
    show(report(ready))
    return 1 if any(each.wrong for each in ready) else 0


if __name__ == "__main__":
    raise SystemExit(main())
