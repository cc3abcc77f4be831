"""Calls into an engine that has a process of its own, which may die meanwhile.

vLLM's client notices such a death, stops listening, and lets the caller wait for ever.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
_GRACE_S = 10.0
"""How long a process that has said that it dies may take to be dead."""


class EngineDied(Exception):
    """The engine's process is gone; the message says how it ended."""


class EngineProcess:
    """The processes that an engine lives in; none when it lives in this one."""

    def __init__(self, processes: Sequence[BaseProcess] = ()) -> None:
        self._processes = list(processes)

    @classmethod
    def of(cls, start: Callable[[], T]) -> tuple[T, "EngineProcess"]:
        """Return what start returns, and the child processes that it left running."""
        before = set(multiprocessing.active_children())
        started = start()
        return started, cls([p for p in multiprocessing.active_children() if p not in before])

    def call(self, action: Callable[[], T]) -> T:
        """Return what action returns, or raise what it raises.

        Raises EngineDied as soon as the engine's process is dead; action's thread is then left
        behind. An engine within this process is asked directly.
        """
        if not self._processes:
            return action()
        outcome: Future[T] = Future()
        ready, done = multiprocessing.Pipe(duplex=False)

        def run() -> None:
            try:
                outcome.set_result(action())
            except BaseException as error:
                outcome.set_exception(error)
            finally:
                done.close()

        with ready:
            Thread(target=run, name="vllm-call", daemon=True).start()
            wait([ready, *(process.sentinel for process in self._processes)])
        if not outcome.done():
            raise EngineDied(self._ending(_GRACE_S))
        error = outcome.exception()
        ending = self._ending(_GRACE_S) if isinstance(error, Exception) else ""
        if ending:
            raise EngineDied(ending) from error
        return outcome.result()

    def _ending(self, seconds: float) -> str:
        """How the first dead process ended; empty if all of them still live after so long."""
        gone = wait([process.sentinel for process in self._processes], timeout=seconds)
        for process in self._processes:
            if process.sentinel in gone:
                process.join(seconds)  # its pipes close a moment before it can be reaped
                return f"process {process.pid} ended with exit code {process.exitcode}"
        return ""
