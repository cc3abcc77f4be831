"""The `code-verifier` command."""

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from code_verifier import __version__
from code_verifier.cli_metrics import metrics
from code_verifier.commands import clean_exit, job_options, stream, tell
from code_verifier.compare import Comparison
from code_verifier.doctor import diagnose
from code_verifier.forkserver import HASH_SEEDS
from code_verifier.jobs import check_row, grade_row
from code_verifier.limits import Limits
from code_verifier.parallel import ordered_map
from code_verifier.sandbox import Sandbox

_CPUS = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
_Positive = click.FloatRange(min=0.0, min_open=True)


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


main.add_command(metrics)


@main.command()
@job_options
@_sandbox_options
@click.option("--runs", type=click.IntRange(2, len(HASH_SEEDS)), default=2, show_default=True)
@clean_exit
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
        counts = stream(rows, out, on_error, lambda items: ordered_map(job, items, workers))
    _print_counts(counts, "status", as_json)
    return 1 if counts["sandbox_error"] else 0


@main.command()
@job_options
@_sandbox_options
@click.option("--python-equality", is_flag=True, help="1, 1.0 and True are equal.")
@click.option("--tolerance", type=click.FloatRange(min=0.0), default=0.0, show_default=True)
@clean_exit
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
        counts = stream(
            rows, out, on_error, lambda items: ordered_map(job, items, workers), "score"
        )
    _print_counts(counts, "score", as_json)
    return 0


@main.command()
@click.option("--json", "as_json", is_flag=True)
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


def _print_counts(counts: Counter[str], name: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"rows": counts.total(), name: dict(sorted(counts.items()))}))
        return
    click.echo(f"{counts.total()} rows")
    for key, number in counts.most_common():
        click.echo(f"  {key:18} {number:8}  {100.0 * number / counts.total():5.1f} %")
