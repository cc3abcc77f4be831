"""`selfplay experiment` and `selfplay compare`."""

import sys
from pathlib import Path

import click

from selfplay.errors import one_line_errors

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("plan")
@click.option("--out", required=True, type=PATH, help="Directory; an existing one is resumed.")
@click.option("--workers", default=2, show_default=True, help="Runs made at the same time.")
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Change all arms.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def experiment(
    plan: str, out: Path, workers: int, assignments: tuple[str, ...], quiet: bool
) -> None:
    """Make all runs of PLAN, a YAML file or the name of a shipped plan; resume what is begun."""
    with one_line_errors():
        from selfplay.experiment import PLAN, open_plan, run_experiment

        again = f"resume with `selfplay experiment {out / PLAN} --out {out}`"
        try:
            chosen = open_plan(plan, assignments)
            failed = run_experiment(chosen, out, workers=workers, quiet=quiet)
        except KeyboardInterrupt:
            click.echo(f"error: interrupted; nothing is lost: {again}", err=True)
            sys.exit(130)
        for line in failed:
            click.echo(f"error: {line}", err=True)
        if failed:
            click.echo(f"error: {len(failed)} runs failed; after mending them {again}", err=True)
            sys.exit(1)
        click.echo(f"done: {out}; see it with `selfplay compare {out} --html page.html`")


@click.command()
@click.argument("places", nargs=-1, required=True, type=PATH, metavar="DIR|RUN...")
@click.option("--html", "page", type=PATH, help="Write one self-contained page.")
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON.")
def compare(places: tuple[Path, ...], page: Path | None, as_json: bool) -> None:
    """Compare the arms of an experiment's directory, or of any runs.

    Runs whose settings differ in nothing but the seed are one arm.
    """
    with one_line_errors():
        from selfplay import comparison

        found = comparison.compare(places)
        if page is not None:
            comparison.write_comparison(found, page)
            click.echo(f"page: {page}", err=True)
        click.echo(comparison.to_json(found) if as_json else comparison.to_text(found))
