"""What all commands share: one line for a refusal, JSON and tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import click

from lora_evo.errors import LoraEvoError

P = ParamSpec("P")
FOLDER = click.Path(path_type=Path)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """End refusals in one line on stderr and exit code 2, trouble with the disk in 1."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except LoraEvoError as error:
            _fail(" ".join(str(error).split()), 2)
        except BrokenPipeError:
            sys.stderr.close()
            sys.exit(1)
        except OSError as error:
            _fail(f"{error.strerror or error}: {error.filename or 'while writing'}", 1)

    return run


def change_text(value: float | None) -> str:
    """A relative change; None is one from a zero update."""
    return "from zero" if value is None else f"{value:.6g}"


def print_json(value: object) -> None:
    """Print a value as JSON with sorted keys."""
    click.echo(json.dumps(value, indent=1, sort_keys=True, allow_nan=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows in columns as wide as their widest cell, the first column to the left."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        name = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        click.echo("  ".join((name, *rest)))


def _fail(message: str, code: int) -> None:
    click.echo(f"lora-evo: {message}", err=True)
    sys.exit(code)
