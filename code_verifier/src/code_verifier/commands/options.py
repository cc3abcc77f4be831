"""Options that several commands have."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from code_verifier.literals.comparison import Comparison
from code_verifier.sandbox.sandbox import Sandbox
from code_verifier.tasks.limits import Limits

INPUT = click.Path(path_type=Path)
_CPUS = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
_DEFAULT = Limits()
_Command = Callable[..., Any]


class Finite(click.FloatRange):
    """A number between two bounds, both allowed; not a number is not in any range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value} is not in the range {self.min}<=x<={self.max}.", param, ctx)
        return found


@dataclass(frozen=True, slots=True)
class Job:
    """The files of a command."""

    rows: Path
    out: Path
    on_error: str
    as_json: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The sandbox of a command."""

    workers: int
    wall_s: float
    cpu_s: float | None
    memory_mb: int
    output_chars: int
    allow_weak: bool
    resume: bool

    def open(self, runs: int = 2, comparison: Comparison | None = None) -> Sandbox:
        """A sandbox as it was asked for."""
        cpu_s = self.wall_s if self.cpu_s is None else self.cpu_s
        limits = Limits(self.wall_s, cpu_s, self.memory_mb, self.output_chars)
        return Sandbox(self.workers, limits, runs, comparison, self.allow_weak)


_Options = TypeVar("_Options", Job, SandboxOptions)


def _gathered(
    name: str, kind: type[_Options], *options: Callable[[_Command], _Command]
) -> Callable[[_Command], _Command]:
    """Give a command these options as one argument."""

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def wrapped(**given: Any) -> Any:
            found = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            return command(**given, **{name: found})

        decorated: _Command = wrapped
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def number_option(
    name: str, kind: Any, default: float | None, help: str
) -> Callable[[_Command], _Command]:
    """An option that is a number, with its default in the help."""
    return click.option(name, type=kind, default=default, show_default=True, help=help)


_SECONDS = Finite(0.001, 86_400.0)
on_error = click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="At a bad line: stop with exit code 2, or leave the line out.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
workers = click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=_CPUS,
    show_default="one a processor",
    help="Programs that are run, or measured, at a time.",
)
job_options = _gathered(
    "job",
    Job,
    click.argument("rows", type=INPUT, metavar="ROWS"),
    click.option("--out", type=INPUT, required=True, help="File to write, - for stdout."),
    on_error,
    as_json,
    click.option("--quiet", is_flag=True, help="No progress, on a terminal either."),
)
_MIB = click.IntRange(1, 2**20)
_CHARS = click.IntRange(1, 10**7)
sandbox_options = _gathered(
    "options",
    SandboxOptions,
    workers,
    number_option("--wall-s", _SECONDS, _DEFAULT.wall_s, "Real time of one execution, s."),
    number_option("--cpu-s", _SECONDS, None, "Processor time of one execution, s; or as --wall-s."),
    number_option("--memory-mb", _MIB, _DEFAULT.memory_mb, "Memory of one execution, MiB."),
    number_option("--output-chars", _CHARS, _DEFAULT.output_chars, "A longer output is too_long."),
    click.option("--allow-weak", is_flag=True, help="Go on without a system-call filter."),
    click.option("--resume", is_flag=True, help="Keep the rows that an earlier run finished."),
)
