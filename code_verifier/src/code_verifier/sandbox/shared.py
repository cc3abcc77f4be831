"""Grading with a sandbox of the process's own, for callers that keep none."""

from functools import cache

from code_verifier.sandbox.sandbox import Sandbox
from code_verifier.tasks.outcomes import Grade
from code_verifier.tasks.task import Task


def grade(task: Task, answer: str, sandbox: Sandbox | None = None) -> Grade:
    """Judge an answer in `sandbox`, or in one that is opened at first use and kept."""
    return (sandbox if sandbox is not None else _sandbox()).grade(task, answer)


@cache
def _sandbox() -> Sandbox:
    return Sandbox()
