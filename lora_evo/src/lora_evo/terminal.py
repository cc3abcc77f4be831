"""What commands are made of: groups, options, lines on errors, JSON, tables, progress bars.

Exit codes: 0 done; 1 a problem was found, or the work stopped; 2 unusable input; 130 interrupted.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import click

from lora_evo.errors import LoraEvoError, first_line, pip_install, remedy
from lora_evo.peft.directory import adapter_files, readable

__all__ = ["Commands", "first_line", "pip_install", "remedy", "text_table"]

FOLDER = click.Path(path_type=Path)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print all numbers as JSON instead of text."
)


class Commands(click.Group):
    """A group whose errors are one line each, with the exit codes of this module."""

    def main(self, *args: Any, **extra: Any) -> Any:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed by the caller: no file is to take its place
                setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        try:
            return super().main(*args, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            more = f"; see {context.command_path} --help" if context else ""
            _fail(error.format_message().rstrip(".") + more, error.exit_code)
        except LoraEvoError as error:
            _fail(str(error), 2)
        except BrokenPipeError:
            sys.stderr.close()
            sys.exit(1)
        except OSError as error:
            place = error.filename or "while writing"
            _fail(f"{error.strerror or error}: {place}{remedy(error)}", 1)
        except (KeyboardInterrupt, click.Abort):
            _fail("interrupted", 130)


def number(value: float | None, none: str = "-", digits: int = 4) -> str:
    """Return a number with this many significant digits; none: the text for None."""
    return none if value is None else f"{value:.{digits}g}"


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=1, sort_keys=True, allow_nan=False))


def text_table(header: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> str:
    """Return columns as wide as their widest cell, the first `left` of them flush left."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def say_unfit(folders: Iterable[Path]) -> None:
    """Print, on stderr, settings of adapters that match none of their modules."""
    for folder, adapter in readable(folders, adapter_files, lambda reason: None):
        if odd := adapter.config.unmatched(adapter.paths):
            click.echo(
                f"{folder}: fit no module, so are without effect: {', '.join(odd)}", err=True
            )


@contextmanager
def counter(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that moves a progress bar on stderr, if a terminal."""
    file = sys.stderr if sys.stderr.isatty() else StringIO()
    with click.progressbar(length=1, label=label, file=file) as bar:

        def count(place: int, total: int) -> None:
            bar.length = total
            bar.update(place - bar.pos)

        yield count


def _fail(message: str, code: int) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)
