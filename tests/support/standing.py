"""Commands of selfplay in a process that waits in a step, to be ended there."""

import subprocess
import sys

_PROGRAM = """
import sys, threading
from selfplay import step
from selfplay.cli import main

solve, at = step.solve, int(sys.argv.pop(1))

def waiting(run, verified, number):
    if number == at:
        print("here", flush=True)
        threading.Event().wait()
    return solve(run, verified, number)

step.solve = waiting
main()
"""


def start(step: int, environment: dict[str, str], *arguments: object) -> "subprocess.Popen[str]":
    """Start a command in a session of its own; return once it waits in that step.

    What it says after that, on both streams, is in the process's stdout.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(step), *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if line == "here\n":
            return process
    raise AssertionError(f"exit code {process.wait()}: {said}")
