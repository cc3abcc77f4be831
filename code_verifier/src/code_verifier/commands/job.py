"""A job: rows of one file, each turned into a row of another, in order."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout

import click

from code_verifier.commands.options import Job
from code_verifier.commands.terminal import progress, tell
from code_verifier.errors import RecordError
from code_verifier.rows.fields import Row, id_of
from code_verifier.rows.jsonl import open_rows
from code_verifier.rows.results import ResultFile, open_results

_GOOD = {"status": "ok", "score": "1.0", "error": "None"}

Run = Callable[[Iterable[Row]], Iterable[Row]]
Check = Callable[[Row], object]


def run_job(
    job: Job, run: Run, counted: str = "status", resume: bool = False, check: Check = id_of
) -> Counter[str]:
    """Read, run and write row by row; finished rows are kept whatever happens.

    Returns how often each value of the field `counted` was written. resume: rows that an earlier
    run finished are not run again; `check` raises RecordError for an input row that has no
    result because it is bad.
    """
    counts: Counter[str] = Counter()
    context = click.get_current_context()
    with (
        open_rows(job.rows) as source,
        open_results(job.out, job.rows, resume, tell) as results,
        progress(str(context.info_name), source.count_lines, job.quiet) as shown,
    ):
        skip = shown.note if job.on_error == "skip" else None

        def refuse(problem: str) -> None:
            if skip is None:
                raise RecordError(f"{source.name}, {problem}")
            skip(f"{source.name}, {problem}")

        def count(row: Row, earlier: bool) -> None:
            value = str(row.get(counted))
            counts[value] += 1
            shown.step(value == _GOOD[counted], earlier)

        items = source.rows(skip)
        for kept in _resumed(results, items, check, refuse):
            count(kept, True)
        for result in run(items):
            if "bad_row" in result:
                refuse(result["bad_row"])
                continue
            results.write(result)
            count(result, False)
    if str(job.out) == "-":  # the rows have standard output for themselves
        context.with_resource(redirect_stdout(sys.stderr))
    return counts


def usable(one: Callable[[Row], Row], row: Row) -> Row:
    """The result of a row; `{"bad_row": why}` for one that cannot be used."""
    try:
        return one(row)
    except RecordError as error:
        return {"bad_row": f"line {row['_line']}: {error}"}


def _resumed(
    results: ResultFile, items: Iterator[Row], check: Check, refuse: Callable[[str], None]
) -> Iterator[Row]:
    """The finished rows, each after its input row was taken from `items`. They belong to the usable
    input rows in order; another id shows that the input is another."""
    for number, kept in enumerate(results.kept(), 1):
        found: object = "nothing more"
        for row in items:
            try:
                check(row)
            except RecordError as error:
                refuse(f"line {row['_line']}: {error}")
                continue
            found = repr(id_of(row))
            break
        if found != repr(kept["id"]):
            raise RecordError(
                f"cannot resume: finished row {number} has the id {kept['id']!r}, but the input "
                f"has {found} there; resume with the same input and the same --on-error, or leave "
                "--resume out to start again"
            )
        yield kept
