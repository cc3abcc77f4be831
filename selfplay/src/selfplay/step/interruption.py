"""Ctrl-C at a moment when a little more patience keeps a whole step."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupt_deferred() -> Iterator[None]:
    """Let a Ctrl-C that comes within the block take effect at its end.

    Only the main thread is ever interrupted, and only where somebody listens to the signal;
    elsewhere the block runs as it would without this.
    """
    listener = signal.getsignal(signal.SIGINT)
    if not callable(listener) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, listener)
        if came:
            listener(signal.SIGINT, came[0])
