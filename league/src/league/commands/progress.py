"""A progress bar on a terminal's standard error, and nothing anywhere else."""

import contextlib
import sys
from collections.abc import Callable, Iterator

import click


@contextlib.contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes (done, of) and moves the bar."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    with click.progressbar(length=1000, label=label, file=sys.stderr) as shown:

        def move(done: int, total: int) -> None:
            shown.update(1000 * done // total - shown.pos)

        yield move
