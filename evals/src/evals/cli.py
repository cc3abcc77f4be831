"""The `evals` command."""

import json
from dataclasses import asdict

import click

from evals import __version__
from evals.commands.doctor import diagnose
from evals.commands.grade import grade
from evals.commands.listing import list_benchmarks
from evals.commands.options import as_json as json_option
from evals.commands.options import clean_exit
from evals.commands.report import report
from evals.commands.run import run


@click.group()
@click.version_option(__version__, prog_name="evals")
def main() -> None:
    """Run benchmarks on saved LoRA adapters."""


@main.command()
@json_option
@clean_exit
def doctor(as_json: bool) -> int:
    """Say what is installed, which device and sandbox there are, and what is wrong."""
    found = diagnose()
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return 1 if found.problems else 0
    for name, number in found.versions.items():
        click.echo(f"{name:14} {number}")
    click.echo(f"{'device':14} {found.device}")
    for layer, active in found.layers.items():
        click.echo(f"{'sandbox':14} {layer} {'active' if active else 'MISSING'}")
    for problem in found.problems:
        click.echo(f"problem: {problem}", err=True)
    return 1 if found.problems else 0


for command in (list_benchmarks, run, grade, report):
    main.add_command(command)
