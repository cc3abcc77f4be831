"""What every verb of the `league` command has in common: its argument, its errors, its output."""

import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from league import store
from league.analysis.history import History, history
from league.errors import LeagueError, LeagueLocked, UnreadableLeague
from league.league import League
from league.tables import Cell, table

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

LINES = 20
MANY = 64
MORE = f"note: the first {LINES} of each role are shown; --json has all"

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of a table."
)
since_option = click.option(
    "--since", default=0, show_default=True, help="Leave out earlier rounds."
)
seed_option = click.option("--seed", default=0, show_default=True, help="Of all random draws.")
league_directory = click.argument("directory", type=click.Path(path_type=Path))


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn our errors into one line: exit code 1 for damaged or busy files, else 2."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except LeagueError as error:
            damaged = isinstance(error, UnreadableLeague | LeagueLocked)
            click.echo(f"league: {' '.join(str(error).split())}", err=True)
            sys.exit(1 if damaged else 2)
        except BrokenPipeError:
            raise  # click ends quietly when the reader has gone
        except OSError as error:
            click.echo(f"league: {error}", err=True)
            sys.exit(1)

    return wrapped


def open_league(directory: Path) -> League:
    """Open the league of a directory for reading; what had to be repaired goes to stderr."""
    if not (directory / store.SETTINGS).exists():
        raise LeagueError(f"no league in {directory}; expected a directory with {store.SETTINGS}")
    opened = League(directory, read_only=True)
    for warning in opened.warnings:
        click.echo(f"league: {warning}", err=True)
    return opened


def open_history(directory: Path) -> History:
    """Open the league of a directory for reading, and return what happened in it."""
    return history(open_league(directory))


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], notes: Sequence[str] = ()
) -> None:
    """Print aligned columns, and under them what a reader must know of them."""
    click.echo(table(header, rows))
    print_notes(notes)


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
