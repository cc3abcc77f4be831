"""What the commands print: tables with notes, JSON, and a bar while they work."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import click

from league.drawing.text_table import Cell, table

T = TypeVar("T")

LINES = 20
"""At most so many rows of each role are shown of a large league."""
MANY = 64
"""A role of more rows than that is large."""
MORE = f"note: the first {LINES} of each role are shown; --json has all"


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], notes: Sequence[str] = ()
) -> None:
    """Print aligned columns, and under them what a reader must know of them."""
    click.echo(table(header, rows))
    print_notes(notes)


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with fixed decimals, and a blank dot for None."""
    return "·" if value is None else f"{value:.{digits}f}"


def print_notes(notes: Sequence[str]) -> None:
    """Print sentences, one a line."""
    for note in notes:
        click.echo(f"note: {note}")


def first_rows(rows: Sequence[T], ranked: Sequence[T]) -> Sequence[T]:
    """Return all rows of a small league in their own order, the first of a large one by rank."""
    return rows if len(rows) <= MANY else ranked[:LINES]


def print_json(data: object) -> None:
    """Print plain data as indented JSON; NaN and infinity are refused."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


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
