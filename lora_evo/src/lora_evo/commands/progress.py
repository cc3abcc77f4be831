"""A line on the terminal that says how far a command is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def status_line() -> Iterator[Callable[[str], None] | None]:
    """Yield what shows a text in place of the last one on stderr; None where it is no terminal.

    The line is wiped at the end.
    """
    if not sys.stderr.isatty():
        yield None
        return

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        show("")


@contextmanager
def counter(label: str, unit: str = "modules") -> Iterator[Callable[[int, int], None] | None]:
    """Yield what to call with (units done, units in all), which shows at most every percent."""
    with status_line() as show:
        if show is None:
            yield None
            return
        shown = -1

        def count(done: int, total: int) -> None:
            nonlocal shown
            percent = 100 * done // total
            if percent != shown:
                shown = percent
                show(f"{label}: {done} of {total} {unit}")

        yield count
