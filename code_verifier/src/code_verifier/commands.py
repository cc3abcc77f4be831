"""What the commands share: options, error lines, and rows in and out."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO, ParamSpec, cast

import click

from code_verifier.errors import CodeVerifierError, SandboxUnavailable
from code_verifier.rows import Row, read_rows, writer

_P = ParamSpec("_P")
INPUT = click.Path(path_type=Path)


def clean_exit(command: Callable[_P, int]) -> Callable[_P, None]:
    """Turn errors of use into one line and an exit code: 2 for wrong use, 1 for no sandbox."""

    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except SandboxUnavailable as error:
            tell(f"error: {error}")
            code = 1
        except CodeVerifierError as error:
            tell(f"error: {error}")
            code = 2
        except KeyboardInterrupt:
            tell("interrupted; finished results are kept")
            code = 130
        except OSError as error:
            place = f" {error.filename}" if error.filename else ""
            tell(f"error:{place}: {error.strerror or error}")
            code = 2
        sys.exit(code)

    return wrapped


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that turns a file of rows into another."""
    options = (
        click.argument("rows", type=INPUT),
        click.option("--out", type=INPUT, required=True, help="JSON Lines file to write."),
        click.option(
            "--on-error",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            show_default=True,
            help="At a bad line: stop with exit code 2, or leave the line out.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def stream(
    rows: Path,
    out: Path,
    on_error: str,
    run: Callable[[Iterable[Row]], Iterable[Row]],
    counted: str = "status",
) -> Counter[str]:
    """Read, run and write row by row; finished rows are kept whatever happens."""
    counts: Counter[str] = Counter()
    skip = tell if on_error == "skip" else None
    with opened(rows) as file, writer(out) as write:
        results = run(read_rows(file, str(rows), skip))
        for result in results:
            problem = result.get("bad_row")
            if problem is not None:
                if skip is None:
                    raise CodeVerifierError(f"{rows}, {problem}")
                skip(f"{rows}, {problem}")
                continue
            write(result)
            counts[str(result.get(counted))] += 1
    return counts


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file, open for reading bytes."""
    with path.open("rb") as file:
        yield cast(BinaryIO, file)


def tell(text: str) -> None:
    """One line to stderr."""
    click.echo(text, err=True)
