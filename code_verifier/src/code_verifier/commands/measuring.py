"""`code-verifier metrics`, `coverage` and `compare`: the structure of programs."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from code_verifier.commands.exits import exit_code
from code_verifier.commands.job import run_job, usable
from code_verifier.commands.options import INPUT, Job, as_json, job_options, on_error, workers
from code_verifier.commands.processes import process_map
from code_verifier.commands.summaries import print_contrast, print_coverage, print_summary
from code_verifier.commands.terminal import tell
from code_verifier.errors import CodeVerifierError, ProgramError
from code_verifier.metrics.contrast import compare_sets
from code_verifier.metrics.diversity import TRAITS, coverage_of, traits
from code_verifier.metrics.measurement import Metrics, measure
from code_verifier.page.document import Gathered, charts_of, render
from code_verifier.page.extra import require_report
from code_verifier.rows.fields import Row, id_of, program_of
from code_verifier.rows.jsonl import open_rows
from code_verifier.rows.results import save_text

_PROGRAM = "_program"
"""The key under which a result carries its program's text, where asked."""
_CARRIED = ("step", "kind", "teacher", "student", "member")
"""Fields that pass from a row to its result."""


@click.command()
@job_options
@click.option("--html", type=INPUT, help="HTML page to write, with distributions and trends.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write every chart into this folder, as SVG and PNG.",
)
@workers
@exit_code
def metrics(job: Job, html: Path | None, save: Path | None, workers: int) -> int:
    """Measure programs; rows that do not parse get an "error" instead of numbers."""
    gathered = Gathered(job.rows.name)
    if html is not None or save is not None:
        require_report()

    def run(items: Iterable[Row]) -> Iterator[Row]:
        one = partial(usable, partial(_measure_row, keep=html is not None))
        for result in process_map(one, items, workers):
            program = result.pop(_PROGRAM, "")
            found = _metrics_of(result)
            if found is not None:
                gathered.metrics.append(found)
                gathered.steps.append(_step_of(result))
                if program:
                    gathered.examples.setdefault(found.structure, program)
            yield result

    counts = run_job(job, run, "error")
    unparsed = counts.total() - counts["None"]
    print_summary(gathered.metrics, unparsed, job.as_json)
    if html is not None:
        save_text(render(gathered, unparsed), html)
    if save is not None:
        from code_verifier.report import save_charts

        save_charts(charts_of(gathered), save)
    return 0


@click.command()
@click.argument("tasks", type=INPUT)
@click.option("--top", type=click.IntRange(min=0), default=5, show_default=True)
@workers
@on_error
@as_json
@exit_code
def coverage(tasks: Path, top: int, on_error: str, as_json: bool, workers: int) -> int:
    """Count the different structures of a task set, and how evenly they are used.

    Three views, from fine to coarse: the structure of a program, the set of syntax it uses, the
    set of modules it imports.
    """
    found = list(_results(tasks, _traits_row, on_error, workers))
    usable = [row for row in found if "error" not in row]
    unparsed = len(found) - len(usable)
    programs = [row[_PROGRAM] for row in usable]
    views = {trait: coverage_of([row[trait] for row in usable], programs, top) for trait in TRAITS}
    if as_json:
        counts = {"programs": len(usable), "unparsed": unparsed}
        click.echo(json.dumps(counts | {trait: asdict(view) for trait, view in views.items()}))
        return 0
    click.echo(f"{len(usable)} programs, {unparsed} not measurable")
    for trait, view in views.items():
        print_coverage(trait, view)
    return 0


@click.command()
@click.argument("left", type=INPUT)
@click.argument("right", type=INPUT)
@workers
@on_error
@as_json
@exit_code
def compare(left: Path, right: Path, on_error: str, as_json: bool, workers: int) -> int:
    """Compare the programs of two task sets, number by number and structure by structure."""
    sides = []
    for path in (left, right):
        found = map(_metrics_of, _results(path, _measure_row, on_error, workers))
        usable = [item for item in found if item is not None]
        if not usable:
            raise CodeVerifierError(f"{path}: no program can be measured; expected one or more")
        sides.append(usable)
    contrast = compare_sets(*sides)
    if as_json:
        click.echo(json.dumps(asdict(contrast)))
    else:
        print_contrast(contrast)
    return 0


def _results(path: Path, one: Callable[[Row], Row], on_error: str, workers: int) -> Iterator[Row]:
    """The results of a file's rows; a bad row stops the command or is named and left out."""
    skip = tell if on_error == "skip" else None
    with open_rows(path) as source:
        for result in process_map(partial(usable, one), source.rows(skip), workers):
            problem = result.get("bad_row")
            if problem is None:
                yield result
            elif skip is None:
                raise CodeVerifierError(f"{source.name}, {problem}")
            else:
                skip(f"{source.name}, {problem}")


def _measure_row(row: Row, keep: bool = False) -> Row:
    """`{"id", "step"?, ..., "ast_depth", ...}`, or `{"id", "error"}` for what does not parse."""
    found = _described(row, measure, keep)
    return {"id": id_of(row)} | {name: row[name] for name in _CARRIED if name in row} | found


def _traits_row(row: Row) -> Row:
    """The traits of a row's program and the program, or `{"error"}`."""
    return _described(row, traits, keep=True)


def _described(row: Row, describe: Callable[[str], Any], keep: bool) -> Row:
    program = program_of(row)
    try:
        found: Row = asdict(describe(program))
    except ProgramError as error:
        return {"error": str(error)}
    return found | {_PROGRAM: program} if keep else found


def _metrics_of(result: Row) -> Metrics | None:
    """The Metrics in a result of `_measure_row`, if it has any."""
    if "structure" not in result:
        return None
    return Metrics(**{field.name: result[field.name] for field in fields(Metrics)})


def _step_of(result: Row) -> float | None:
    """The step that a row carries, if it is a number."""
    step: Any = result.get("step")
    usable = isinstance(step, int | float) and not isinstance(step, bool) and math.isfinite(step)
    return float(step) if usable else None
