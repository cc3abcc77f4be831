"""The verb `report` of the `league` command."""

from pathlib import Path

import click

from league.cli_frame import (
    as_json_option,
    league_directory,
    one_line_errors,
    open_league,
    print_json,
    since_option,
)
from league.report.gathered import gather
from league.report.page import page
from league.report.saving import save
from league.report.summary import summary


@click.command("report")
@league_directory
@click.option("--html", type=click.Path(path_type=Path), help="Write the page to this file.")
@click.option("--top", default=32, show_default=True, help="Members a side in matrices and games.")
@since_option
@as_json_option
@one_line_errors
def report_command(directory: Path, html: Path | None, top: int, since: int, as_json: bool) -> None:
    """Sum up the league of DIRECTORY, in text and as one HTML page without scripts."""
    gathered = gather(open_league(directory), top=top, since=since)
    if html is not None:
        save(page(gathered), html)
    if as_json:
        print_json(gathered.to_json())
        return
    click.echo(summary(gathered))
    if html is not None:
        click.echo(f"\nwrote {click.format_filename(html)}")


COMMANDS = (report_command,)
