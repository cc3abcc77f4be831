"""One way of running untrusted programs, as a process that reads what to run.

    python sandbox_contestants.py NAME TASKS.json WORKERS [MODULE ...]

Started by sandbox_throughput.py, under the interpreter that has the package. Each line of standard
input is `first last passes`: judge tasks[first:last] that many times, then answer one JSON line
with the seconds it took and how many judgements were right. Needs only what NAME needs. MODULE is
imported first: from a process that holds torch, a fork costs more.
"""

import ast
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

Task = dict[str, Any]
Round = Callable[[list[Task]], int]

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


def bare_fork(workers: int) -> Round:
    """fork, exit and wait in small Python processes; nothing is run."""
    command, pipe = [sys.executable, "-I", "-c", FORKER], subprocess.PIPE
    forkers = [subprocess.Popen(command, stdin=pipe, stdout=pipe) for _ in range(workers)]

    def judge(tasks: list[Task]) -> int:
        for number, forker in enumerate(forkers):
            forker.stdin.write(b"%d\n" % len(tasks[number::workers]))
            forker.stdin.flush()
        for forker in forkers:
            forker.stdout.readline()
        return len(tasks)

    return judge


def fresh_python(task: Task) -> bool:
    """`python -I -c PROGRAM`, its printed result read back."""
    script = task["program"] + SCRIPT.format(input=task["input"])
    command = [sys.executable, "-I", "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    last = process.stdout.rstrip().rpartition("\n")[2].replace("Ellipsis", "...")
    try:
        return bool(ast.literal_eval(last) == task["value"])
    except (ValueError, SyntaxError):
        return False


def evalplus(task: Task) -> bool:
    """`untrusted_check`."""
    from evalplus.eval import PASS, untrusted_check

    answers = [task["args"]], "f", [task["value"]], 0, [0.0]
    return bool(untrusted_check("humaneval", task["program"], *answers)[0] == PASS)


def pooled(pool: Any, one: Callable[[Task], bool], module: str, workers: int) -> Round:
    """Tasks one by one in a pool; module: what the caller has imported before it forks."""
    __import__(module)
    executor = pool(workers)
    return lambda tasks: sum(executor.map(one, tasks))


def ours(door: str, workers: int) -> Round:
    """`run` or `check` of the sandbox in a loop, or the parallel door with `_many`."""
    from code_verifier import Limits, Sandbox

    work = getattr(Sandbox(workers, Limits(wall_s=30.0, cpu_s=10.0)), door)

    def judge(tasks: list[Task]) -> int:
        pairs = [(task["program"], task["input"]) for task in tasks]
        verdicts = work(pairs) if door.endswith("_many") else (work(*pair) for pair in pairs)
        return sum(t["expected"] == v.output for t, v in zip(tasks, verdicts, strict=True))

    return judge


# `evalplus.evaluate` is what its users call; `lean` is a caller that imported nothing else.
EVALPLUS = partial(pooled, ProcessPoolExecutor, evalplus)
CONTESTANTS: dict[str, Callable[[int], Round]] = {
    "fork": bare_fork,
    "python": partial(pooled, ThreadPoolExecutor, fresh_python, "subprocess"),
    "evalplus": partial(EVALPLUS, "evalplus.evaluate"),
    "evalplus-serial": lambda workers: EVALPLUS("evalplus.evaluate", 1),
    "evalplus-lean": partial(EVALPLUS, "evalplus.eval"),
    "run": partial(ours, "run_many"),
    "run-serial": partial(ours, "run"),
    "check": partial(ours, "check_many"),
    "check-serial": partial(ours, "check"),
}


def main() -> None:
    name, path, workers, *modules = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
    tasks: list[Task] = json.loads(path.read_text())
    for task in tasks:
        task["args"] = ast.literal_eval(f"[{task['input']}]")
        task["value"] = ast.literal_eval(task["expected"])
    try:
        for module in modules:
            import_module(module)
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
