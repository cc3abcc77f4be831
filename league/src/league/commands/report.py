"""The verb `report` of the `league` command."""

from pathlib import Path

import click

from league.commands.options import as_json_option, league_directory, open_league, since_option
from league.commands.output import print_json
from league.pages.gathered import gather
from league.pages.page import page
from league.pages.saving import save
from league.pages.summary import summary


@click.command("report")
@league_directory
@click.option("--html", type=click.Path(path_type=Path), help="Write the page to this file.")
@click.option("--top", default=32, show_default=True, help="Members a side in matrices and games.")
@since_option
@as_json_option
def report_command(directory: Path, html: Path | None, top: int, since: int, as_json: bool) -> None:
    """Sum up the league of DIRECTORY, in text and as one HTML page without scripts."""
    gathered = gather(open_league(directory), top=top, since=since)
    if html is not None:
        save(page(gathered), html)
    if as_json:
        print_json(gathered.to_dict())
        return
    click.echo(summary(gathered))
    if html is not None:
        click.echo(f"\nwrote {click.format_filename(html)}")
