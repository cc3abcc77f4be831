"""The `code-verifier` command."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from code_verifier import __version__
from code_verifier.commands.job import Finite, clean_exit, job_options, stream, tell
from code_verifier.commands.judged_row import check_request, check_row, grade_request, grade_row
from code_verifier.commands.metrics import compare, coverage, metrics
from code_verifier.literals.comparison import Comparison
from code_verifier.rows.fields import Row
from code_verifier.sandbox.doctor import diagnose
from code_verifier.sandbox.parallel import ordered_map
from code_verifier.sandbox.pool import HASH_SEEDS
from code_verifier.sandbox.sandbox import Sandbox
from code_verifier.tasks.limits import Limits

_CPUS = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
_DAY_S = 86_400.0
_DEFAULT = Limits()


def _sandbox_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--workers",
            type=click.IntRange(1, 1024),
            default=_CPUS,
            show_default="one a processor",
            help="Programs that run at a time.",
        ),
        click.option(
            "--wall-s",
            type=Finite(0.001, _DAY_S),
            default=_DEFAULT.wall_s,
            show_default=True,
            help="Seconds of real time one execution may take.",
        ),
        click.option(
            "--cpu-s",
            type=Finite(0.001, _DAY_S),
            show_default="that of --wall-s",
            help="Seconds of processor time one execution may take.",
        ),
        click.option(
            "--memory-mb",
            type=click.IntRange(1, 2**20),
            default=_DEFAULT.memory_mb,
            show_default=True,
            help="MiB of memory one execution may take.",
        ),
        click.option(
            "--output-chars",
            type=click.IntRange(1, 10**7),
            default=_DEFAULT.output_chars,
            show_default=True,
            help="Length of the longest output; a longer one is too_long.",
        ),
        click.option("--allow-weak", is_flag=True, help="Go on without a system-call filter."),
        click.option(
            "--resume",
            is_flag=True,
            help="Keep the rows an interrupted run finished, and go on after them.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _limits(wall_s: float, cpu_s: float | None, memory_mb: int, output_chars: int) -> Limits:
    return Limits(
        wall_s=wall_s,
        cpu_s=wall_s if cpu_s is None else cpu_s,
        memory_mb=memory_mb,
        output_chars=output_chars,
    )


@click.group()
@click.version_option(__version__, prog_name="code-verifier")
def main() -> None:
    """Run untrusted Python programs, grade answers, and measure structure.

    Files are JSON Lines, one object a line; `-` is standard input or output, and gzip is read as
    it is. Exit codes: 0 done, 1 the sandbox cannot be used or failed, 2 wrong use or bad input,
    128 + signal when interrupted. Finished results are always kept.
    """


for command in (metrics, coverage, compare):
    main.add_command(command)


@main.command()
@job_options
@_sandbox_options
@click.option(
    "--runs",
    type=click.IntRange(2, len(HASH_SEEDS)),
    default=2,
    show_default=True,
    help="Executions of each program that must agree.",
)
@clean_exit
def check(
    rows: Path,
    out: Path,
    on_error: str,
    as_json: bool,
    workers: int,
    wall_s: float,
    cpu_s: float | None,
    memory_mb: int,
    output_chars: int,
    allow_weak: bool,
    resume: bool,
    runs: int,
) -> int:
    """Check that programs are valid and deterministic.

    ROWS holds {"id"?, "program", "input"} or Absolute Zero's {"snippet", "input", "imports"};
    `inputs`, a list, may stand for `input`. Written are, in the same order, {"id", "status",
    "output", "reason", "wall_ms", "runs"}; a row without an id gets its line number.
    """
    limits = _limits(wall_s, cpu_s, memory_mb, output_chars)
    with Sandbox(workers, limits, runs, allow_weak=allow_weak) as sandbox:
        job = partial(check_row, sandbox)

        def run(items: Iterable[Row]) -> Iterable[Row]:
            return ordered_map(job, items, workers)

        counts = stream(rows, out, on_error, run, resume=resume, usable=check_request)
    _print_counts(counts, "status", as_json, counts.total())
    return 1 if counts["sandbox_error"] else 0


@main.command()
@job_options
@_sandbox_options
@click.option("--python-equality", is_flag=True, help="1, 1.0 and True are equal.")
@click.option(
    "--tolerance",
    type=Finite(0.0, 1.0),
    default=0.0,
    show_default=True,
    help="Relative and absolute tolerance of floats.",
)
@clean_exit
def grade(
    rows: Path,
    out: Path,
    on_error: str,
    as_json: bool,
    workers: int,
    wall_s: float,
    cpu_s: float | None,
    memory_mb: int,
    output_chars: int,
    allow_weak: bool,
    resume: bool,
    python_equality: bool,
    tolerance: float,
) -> int:
    """Grade answers to tasks of the three kinds.

    ROWS holds {"id", "kind", "answer"} and, for code_o, "output"; for code_i, "program" and
    "output"; for code_f, "inputs", "outputs" and "visible"?, the number of leading pairs that
    are not judged. Written are, in the same order, {"id", "score", "reason", "status",
    "passed"?, "total"?}. An answer that the sandbox failed to judge has the status sandbox_error
    and the score null, is counted as ungraded, and the exit code is 1.
    """
    limits = _limits(wall_s, cpu_s, memory_mb, output_chars)
    comparison = Comparison(not python_equality, tolerance)
    with Sandbox(workers, limits, comparison=comparison, allow_weak=allow_weak) as sandbox:
        job = partial(grade_row, sandbox)

        def run(items: Iterable[Row]) -> Iterable[Row]:
            return ordered_map(job, items, workers)

        counts = stream(rows, out, on_error, run, "score", resume, grade_request)
    total, ungraded = counts.total(), counts.pop("None", 0)
    _print_counts(counts, "score", as_json, total, ungraded=ungraded)
    if ungraded:
        tell(f"error: {ungraded} of {total} rows could not be graded: the sandbox failed")
    return 1 if ungraded else 0


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print the layers as JSON.")
@clean_exit
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
        tell(f"error: {found.error}")
    return 0 if found.works else 1


def _print_counts(
    counts: Counter[str], name: str, as_json: bool, total: int, **others: int
) -> None:
    if as_json:
        click.echo(json.dumps({"rows": total, name: dict(sorted(counts.items())), **others}))
        return
    click.echo(f"{total} rows")
    for key, number in [*counts.most_common(), *((k, n) for k, n in others.items() if n)]:
        click.echo(f"  {key:18} {number:8}  {100.0 * number / total:5.1f} %")
