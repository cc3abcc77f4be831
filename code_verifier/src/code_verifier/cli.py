"""The `code-verifier` command."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial, wraps
from pathlib import Path
from typing import Any, BinaryIO, ParamSpec, cast

import click

from code_verifier import __version__
from code_verifier.compare import Comparison
from code_verifier.doctor import diagnose
from code_verifier.errors import CodeVerifierError, ProgramError, SandboxUnavailable
from code_verifier.forkserver import HASH_SEEDS
from code_verifier.jobs import check_row, grade_row
from code_verifier.limits import Limits
from code_verifier.metrics import Metrics, measure
from code_verifier.parallel import ordered_map
from code_verifier.rows import Row, id_of, program_of, read_rows, writer
from code_verifier.sandbox import Sandbox
from code_verifier.summary import summarise

_P = ParamSpec("_P")
_CPUS = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
_INPUT = click.Path(path_type=Path)
_Positive = click.FloatRange(min=0.0, min_open=True)


def _clean_exit(command: Callable[_P, int]) -> Callable[_P, None]:
    """Turn errors of use into one line and an exit code."""

    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except SandboxUnavailable as error:
            _tell(f"error: {error}")
            code = 1
        except CodeVerifierError as error:
            _tell(f"error: {error}")
            code = 2
        except KeyboardInterrupt:
            _tell("interrupted; finished results are kept")
            code = 130
        except OSError as error:
            place = f" {error.filename}" if error.filename else ""
            _tell(f"error:{place}: {error.strerror or error}")
            code = 2
        sys.exit(code)

    return wrapped


def _job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.argument("rows", type=_INPUT),
        click.option("--out", type=_INPUT, required=True, help="JSON Lines file to write."),
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


def _sandbox_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--workers", type=click.IntRange(min=1), default=_CPUS, show_default=True),
        click.option("--wall-s", type=_Positive, default=2.0, show_default=True),
        click.option("--memory-mb", type=click.IntRange(min=1), default=256, show_default=True),
        click.option("--allow-weak", is_flag=True, help="Go on without a system-call filter."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
@click.version_option(__version__, prog_name="code-verifier")
def main() -> None:
    """Run untrusted Python programs, grade answers, and measure structure."""


@main.command()
@_job_options
@_sandbox_options
@click.option("--runs", type=click.IntRange(2, len(HASH_SEEDS)), default=2, show_default=True)
@_clean_exit
def check(
    rows: Path,
    out: Path,
    on_error: str,
    as_json: bool,
    workers: int,
    wall_s: float,
    memory_mb: int,
    allow_weak: bool,
    runs: int,
) -> int:
    """Check programs: rows {"id"?, "program", "input"}, or AZR's seed rows."""
    limits = Limits(wall_s=wall_s, cpu_s=wall_s, memory_mb=memory_mb)
    with Sandbox(workers, limits, runs, allow_weak=allow_weak) as sandbox:
        job = partial(check_row, sandbox)
        counts = _stream(rows, out, on_error, lambda items: ordered_map(job, items, workers))
    _print_counts(counts, "status", as_json)
    return 1 if counts["sandbox_error"] else 0


@main.command()
@_job_options
@_sandbox_options
@click.option("--python-equality", is_flag=True, help="1, 1.0 and True are equal.")
@click.option("--tolerance", type=click.FloatRange(min=0.0), default=0.0, show_default=True)
@_clean_exit
def grade(
    rows: Path,
    out: Path,
    on_error: str,
    as_json: bool,
    workers: int,
    wall_s: float,
    memory_mb: int,
    allow_weak: bool,
    python_equality: bool,
    tolerance: float,
) -> int:
    """Grade answers: rows {"id", "kind", "program"?, "input"?, "output"?, ..., "answer"}."""
    limits = Limits(wall_s=wall_s, cpu_s=wall_s, memory_mb=memory_mb)
    comparison = Comparison(not python_equality, tolerance)
    with Sandbox(workers, limits, comparison=comparison, allow_weak=allow_weak) as sandbox:
        job = partial(grade_row, sandbox)
        counts = _stream(
            rows, out, on_error, lambda items: ordered_map(job, items, workers), "score"
        )
    _print_counts(counts, "score", as_json)
    return 0


@main.command()
@_job_options
@_clean_exit
def metrics(rows: Path, out: Path, on_error: str, as_json: bool) -> int:
    """Measure programs; rows that do not parse get an "error" instead of numbers."""
    measured: list[Metrics] = []

    def job(row: Row) -> Row:
        try:
            found = measure(program_of(row))
        except ProgramError as error:
            return {"id": id_of(row), "error": str(error)}
        measured.append(found)
        return {"id": id_of(row), **asdict(found)}

    counts = _stream(rows, out, on_error, lambda items: map(job, items), "error")
    table = summarise(measured)
    structures = len({item.structure for item in measured})
    unparsed = sum(counts.values()) - len(measured)
    if as_json:
        head = {"programs": len(measured), "unparsed": unparsed, "structures": structures}
        click.echo(json.dumps({**head, "metrics": table}))
        return 0
    click.echo(f"{len(measured)} programs, {structures} structures, {unparsed} not Python")
    for name, numbers in table.items():
        if name == "ast_depth":
            click.echo(f"{'':16}" + "".join(f"{key:>11}" for key in numbers))
        click.echo(f"{name:16}" + "".join(f"{value:11.1f}" for value in numbers.values()))
    return 0


@main.command()
@click.option("--json", "as_json", is_flag=True)
@_clean_exit
def doctor(as_json: bool) -> int:
    """Say which layers of protection are active here, and what the missing ones cost."""
    found = diagnose()
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return 0 if found.works else 1
    click.echo(f"{found.system} {found.kernel} on {found.machine}, Python {found.python}")
    for layer in found.layers:
        state = "active" if layer.active else "MISSING"
        need = "required" if layer.required else ""
        click.echo(f"  {layer.name:14} {state:8} {need:9} without it {layer.cost}")
    if found.error:
        _tell(f"error: {found.error}")
    return 0 if found.works else 1


def _stream(
    rows: Path,
    out: Path,
    on_error: str,
    run: Callable[[Iterable[Row]], Iterable[Row]],
    counted: str = "status",
) -> Counter[str]:
    """Read, run and write row by row; finished rows are kept whatever happens."""
    counts: Counter[str] = Counter()
    skip = _tell if on_error == "skip" else None
    with _opened(rows) as file, writer(out) as write:
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
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        yield cast(BinaryIO, file)


def _print_counts(counts: Counter[str], name: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"rows": counts.total(), name: dict(sorted(counts.items()))}))
        return
    click.echo(f"{counts.total()} rows")
    for key, number in counts.most_common():
        click.echo(f"  {key:18} {number:8}  {100.0 * number / counts.total():5.1f} %")


def _tell(text: str) -> None:
    click.echo(text, err=True)
