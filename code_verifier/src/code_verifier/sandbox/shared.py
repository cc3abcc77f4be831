"""Grading with a sandbox of the process's own, for callers that keep none."""

import threading

from code_verifier.sandbox.sandbox import Sandbox
from code_verifier.tasks.records import Grade, Task

_LOCK = threading.Lock()
_shared: list[Sandbox] = []


def grade(task: Task, answer: str, sandbox: Sandbox | None = None) -> Grade:
    """Judge an answer in `sandbox`, or in one that is opened at first use and kept."""
    return (sandbox if sandbox is not None else _sandbox()).grade(task, answer)


def _sandbox() -> Sandbox:
    with _LOCK:
        if not _shared:
            _shared.append(Sandbox())
        return _shared[0]
