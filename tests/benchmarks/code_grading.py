"""Grading of HumanEval+, MBPP+ and LiveCodeBench on the published data, and against evalplus.

    python tests/benchmarks/code_grading.py DATA [--part canonical samples contest speed]
        [--workers 1] [--cache DIR] [--peer-python PATH] [--limit N] [--json]

DATA: a folder with humaneval_plus/HumanEvalPlus.jsonl.gz, mbpp_plus/MbppPlus.jsonl.gz, and where
they are at hand samples/*_samples.jsonl (rows of evalplus with `base_status` and `plus_status`)
and livecodebench/*.jsonl with samples/lcb_*.jsonl (`code_list`, `graded_list`).

canonical: every reference solution passes base and plus. samples, contest: verdicts against those
given in the files; the exit code is 1 when one differs. speed: reference solutions graded by us
and by `evalplus.evaluate` (--peer-python: an interpreter that has it), both with their expected
outputs at hand; wall and processor seconds, and the largest memory of a process of each; and the
processor seconds of the programs alone, which no grader that runs them can do without.
Goals: 5 times as fast, a tenth of the memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from code_verifier.modules.runner import ModuleRunner
from evals.contest.grader import ContestGrader
from evals.contest.reading import read_contest
from evals.functions.grader import FunctionGrader
from evals.functions.problem import HUMANEVAL, MBPP, FunctionProblem
from evals.functions.reading import read_functions, read_rows
from evals.functions.reference import cache_folder, expected_values

FILES = {
    HUMANEVAL: ("humaneval_plus/HumanEvalPlus.jsonl.gz", "humaneval", "HUMANEVAL_OVERRIDE_PATH"),
    MBPP: ("mbpp_plus/MbppPlus.jsonl.gz", "mbpp", "MBPP_OVERRIDE_PATH"),
}
PARTS = ("canonical", "samples", "contest", "speed")


@dataclass
class Tally:
    """Verdicts of one check, and those that are not as they should be."""

    name: str
    total: int = 0
    seconds: float = 0.0
    different: list[str] = field(default_factory=list)

    def add(self, task: str, found: object, wanted: object, reason: str) -> None:
        self.total += 1
        if found != wanted:
            self.different.append(f"{task}: {found}, expected {wanted}; {reason}")


def problems(data: Path, limit: int | None) -> dict[str, list[FunctionProblem]]:
    """Problems of both benchmarks."""
    return {name: read_functions(data / files[0], name)[:limit] for name, files in FILES.items()}


def canonical(data: Path, options: argparse.Namespace) -> Iterator[Tally]:
    """Reference solutions, base and plus."""
    for name, tasks in problems(data, options.limit).items():
        if options.benchmark not in (None, name):
            continue
        tally = Tally(f"canonical {name}")
        started = time.monotonic()
        with FunctionGrader(options.workers, cache=options.cache) as grader:
            verdicts = grader.grade_many((task, task.reference) for task in tasks)
            for task, verdict in zip(tasks, verdicts, strict=True):
                found = verdict.base, verdict.plus
                tally.add(task.task_id, found, ("pass", "pass"), verdict.reason)
        tally.seconds = time.monotonic() - started
        yield tally


def samples(data: Path, options: argparse.Namespace) -> Iterator[Tally]:
    """Published samples with the verdicts of a run of evalplus 0.3.1."""
    tasks = {task.task_id: task for some in problems(data, None).values() for task in some}
    for path in sorted((data / "samples").glob("*_samples.jsonl")):
        rows = [
            row
            for row in read_rows(path)
            if row["task_id"] in tasks and row["base_status"] is not None
        ][: options.limit]
        tally = Tally(f"samples {path.name}")
        started = time.monotonic()
        with FunctionGrader(options.workers, compat="0.3.1", cache=options.cache) as grader:
            pairs = ((tasks[row["task_id"]], row["solution"]) for row in rows)
            for row, verdict in zip(rows, grader.grade_many(pairs), strict=True):
                found = verdict.base, verdict.plus
                wanted = row["base_status"], row["plus_status"]
                tally.add(row["task_id"], found, wanted, verdict.reason)
        tally.seconds = time.monotonic() - started
        yield tally


def contest(data: Path, options: argparse.Namespace) -> Iterator[Tally]:
    """Samples of LiveCodeBench on the tests at hand.

    Where these are all tests, pass and fail must agree; else only a program that passed all tests
    can be held against us.
    """
    published: dict[str, dict[str, Any]] = {}
    for path in sorted((data / "samples").glob("lcb_*.jsonl")):
        published |= {row["question_id"]: row for row in read_rows(path)}
    for path in sorted((data / "livecodebench").glob("*tests*.jsonl")):
        tasks = [task for task in read_contest(path) if task.question_id in published]
        whole = path.name.startswith("full_")
        if not whole:
            tasks = [task for task in tasks if published[task.question_id]["graded_list"][0]]
        tasks = tasks[: options.limit]
        tally = Tally(f"contest {path.name}")
        started = time.monotonic()
        with ContestGrader(options.workers) as grader:
            codes = [published[task.question_id]["code_list"][0] for task in tasks]
            verdicts = grader.grade_many(zip(tasks, codes, strict=True))
            for task, verdict in zip(tasks, verdicts, strict=True):
                wanted = published[task.question_id]["graded_list"][0]
                tally.add(task.question_id, verdict.status == "pass", wanted, verdict.reason)
        tally.seconds = time.monotonic() - started
        yield tally


def speed(data: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Both graders on the same reference solutions, one after the other."""
    found: dict[str, Any] = {}
    for name, (file, short, override) in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            tasks = read_functions(data / file, name)
            path = Path(folder) / "samples.jsonl"
            rows = ({"task_id": task.task_id, "solution": task.reference} for task in tasks)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            own = [sys.executable, __file__, str(data), "--part", "canonical"]
            cache = ["--cache", str(options.cache)]
            own = [*own, *cache, "--workers", str(options.workers), "--benchmark", name]
            _measured(own, {})  # expected outputs at hand, as evalplus has them from its cache
            found[f"ours {name}"] = _measured(own, {})
            found[f"programs {name}"] = {"cpu_s": programs_s(tasks, options.cache)}
            if options.peer_python is not None:
                command = [options.peer_python, "-m", "evalplus.evaluate", "--dataset", short]
                command += ["--samples", str(path), "--parallel", str(options.workers)]
                found[f"evalplus {name}"] = _measured(command, {override: str(data / file)})
    return found


