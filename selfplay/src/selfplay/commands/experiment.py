"""`selfplay experiment` and `selfplay compare`."""

import sys
from pathlib import Path

import click

from selfplay.console import one_line_errors

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("plan")
@click.option("--out", required=True, type=PATH, help="A directory; an existing one is continued.")
@click.option(
    "--workers", default=2, show_default=True, type=click.IntRange(1), help="Runs at once."
)
@click.option(
    "--nice",
    default=10,
    show_default=True,
    type=click.IntRange(0, 19),
    help="Runs give way to others.",
)
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Any key of all arms.")
@click.option("--quiet", is_flag=True, help="No progress display.")
def experiment(
    plan: str, out: Path, workers: int, nice: int, assignments: tuple[str, ...], quiet: bool
) -> None:
    """Make all runs of PLAN, a YAML file or the name of a shipped plan.

    What is done stays done: the same command goes on after any interruption.
    """
    with one_line_errors():
        from selfplay.experiment.design.plan_file import open_plan
        from selfplay.experiment.running.runner import PLAN, run_experiment

        again = f"go on with `selfplay experiment {out / PLAN} --out {out}`"
        try:
            chosen = open_plan(plan, assignments)
            failed = run_experiment(chosen, out, workers=workers, nice=nice, quiet=quiet)
        except KeyboardInterrupt:
            click.echo(f"selfplay: interrupted; nothing is lost: {again}", err=True)
            sys.exit(130)
        for line in failed:
            click.echo(f"selfplay: {line}", err=True)
        if failed:
            click.echo(
                f"selfplay: {len(failed)} failed; mend or remove them, then {again}", err=True
            )
            sys.exit(1)
        click.echo(f"done: {out}; see it with `selfplay compare {out} --html page.html`")


@click.command()
@click.argument("places", nargs=-1, required=True, type=PATH, metavar="DIR|RUN...")
@click.option("--html", "page", type=PATH, help="Write one self-contained page.")
@click.option(
    "--save",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write every chart into this folder, as SVG and PNG.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON.")
@click.option("--markdown", is_flag=True, help="Print Markdown tables.")
def compare(
    places: tuple[Path, ...], page: Path | None, folder: Path | None, as_json: bool, markdown: bool
) -> None:
    """Set arms against each other: an experiment's directory, or any runs.

    Runs whose settings differ in nothing but the seed are one arm.
    """
    with one_line_errors():
        from selfplay.experiment.evidence.texts import compare as compared
        from selfplay.experiment.evidence.texts import to_json, to_text
        from selfplay.experiment.evidence.trials import open_trials

        comparison = compared(*open_trials(places))
        if page is not None or folder is not None:
            from selfplay.experiment.evidence.page import save_comparison_charts, write_page

        if folder is not None:
            save_comparison_charts(comparison, folder)
            click.echo(f"charts: {folder}", err=True)
        if page is not None:
            write_page(comparison, page)
            click.echo(f"page: {page}", err=True)
        click.echo(to_json(comparison) if as_json else to_text(comparison, markdown=markdown))
