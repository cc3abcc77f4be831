"""A line on the terminal that counts modules while a command works."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def module_counter(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield what to call with (modules done, modules in all); None where stderr is no terminal.

    The line is rewritten in place on stderr, at most once a percent, and wiped at the end.
    """
    if not sys.stderr.isatty():
        yield None
        return
    shown = -1

    def show(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total
        if percent != shown:
            shown = percent
            sys.stderr.write(f"\r{label}: {done} of {total} modules")
            sys.stderr.flush()

    try:
        yield show
    finally:
        if shown >= 0:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
