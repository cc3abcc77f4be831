"""Event loops of asyncio without descriptors, which the filter refuses: timers, tasks and threads.

What waits takes from the time that a call may run, as sleeping does.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
import threading
import time

from code_verifier.modules.calls import sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn


def install() -> None:
    """Make these the loops that asyncio opens."""
    asyncio.set_event_loop_policy(_Policy())


class _Waiter(selectors.BaseSelector):
    """Waits for another thread, or for time to pass."""

    def __init__(self) -> None:
        self.wake = threading.Event()

    def register(self, fileobj: Any, events: int, data: Any = None) -> NoReturn:
        raise PermissionError("no descriptor can be waited for")

    def unregister(self, fileobj: Any) -> NoReturn:
        raise KeyError(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        started = time.monotonic()
        if timeout is None or timeout > 0:
            left = signal.getitimer(signal.ITIMER_PROF)[0]
            self.wake.wait(left if timeout is None else min(timeout, left))
            sleep(time.monotonic() - started)
        self.wake.clear()
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._waiter = _Waiter()
        super().__init__(self._waiter)

    def _make_self_pipe(self) -> None:
        """Other threads set an event instead."""

    def _close_self_pipe(self) -> None:
        """There is none."""

    def _write_to_self(self) -> None:
        self._waiter.wake.set()


class _Policy(asyncio.DefaultEventLoopPolicy):
    _loop_factory = _Loop
