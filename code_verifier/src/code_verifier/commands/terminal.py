"""What a person at a terminal sees: single lines, plain tables, and a line of progress."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

_EVERY_S = 0.2


def tell(text: str) -> None:
    """One line to standard error."""
    click.echo(text, err=True)


def print_table(rows: Sequence[Sequence[str]], align: str = "<>") -> None:
    """Columns two spaces apart: `<` to the left, `>` to the right, the last sign for the rest."""
    signs = align.ljust(max(map(len, rows), default=0), align[-1])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{text:{to}{width}}" for text, to, width in zip(row, signs, widths, strict=False))
        click.echo(f"  {'  '.join(cells)}".rstrip())


class Progress:
    """Counts rows. Quiet unless it has a bar."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar
        self._start = self._shown = time.monotonic()
        self._earlier = self._good = self._count = 0

    def step(self, good: bool, earlier: bool) -> None:
        """One more row is finished; `good` says whether it counts as ok, `earlier` by which run."""
        self._count += 1
        self._good += good
        self._earlier += earlier
        if time.monotonic() - self._shown >= _EVERY_S:
            self.show()

    def note(self, text: str) -> None:
        """A line of its own on standard error, above the bar."""
        tell(text if self._bar is None else f"\r\033[K{text}")

    def show(self) -> None:
        """Show the state of now."""
        self._shown = now = time.monotonic()
        if self._bar is not None:
            rate = (self._count - self._earlier) / max(now - self._start, 1e-3)
            share = 100.0 * self._good / max(1, self._count)
            self._bar.update(self._count - self._bar.pos, f"{rate:.0f}/s, {share:.1f} % ok")


@contextmanager
def progress(label: str, count: Callable[[], int | None], quiet: bool) -> Iterator[Progress]:
    """Rows done, their rate and share ok, on a terminal only; and the time left, if `count`, which
    is only asked then, knows the number of rows."""
    if quiet or not sys.stderr.isatty():
        yield Progress()
        return
    look: dict[str, Any] = {"show_pos": True, "width": 20, "item_show_func": lambda item: item}
    with click.progressbar(length=count(), label=label, file=sys.stderr, **look) as bar:
        shown = Progress(bar)
        try:
            yield shown
        finally:
            shown.show()