def programs_s(tasks: Iterable[FunctionProblem], cache: Path) -> float:
    """Processor seconds of the reference solutions alone, as kept with their expected outputs."""
    with ModuleRunner() as runner:
        return sum(
            value.cpu_s
            for task in tasks
            for inputs in (task.base_input, task.plus_input)
            for value in expected_values(task, inputs, runner, cache)
        )


def _measured(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Wall and processor seconds of a command and its children, and their largest memory."""
    started = time.monotonic()
    process = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    cpu, peak = used.ru_utime + used.ru_stime, round(used.ru_maxrss / 1024)
    return {"wall_s": time.monotonic() - started, "cpu_s": cpu, "peak_mib": peak}


def main() -> int:
    """Run the parts asked for, print what they found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS[:3])
    parser.add_argument("--benchmark", choices=FILES, help="Of canonical, this one alone.")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=cache_folder())
    parser.add_argument("--peer-python")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tallies = list(_tallies(options))
    speeds = speed(options.data, options) if "speed" in options.part else {}
    if options.json:
        print(json.dumps({"checks": [vars(tally) for tally in tallies], "speed": speeds}))
    else:
        for tally in tallies:
            right = tally.total - len(tally.different)
            print(f"{tally.name}: {right} of {tally.total} as expected, {tally.seconds:.0f} s")
            print("".join(f"  {line}\n" for line in tally.different), end="")
        for name, figures in speeds.items():
            print(name, *(f"{key} {value:.1f}" for key, value in figures.items()))
    return 1 if any(tally.different for tally in tallies) else 0


def _tallies(options: argparse.Namespace) -> Iterable[Tally]:
    for part, check in (("canonical", canonical), ("samples", samples), ("contest", contest)):
        if part in options.part:
            yield from check(options.data, options)


if __name__ == "__main__":
    sys.exit(main())
