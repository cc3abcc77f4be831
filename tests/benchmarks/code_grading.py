"""Grading of HumanEval+ and MBPP+: the reference solutions, and their speed against evalplus.

    python tests/benchmarks/code_grading.py DATA [--part speed] [--workers 1] [--cache DIR]
        [--peer-python PATH] [--limit N]

DATA: a folder with humaneval_plus/HumanEvalPlus.jsonl.gz and mbpp_plus/MbppPlus.jsonl.gz.

references: every reference solution passes base and plus; the exit code is 1 when one does not.
speed: reference solutions graded by us and by `evalplus.evaluate` (--peer-python: an interpreter
that has it), both with their expected outputs at hand; wall and processor seconds, and the largest
memory of a process of each; and the processor seconds of the programs alone, which no grader that
runs them can do without. tests/gates/test_code_graders.py holds the verdicts on published samples.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarking import Row, parser, show

from code_verifier import ScriptRunner
from evals.evalplus.grader import FunctionGrader, expected_values, reference_cache
from evals.evalplus.problems import FunctionProblem, read_problems
from evals.sources import parse_rows, read_bytes

FILES = {
    "humaneval_plus": ("humaneval_plus/HumanEvalPlus.jsonl.gz", "humaneval", "HUMANEVAL"),
    "mbpp_plus": ("mbpp_plus/MbppPlus.jsonl.gz", "mbpp", "MBPP"),
}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    return parse_rows(read_bytes(path), str(path))


def problems(data: Path, name: str, limit: int | None = None) -> list[FunctionProblem]:
    """Return the problems of a benchmark."""
    return read_problems(read_rows(data / FILES[name][0]), name)[:limit]


def published_answers(data: Path) -> dict[str, tuple[str, bool]]:
    """Return programs for LiveCodeBench by question, each with its published verdict."""
    return {
        row["question_id"]: (row["code_list"][0], row["graded_list"][0])
        for path in sorted((data / "samples").glob("lcb_*.jsonl"))
        for row in read_rows(path)
    }


def references(name: str, options: argparse.Namespace) -> bool:
    """Grade the reference solutions, print those that fail; return whether all pass."""
    tasks = problems(options.data, name, options.limit)
    with FunctionGrader(options.workers, cache=options.cache) as grader:
        graded = grader.grade_many((task, task.reference) for task in tasks)
        failed = [
            f"  {task.task_id}: {base.status}, {plus.status}; {base.reason or plus.reason}"
            for task, (base, plus) in zip(tasks, graded, strict=True)
            if (base.status, plus.status) != ("pass", "pass")
        ]
    print(f"{name}: {len(tasks) - len(failed)} of {len(tasks)} pass", *failed, sep="\n")
    return not failed


def speed(name: str, options: argparse.Namespace) -> list[Row]:
    """Measure both graders on the same reference solutions, one after the other."""
    tasks = problems(options.data, name, options.limit)
    own: list[object] = [sys.executable, __file__, options.data, "--benchmark", name]
    own += ["--cache", options.cache, "--workers", options.workers]
    own += ["--limit", options.limit] if options.limit else []
    measured(own)  # expected outputs at hand, as evalplus has them from its cache
    rows = [{"grader": f"ours {name}", **measured(own)}]
    with ScriptRunner() as runner:
        alone = sum(
            value.cpu_s
            for task in tasks
            for inputs in (task.base_input, task.plus_input)
            for value in expected_values(task, inputs, runner, options.cache)
        )
    rows.append({"grader": f"programs {name}", "wall s": None, "CPU s": alone, "peak MiB": None})
    if options.peer_python is not None:
        answers = [(task, task.reference) for task in tasks]
        for _ in range(2):  # the first fills its cache
            with tempfile.TemporaryDirectory() as folder:
                peer, environment = evalplus_command(name, answers, options, Path(folder))
                found = measured(peer, environment)
        rows.append({"grader": f"evalplus {name}", **found})
    return rows


def evalplus_command(
    name: str,
    samples: Sequence[tuple[FunctionProblem, str]],
    options: argparse.Namespace,
    folder: Path,
) -> tuple[list[object], dict[str, str]]:
    """Write the files of `evalplus.evaluate`; return its command and environment."""
    file, short, override = FILES[name]
    tasks = {task.task_id for task, _ in samples}
    data, path = folder / "data.jsonl", folder / "samples.jsonl"
    asked = [row for row in read_rows(options.data / file) if row["task_id"] in tasks]
    answers = [{"task_id": task.task_id, "solution": program} for task, program in samples]
    for place, rows in ((data, asked), (path, answers)):
        place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [options.peer_python, "-m", "evalplus.evaluate", "--dataset", short]
    command += ["--samples", path, "--parallel", options.workers]
    return command, {f"{override}_OVERRIDE_PATH": str(data)}


def measured(command: list[object], environment: dict[str, str] | None = None) -> Row:
    """Wall and processor seconds of a command and its children, and their largest memory."""
    started, quiet = time.monotonic(), subprocess.DEVNULL
    words, env = [str(word) for word in command], os.environ | (environment or {})
    process = subprocess.Popen(words, env=env, stdout=quiet, stderr=quiet)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode} of: {' '.join(words)}")
    wall, cpu = time.monotonic() - started, used.ru_utime + used.ru_stime
    return {"wall s": wall, "CPU s": cpu, "peak MiB": used.ru_maxrss / 1024}


def main() -> int:
    options = parser(__doc__, workers=1)
    options.add_argument("data", type=Path)
    options.add_argument("--part", choices=("references", "speed"), default="references")
    options.add_argument("--benchmark", choices=FILES)
    options.add_argument("--cache", type=Path, default=reference_cache())
    options.add_argument("--peer-python")
    options.add_argument("--limit", type=int)
    given = options.parse_args()
    names = [given.benchmark] if given.benchmark else list(FILES)
    if given.part == "speed":
        show([row for name in names for row in speed(name, given)])
        return 0
    failed = [name for name in names if not references(name, given)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
