"""Tasksets of `verifiers`, owned by child processes, so that nothing of them is imported here.

A reward is the user's own code: it is not sandboxed, but it has a time limit, and what it raises,
prints or breaks ends no run.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from code_verifier.errors import CodeVerifierError, Status
from code_verifier.tasks import Grade, Task


class Tasksets:
    """Tasks of tasksets, and processes that score replies to them.

    sources: of each taskset `name` (an installed one's id, or `module:Class`; `PREFIX` may precede
    it), `config` (values of its own configuration) and `limit` (the first tasks; None: all of one
    that ends). tasks: of each source, with rows that have the `solve_rate` of their data. workers:
    processes. wall_s: seconds for the rewards of one reply. Raises CodeVerifierError, in one line,
    for a taskset that is missing, or whose tasks are not of one turn with rewards that are
    functions of texts.

        >>> with Tasksets([{"name": "gsm8k", "config": {"split": "test"}, "limit": 9}]) as tasksets:
        ...     tasksets.grade(tasksets.tasks[0][0][0], "It is \\boxed{18}.").score
    """

    KIND = "taskset"
    """The kind of its tasks: `message` is the system prompt, `input` the prompt, and `output` the
    hash of the task's data."""
    PREFIX = "verifiers:"
    """Before a taskset's name where the name of something else may stand, too."""

    def __init__(
        self, sources: Sequence[Mapping[str, Any]], workers: int = 1, wall_s: float = 5.0
    ) -> None:
        self._sources, self._wall_s, self._processes = sources, wall_s, list[_Process]()
        self.tasks: list[list[tuple[Task, dict[str, Any]]]] = []
        self._free: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        for _ in range(workers - 1):
            self._free.put(None)
        self._free.put(self._open() if sources else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.close()

    def grade(self, task: Task, reply: str) -> Grade:
        """Return the grade of a reply: the sum of the weighted rewards, divided by the taskset's
        `MAX_REWARD` if it has one. Status `sandbox_error` if a reward raises, takes too long, or is
        no finite number. May be called in several threads."""
        process, kept = self._free.get(), None
        try:
            if process is None or process.poll() is not None:
                process = self._open()
            row = {"key": task.output, "reply": reply, "wall_s": self._wall_s}
            answer, kept = process.ask(row), process
        finally:
            self._free.put(kept)  # none after Ctrl-C: its answer would be taken for the next
        if "error" in answer:
            return Grade(0.0, answer["error"], status=Status.SANDBOX_ERROR)
        return Grade(answer["score"], answer["reason"])

    def _open(self) -> "_Process":
        """Start a process that has the tasks."""
        process, tasks = _Process(), []
        self._processes.append(process)
        for source in self._sources:
            name = source["name"].removeprefix(self.PREFIX)
            answer = process.ask({**source, "name": name})
            if "error" in answer:
                process.close()
                raise CodeVerifierError(f"{self.PREFIX}{name}: {answer['error']}")
            tasks.append([(Task.from_row(row), row) for row in answer["tasks"]])
        self.tasks = self.tasks or tasks
        return process


class _Process(subprocess.Popen[bytes]):
    """A process of `taskset_child.serve`, in a session of its own."""

    def __init__(self) -> None:
        path = os.pathsep.join(place or os.getcwd() for place in sys.path)
        super().__init__(
            [sys.executable, "-c", "from code_verifier.taskset_child import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )

    def ask(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a row; {"error"} if the process ended instead."""
        assert self.stdin
        assert self.stdout
        began, wall_s = time.monotonic(), row.get("wall_s", float("inf"))
        with suppress(BrokenPipeError):
            self.stdin.write(json.dumps(row).encode() + b"\n")
            self.stdin.flush()
            if line := self.stdout.readline():
                return dict(json.loads(line))
        self.close()
        if time.monotonic() - began >= wall_s:
            return {"error": f"its rewards took more than {wall_s:g} s"}
        return {"error": f"its process ended with code {self.returncode}"}

    def close(self) -> None:
        """Kill the process, and those that it started."""
        with suppress(ProcessLookupError, BrokenPipeError), self:
            os.killpg(self.pid, signal.SIGKILL)
