"""What all commands share: how they end, what options they take, JSON, tables, progress.

Exit codes: 0 done; 1 the work found a problem or was stopped (a full disk, a closed pipe); 2 wrong
usage or input that cannot be used; 130 interrupted. Problems are one line on stderr.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from lora_evo.errors import LoraEvoError
from lora_evo.text_table import text_table

FOLDER = click.Path(path_type=Path)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


class Commands(click.Group):
    """A group whose commands end as this module says."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except LoraEvoError as error:
            _fail(" ".join(str(error).split()), 2)
        except BrokenPipeError:
            sys.stderr.close()
            sys.exit(1)
        except OSError as error:
            _fail(f"{error.strerror or error}: {error.filename or 'while writing'}", 1)
        except KeyboardInterrupt:
            _fail("interrupted", 130)


def change_text(value: float | None) -> str:
    """A relative change; None is one from a zero update."""
    return "from zero" if value is None else f"{value:.6g}"


def print_json(value: object) -> None:
    """Print a value as JSON with sorted keys."""
    click.echo(json.dumps(value, indent=1, sort_keys=True, allow_nan=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with its first column to the left, the others to the right."""
    click.echo(text_table(header, rows))


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


def _fail(message: str, code: int) -> None:
    click.echo(f"lora-evo: {message}", err=True)
    sys.exit(code)
