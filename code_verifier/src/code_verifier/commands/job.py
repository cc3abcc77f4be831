"""What the commands share: options, error lines, and rows in and out."""

import math
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec

import click

from code_verifier.commands.progress import progress
from code_verifier.errors import CodeVerifierError, RecordError, SandboxUnavailable
from code_verifier.rows.fields import Row, id_of
from code_verifier.rows.jsonl import open_rows
from code_verifier.rows.results import ResultFile, open_results

_P = ParamSpec("_P")
_QUIET = f"{__name__}.quiet"
_GOOD = {"status": "ok", "score": "1.0", "error": "None"}
INPUT = click.Path(path_type=Path)

Run = Callable[[Iterable[Row]], Iterable[Row]]
Usable = Callable[[Row], object]


class Finite(click.FloatRange):
    """A number between two bounds, both allowed; not a number is not in any range."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__(low, high)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value} is not in the range {self.min}<=x<={self.max}.", param, ctx)
        return found


class Stopped(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def clean_exit(command: Callable[_P, int]) -> Callable[_P, None]:
    """Turn errors of use into one line and an exit code: 2 for wrong use, 1 for no sandbox.

    An interrupt ends with 130, a TERM or HUP signal with 143 or 129, a reader that went away
    with 141: 128 and the signal's number, as in a shell.
    """

    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            with _signals():
                code = command(*args, **kwargs)
        except SandboxUnavailable as error:
            tell(f"error: {error}")
            code = 1
        except CodeVerifierError as error:
            tell(f"error: {error}")
            code = 2
        except KeyboardInterrupt as stop:
            number = stop.number if isinstance(stop, Stopped) else signal.SIGINT
            tell("interrupted; finished results are kept")
            code = 128 + number
        except BrokenPipeError:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (nothing to flush at the end)
            code = 128 + 13
        except OSError as error:
            place = f" {error.filename}:" if error.filename else ""
            tell(f"error:{place} {error.strerror or error}")
            code = 2
        sys.exit(code)

    return wrapped


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that turns a file of rows into another."""
    options = (
        click.argument("rows", type=INPUT, metavar="ROWS"),
        click.option(
            "--out", type=INPUT, required=True, help="JSON Lines file to write, - for stdout."
        ),
        click.option(
            "--on-error",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            show_default=True,
            help="At a bad line: stop with exit code 2, or leave the line out.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
        click.option(
            "--quiet",
            is_flag=True,
            expose_value=False,
            callback=_remember_quiet,
            help="No progress, on a terminal either.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def stream(
    rows: Path,
    out: Path,
    on_error: str,
    run: Run,
    counted: str = "status",
    resume: bool = False,
    usable: Usable = id_of,
) -> Counter[str]:
    """Read, run and write row by row; finished rows are kept whatever happens.

    Returns how often each value of the field `counted` was written. resume: rows that an earlier
    run finished are not run again; `usable` raises RecordError for an input row that has no
    result because it is bad.
    """
    counts: Counter[str] = Counter()
    context = click.get_current_context()
    label, quiet = str(context.info_name), bool(context.meta.get(_QUIET))
    with (
        open_rows(rows) as source,
        open_results(out, rows, resume, tell) as results,
        progress(label, source.count_lines, quiet) as shown,
    ):
        skip = shown.note if on_error == "skip" else None

        def told(problem: str) -> None:
            if skip is None:
                raise RecordError(f"{source.name}, {problem}")
            skip(f"{source.name}, {problem}")

        items = source.rows(skip)
        for kept in _resumed(results, items, usable, told):
            value = str(kept.get(counted))
            counts[value] += 1
            shown.skip(value == _GOOD[counted])
        for result in run(items):
            if "bad_row" in result:
                told(result["bad_row"])
                continue
            results.write(result)
            value = str(result.get(counted))
            counts[value] += 1
            shown.step(value == _GOOD[counted])
    if str(out) == "-":  # the rows have standard output for themselves
        context.with_resource(redirect_stdout(sys.stderr))
    return counts


def tell(text: str) -> None:
    """One line to stderr."""
    click.echo(text, err=True)


def _resumed(
    results: ResultFile, items: Iterator[Row], usable: Usable, told: Callable[[str], None]
) -> Iterator[Row]:
    """The finished rows, each after its input row was taken from `items`.

    They belong to the usable input rows in order; another id shows that the input is another.
    """
    for number, kept in enumerate(results.kept(), 1):
        found: object = "nothing more"
        for row in items:
            try:
                usable(row)
            except RecordError as error:
                told(f"line {row['_line']}: {error}")
                continue
            found = repr(id_of(row))
            break
        if found != repr(kept["id"]):
            raise RecordError(
                f"cannot resume: finished row {number} has the id {kept['id']!r}, but the input "
                f"has {found} there; resume with the same input and the same --on-error, or leave "
                "--resume out to begin anew"
            )
        yield kept


def _remember_quiet(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_QUIET] = value


@contextmanager
def _signals() -> Iterator[None]:
    """Let TERM and HUP end the work as an interrupt does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        raise Stopped(number)

    numbers = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    taken = [n for n in numbers if n is not None and signal.getsignal(n) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
