"""`code-verifier check` and `grade`: rows of a file through the sandbox."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from code_verifier.commands.exits import exit_code
from code_verifier.commands.job import Run, run_job, usable
from code_verifier.commands.options import (
    Finite,
    Job,
    SandboxOptions,
    job_options,
    number_option,
    sandbox_options,
)
from code_verifier.commands.terminal import print_table, tell
from code_verifier.errors import RecordError
from code_verifier.literals.canonical import canonical
from code_verifier.literals.comparison import Comparison
from code_verifier.literals.literal import parse_literal
from code_verifier.rows.fields import Row, id_of, program_of, text_field, text_list
from code_verifier.sandbox.parallel import ordered_map
from code_verifier.sandbox.pool import HASH_SEEDS
from code_verifier.sandbox.sandbox import Sandbox
from code_verifier.tasks.grading import gold_value
from code_verifier.tasks.outcomes import Status, Verdict
from code_verifier.tasks.task import Task

_RUNS = click.IntRange(2, len(HASH_SEEDS))


@click.command()
@job_options
@sandbox_options
@number_option("--runs", _RUNS, 2, "Executions of each program that must agree.")
@exit_code
def check(job: Job, options: SandboxOptions, runs: int) -> int:
    """Check that programs are valid and deterministic.

    ROWS holds {"id"?, "program", "input"} or Absolute Zero's {"snippet", "input", "imports"};
    `inputs`, a list, may stand for `input`. Written are, in the same order, {"id", "status",
    "output", "reason", "wall_ms", "runs"}; a row without an id gets its line number.
    """
    with options.open(runs) as sandbox:
        run = _parallel(partial(_checked, sandbox), options.workers)
        counts = run_job(job, run, resume=options.resume, check=_check_request)
    _print_counts(counts, "status", job.as_json, counts.total())
    return 1 if counts["sandbox_error"] else 0


@click.command()
@job_options
@sandbox_options
@click.option("--python-equality", is_flag=True, help="1, 1.0 and True are equal.")
@number_option("--tolerance", Finite(0.0, 1.0), 0.0, "Relative and absolute tolerance of floats.")
@exit_code
def grade(job: Job, options: SandboxOptions, python_equality: bool, tolerance: float) -> int:
    """Grade answers to tasks of the three kinds.

    ROWS holds {"id", "kind", "answer"} and, for code_o, "output"; for code_i, "program" and
    "output"; for code_f, "inputs", "outputs" and "visible"?, the number of leading pairs that
    are not judged. Written are, in the same order, {"id", "score", "reason", "status",
    "passed"?, "total"?}. An answer that the sandbox failed to judge has the status sandbox_error
    and the score null, is counted as ungraded, and the exit code is 1.
    """
    with options.open(comparison=Comparison(not python_equality, tolerance)) as sandbox:
        run = _parallel(partial(_graded, sandbox), options.workers)
        counts = run_job(job, run, "score", options.resume, _grade_request)
    total, ungraded = counts.total(), counts.pop("None", 0)
    _print_counts(counts, "score", job.as_json, total, ungraded=ungraded)
    if ungraded:
        tell(f"error: {ungraded} of {total} rows could not be graded: the sandbox failed")
    return 1 if ungraded else 0


def _parallel(one: Callable[[Row], Row], workers: int) -> Run:
    return lambda items: ordered_map(partial(usable, one), items, workers)


def _check_request(row: Row) -> tuple[str, tuple[str, ...], bool]:
    """Program, inputs, and whether they are a list. Raises RecordError."""
    id_of(row)
    program = program_of(row)
    if row.get("input") is None and row.get("inputs") is not None:
        inputs = text_list(row, "inputs")
        if not inputs:
            raise RecordError("field 'inputs' is empty; expected at least one input")
        return program, inputs, True
    return program, (text_field(row, "input", "inputs"),), False


def _checked(sandbox: Sandbox, row: Row) -> Row:
    """The result of a row; one with `inputs` (AZR's code_f seeds) has a list of their outputs."""
    program, inputs, many = _check_request(row)
    verdict = _check_all(sandbox, program, inputs) if many else sandbox.check(program, inputs[0])
    return {"id": id_of(row)} | asdict(verdict) | {"wall_ms": round(verdict.wall_ms, 3)}


def _check_all(sandbox: Sandbox, program: str, inputs: tuple[str, ...]) -> Verdict:
    outputs: list[Any] = []
    wall_ms, runs = 0.0, 0
    for number, verdict in enumerate(sandbox.iter_check(program, inputs), 1):
        wall_ms, runs = max(wall_ms, verdict.wall_ms), runs + verdict.runs
        if verdict.output is None:
            reason = f"input {number}: {verdict.reason}"
            return Verdict(verdict.status, None, reason, wall_ms, runs)
        outputs.append(parse_literal(verdict.output))
    text = canonical(outputs, max_chars=len(inputs) * (2 + sandbox.limits.output_chars) + 2)
    return Verdict(Status.OK, text, "", wall_ms, runs)


def _grade_request(row: Row) -> tuple[Task, str]:
    """Task and answer of a row. Raises RecordError when they are missing or cannot be judged."""
    id_of(row)
    task = Task.from_row(row)
    for gold in task.outputs if task.output is None else (task.output,):
        gold_value(gold)
    if task.kind == "code_f" and task.visible == len(task.inputs):
        raise RecordError("a code_f task needs at least one hidden example to be graded")
    return task, text_field(row, "answer")


def _graded(sandbox: Sandbox, row: Row) -> Row:
    task, answer = _grade_request(row)
    found = sandbox.grade(task, answer)
    score = found.score if found.judged else None
    result = {"id": id_of(row), "score": score, "reason": found.reason, "status": found.status}
    if found.total is not None:
        result |= {"passed": found.passed, "total": found.total}
    return result


def _print_counts(counts: Counter[str], name: str, as_json: bool, total: int, **more: int) -> None:
    if as_json:
        click.echo(json.dumps({"rows": total, name: dict(sorted(counts.items())), **more}))
        return
    click.echo(f"{total} rows")
    shown = [*counts.most_common(), *((key, number) for key, number in more.items() if number)]
    print_table([(key, str(n), f"{100.0 * n / total:.1f} %") for key, n in shown])
