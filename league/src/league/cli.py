"""The `league` command."""

from pathlib import Path
from typing import Any

import click

import league as package
from league.analysis.ranks import RankInterval, rank_intervals
from league.cli_analysis import COMMANDS as ANALYSIS
from league.cli_frame import (
    as_json_option,
    league_directory,
    one_line_errors,
    open_league,
    print_json,
)
from league.cli_games import COMMANDS as GAMES
from league.cli_replay import COMMANDS as REPLAY
from league.cli_report import COMMANDS as REPORT
from league.cli_simulate import COMMANDS as SIMULATE
from league.member import ROLES
from league.rating import Rating
from league.tables import table


@click.group()
@click.version_option(package.__version__, prog_name="league")
def main() -> None:
    """Ratings, matchmaking and replacement for two populations."""


for _command in (*ANALYSIS, *GAMES, *REPLAY, *REPORT, *SIMULATE):
    main.add_command(_command)


@main.command()
@league_directory
@click.option("--role", type=click.Choice(ROLES), help="Only this role.")
@as_json_option
@one_line_errors
def board(directory: Path, role: str | None, as_json: bool) -> None:
    """Show who stands where in the league of DIRECTORY, best first."""
    opened = open_league(directory)
    boards = {r: opened.leaderboard(r) for r in ([role] if role else ROLES)}
    ranks: dict[str, RankInterval] = {}
    for rows_of_role in boards.values():
        ratings = {row.member: Rating(row.mu, row.sigma) for row in rows_of_role}
        draws = min(2000, max(200, 1_000_000 // len(ratings)))
        ranks |= rank_intervals(ratings, seed=opened.config.seed, draws=draws)
    if as_json:
        print_json(
            {
                r: [row.to_json() | {"ranks": ranks[row.member].to_json()} for row in rows]
                for r, rows in boards.items()
            }
        )
        return
    header = (
        "role member slot mu sigma lower ranks matches solved valid unsolved reward age parents"
    )
    rows = [
        (
            s.role,
            s.member,
            s.slot,
            s.mu,
            s.sigma,
            s.conservative,
            f"{ranks[s.member].low}-{ranks[s.member].high}",
            s.matches,
            s.mean_solve_rate,
            s.valid_rate,
            s.unsolved_rate,
            s.mean_reward,
            s.age,
            " + ".join(s.parents),
        )
        for rows in boards.values()
        for s in rows
    ]
    click.echo(table(header.split(), rows))
    click.echo(
        f"\nRanked by {opened.config.fitness}; ranks: where the skill itself stands with 95 % "
        "probability.\nTeachers' and students' ratings are relative to each other: both sides may "
        "improve while neither\ncurve moves."
    )


@main.command()
@league_directory
@click.option(
    "--what",
    type=click.Choice(["observed", "blended", "tasks"]),
    default="observed",
    show_default=True,
    help="Solve rate as played, as expected by matchmaking, or how many tasks it rests on.",
)
@as_json_option
@one_line_errors
def matrix(directory: Path, what: str, as_json: bool) -> None:
    """Show teachers against students; a dot where two have never met."""
    payoff = open_league(directory).payoff()
    if as_json:
        print_json(payoff.to_json())
        return
    cells: Any = getattr(payoff, what)
    rows = [(name, *row) for name, row in zip(payoff.teachers, cells, strict=True)]
    click.echo(table(("teacher", *payoff.students), rows))
