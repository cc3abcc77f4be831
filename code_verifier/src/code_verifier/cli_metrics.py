"""`code-verifier metrics`: the structure of programs."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from code_verifier.commands import clean_exit, job_options, stream
from code_verifier.errors import ProgramError
from code_verifier.metrics import Metrics, measure
from code_verifier.rows import Row, id_of, program_of
from code_verifier.summary import summarise


@click.command()
@job_options
@clean_exit
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

    counts = stream(rows, out, on_error, lambda items: map(job, items), "error")
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
