"""Speed of grading HumanEval+ and MBPP+ against evalplus, on the reference solutions.

    python benchmarks/code_grading.py DATA [--workers 1] [--cache DIR] [--peer-python PATH]
        [--limit N]

DATA: a folder with humaneval_plus/HumanEvalPlus.jsonl.gz and mbpp_plus/MbppPlus.jsonl.gz.

They are graded by us and by `evalplus.evaluate` (--peer-python: an interpreter that has it), both
with their expected outputs at hand; wall and processor seconds, and the largest memory of a process
of each; and the processor seconds of the programs alone, which no grader that runs them can do
without. tests/gates/test_code_graders.py holds all verdicts.
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
from evals.code.evalplus_grader import FunctionGrader, expected_values
from evals.code.evalplus_problems import FunctionProblem, read_problem
from evals.data import cache_folder, parse_rows

FILES = {
    "humaneval_plus": ("humaneval_plus/HumanEvalPlus.jsonl.gz", "humaneval", "HUMANEVAL"),
    "mbpp_plus": ("mbpp_plus/MbppPlus.jsonl.gz", "mbpp", "MBPP"),
}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    return parse_rows(path.read_bytes(), str(path))


def problems(data: Path, name: str, limit: int | None = None) -> list[FunctionProblem]:
    """Return the problems of a benchmark."""
    rows = enumerate(read_rows(data / FILES[name][0])[:limit], 1)
    return [read_problem(row, name, number) for number, row in rows]


def speed(name: str, options: argparse.Namespace) -> list[Row]:
    """Measure both graders on the same reference solutions, one after the other."""
    tasks = problems(options.data, name, options.limit)
    command: list[object] = [sys.executable, __file__, options.data, "--grade", name]
    command += ["--cache", options.cache, "--workers", options.workers]
    command += ["--limit", options.limit] if options.limit else []
    measured(command)  # expected outputs at hand, as evalplus has them from its cache
    rows = [{"grader": f"ours {name}", **measured(command)}]
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
                figures = measured(peer, environment)
        rows.append({"grader": f"evalplus {name}", **figures})
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
    selection = [row for row in read_rows(options.data / file) if row["task_id"] in tasks]
    answers = [{"task_id": task.task_id, "solution": program} for task, program in samples]
    for place, rows in ((data, selection), (path, answers)):
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


def main() -> None:
    options = parser(__doc__, workers=1)
    options.add_argument("data", type=Path)
    options.add_argument("--cache", type=Path, default=cache_folder("populab/evals"))
    options.add_argument("--peer-python")
    options.add_argument("--limit", type=int)
    options.add_argument("--grade", choices=FILES, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.grade:
        tasks = problems(args.data, args.grade, args.limit)
        with FunctionGrader(args.workers, cache=args.cache) as grader:
            list(grader.grade_many((task, task.reference) for task in tasks))
        return
    show([row for name in FILES for row in speed(name, args)])


if __name__ == "__main__":
    main()
