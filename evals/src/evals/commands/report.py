"""`evals report`: finished results as tables and as a page."""

from pathlib import Path

import click

from evals.commands.options import as_json as json_option
from evals.commands.options import clean_exit
from evals.commands.showing import FORMATS, show
from evals.runs.results_table import find_results

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("folders", type=_PATH, nargs=-1, required=True)
@click.option("--html", "page", type=_PATH, help="Write one self-contained page.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write every chart into this folder, as SVG and PNG.",
)
@click.option(
    "--table",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="details: each result by level, with shares of ill form.",
)
@click.option("--baseline", help="An adapter that is no member of the population.")
@click.option("--k", type=click.IntRange(min=1), help="pass@k instead of the mean over samples.")
@click.option("--against", help="Also compare every adapter with this one, problem by problem.")
@json_option
@clean_exit
def report(
    folders: tuple[Path, ...],
    page: Path | None,
    save: Path | None,
    form: str,
    baseline: str | None,
    k: int | None,
    against: str | None,
    as_json: bool,
) -> int:
    """Show all finished results in or below folders: a table here, and a page with samples."""
    if page is not None or save is not None:
        from evals.report.page import save_score_charts, write_page
        from evals.report.scored_run import read_scored

        runs = read_scored(folders)
        if page is not None:
            write_page(runs, page)
            click.echo(f"report: {page}", err=True)
        if save is not None:
            save_score_charts(runs, save)
            click.echo(f"charts: {save}", err=True)
    return show(find_results(folders), folders, as_json, form, baseline, k, against)
