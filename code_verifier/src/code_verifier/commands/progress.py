"""A line of progress on standard error, for people who watch; nothing for files and pipes."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

_EVERY_S = 0.2


class Progress:
    """Counts rows. Quiet unless it has a bar."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar
        self._start = self._shown = time.monotonic()
        self._earlier = self._good = self._count = self._waiting = 0

    def step(self, good: bool, earlier: bool) -> None:
        """One more row is finished; `good` says whether it counts as ok, `earlier` by which run."""
        self._count += 1
        self._waiting += 1
        self._good += good
        self._earlier += earlier
        if time.monotonic() - self._shown >= _EVERY_S:
            self.show()

    def note(self, text: str) -> None:
        """A line of its own on standard error, above the bar."""
        click.echo(text if self._bar is None else f"\r\033[K{text}", err=True)

    def show(self) -> None:
        """Show the state of now."""
        self._shown = now = time.monotonic()
        if self._bar is not None:
            rate = (self._count - self._earlier) / max(now - self._start, 1e-3)
            share = 100.0 * self._good / max(1, self._count)
            self._bar.update(self._waiting, f"{rate:.0f}/s, {share:.1f} % ok")
        self._waiting = 0


@contextmanager
def progress(label: str, count: Callable[[], int | None], quiet: bool) -> Iterator[Progress]:
    """Progress of one job. `count` gives the number of rows, if it can, and is only asked then.

    Shown are the rows done, their rate and share ok, and the time left when the number is known.
    """
    if quiet or not sys.stderr.isatty():
        yield Progress()
        return
    with click.progressbar(
        length=count(),
        label=label,
        file=sys.stderr,
        show_pos=True,
        show_eta=True,
        width=20,
        item_show_func=lambda item: item,
    ) as bar:
        shown = Progress(bar)
        try:
            yield shown
        finally:
            shown.show()
