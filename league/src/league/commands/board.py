"""The verbs `board`, `matrix` and `report`: who stands where, who met whom, and all of it."""

from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from league.commands.options import as_json_option, league_directory, open_league, since_option
from league.commands.output import print_json, print_table
from league.pages.gathered import board_ranks, gather, ranked_boards
from league.pages.page_file import save
from league.pages.summary import summary
from league.state.records import ROLES

_HEADER = "role member slot mu sigma lower ranks matches solved valid unsolved reward age parents"
_SKILL = attrgetter("role", "member", "slot", "mu", "sigma", "conservative")
_COUNTS = attrgetter(
    *("matches", "mean_solve_rate", "valid_rate", "unsolved_rate", "mean_reward", "age")
)


@click.command("board")
@league_directory
@click.option("--role", type=click.Choice(ROLES), help="Only this role.")
@as_json_option
def board_command(directory: Path, role: str | None, as_json: bool) -> None:
    """Show who stands where in the league of DIRECTORY, best first."""
    opened = open_league(directory)
    boards = {r: opened.leaderboard(r) for r in ([role] if role else ROLES)}
    ranks = board_ranks(boards.values(), seed=opened.config.seed)
    if as_json:
        print_json(ranked_boards(boards, ranks))
        return
    rows = [
        (
            *_SKILL(row),
            f"{ranks[row.member].low}-{ranks[row.member].high}",
            *_COUNTS(row),
            " + ".join(row.parents),
        )
        for board in boards.values()
        for row in board
    ]
    print_table(_HEADER.split(), rows)
    click.echo(
        f"\nRanked by {opened.config.fitness}; ranks: where the skill itself stands with 95 % "
        "probability.\nTeachers' and students' ratings are relative to each other: both sides may "
        "improve while neither\ncurve moves."
    )


@click.command("matrix")
@league_directory
@click.option(
    "--what",
    type=click.Choice(["observed", "blended", "tasks"]),
    default="observed",
    show_default=True,
    help="Solve rate as played, as expected by matchmaking, or how many tasks it rests on.",
)
@as_json_option
def matrix_command(directory: Path, what: str, as_json: bool) -> None:
    """Show teachers against students; a dot where two have never met."""
    payoff = open_league(directory).payoff()
    if as_json:
        print_json(payoff.to_dict())
        return
    cells: Any = getattr(payoff, what)
    rows = [(name, *row) for name, row in zip(payoff.teachers, cells, strict=True)]
    print_table(("teacher", *payoff.students), rows)


@click.command("report")
@league_directory
@click.option("--html", type=click.Path(path_type=Path), help="Write the page to this file.")
@click.option(
    "--save",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write every chart into this folder, as SVG and PNG.",
)
@click.option("--top", default=32, show_default=True, help="Members a side in matrices and games.")
@since_option
@as_json_option
def report_command(
    directory: Path, html: Path | None, folder: Path | None, top: int, since: int, as_json: bool
) -> None:
    """Sum up the league of DIRECTORY, in text and as one HTML page that works offline."""
    gathered = gather(open_league(directory), top=top, since=since)
    if html is not None or folder is not None:
        from league.report import charts_of, page, save_charts  # slow to import, and an extra

        if html is not None:
            save(page(gathered), html)
        if folder is not None:
            save_charts(charts_of(gathered), folder)
    if as_json:
        print_json(gathered.to_dict())
        return
    click.echo(summary(gathered))
    if html is not None:
        click.echo(f"\nwrote {click.format_filename(html)}")
    if folder is not None:
        click.echo(f"\nwrote the charts into {click.format_filename(folder)}")
