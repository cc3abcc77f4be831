"""The `league` command."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import league as package
from league import store
from league.cli_frame import (
    as_json_option,
    league_directory,
    one_line_errors,
    open_league,
    print_json,
)
from league.config import MATCHERS, LeagueConfig
from league.member import ROLES
from league.simulate import Simulation, SimulationResult, simulate
from league.tables import table


@click.group()
@click.version_option(package.__version__, prog_name="league")
def main() -> None:
    """Ratings, matchmaking and replacement for two populations."""


@main.command()
@league_directory
@click.option("--role", type=click.Choice(ROLES), help="Only this role.")
@as_json_option
@one_line_errors
def board(directory: Path, role: str | None, as_json: bool) -> None:
    """Show who stands where in the league of DIRECTORY, best first."""
    opened = open_league(directory)
    boards = {r: opened.leaderboard(r) for r in ([role] if role else ROLES)}
    if as_json:
        print_json({r: [row.to_json() for row in rows] for r, rows in boards.items()})
        return
    header = "role member slot mu sigma lower matches solved valid unsolved reward age parents"
    rows = [
        (
            s.role,
            s.member,
            s.slot,
            s.mu,
            s.sigma,
            s.conservative,
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
        f"\nRanked by {opened.config.fitness}. Teachers' and students' ratings are relative to "
        "each other: both sides may improve while neither curve moves."
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


@main.command()
@league_directory
@as_json_option
@one_line_errors
def replay(directory: Path, as_json: bool) -> None:
    """Rebuild the state from the event log alone and compare; exit code 1 if it differs."""
    opened = open_league(directory)
    log = directory / store.EVENTS
    whole = log.read_bytes()[: opened.byte_length]
    rebuilt = store.replayed(opened.config, whole, log)
    equal = rebuilt.to_json() == opened.state.to_json()
    summary = {
        "events": rebuilt.events,
        "rounds": len(rebuilt.rounds),
        "matches": len(rebuilt.outcomes),
        "replacements": len(rebuilt.replacements),
        "equal": equal,
    }
    if as_json:
        print_json(summary)
    else:
        click.echo(table(tuple(summary), [tuple(str(value) for value in summary.values())]))
    if not equal:
        click.echo(f"league: {directory}: the snapshot does not follow from the log", err=True)
        sys.exit(1)


@main.command(name="simulate")
@click.option("--teachers", default=4, show_default=True)
@click.option("--students", default=4, show_default=True)
@click.option("--rounds", default=60, show_default=True)
@click.option("--tasks", default=16, show_default=True, help="Tasks per match.")
@click.option("--rollouts", default=8, show_default=True, help="Attempts per task.")
@click.option("--worlds", default=8, show_default=True, help="Repetitions with other truths.")
@click.option("--drift", type=float, help="How far a true skill moves per round  [default: tau]")
@click.option("--tau", type=float, help="How far the model believes it moves  [default: 0.083]")
@click.option("--matcher", type=click.Choice(MATCHERS), default="sampled", show_default=True)
@click.option("--seed", default=0, show_default=True)
@as_json_option
@one_line_errors
def simulate_command(
    teachers: int,
    students: int,
    rounds: int,
    tasks: int,
    rollouts: int,
    worlds: int,
    drift: float | None,
    tau: float | None,
    matcher: str,
    seed: int,
    as_json: bool,
) -> None:
    """Rate members whose true skills are known, in a sound league and with a broken teacher."""
    config = LeagueConfig(seed=seed, matcher=matcher)
    config = config if tau is None else replace(config, tau=tau)
    world = Simulation(
        teachers=teachers,
        students=students,
        rounds=rounds,
        tasks=tasks,
        rollouts=rollouts,
        worlds=worlds,
        drift=drift,
        seed=seed,
        config=config,
    )
    results = {"sound": simulate(world)}
    if teachers > 1:
        results["one broken teacher"] = simulate(replace(world, broken=True))
    if as_json:
        print_json({name: result.to_json() for name, result in results.items()})
        return
    header = ("league", "RMSE", "coverage", "bias", "broken last")
    click.echo(table(header, [_row(name, result) for name, result in results.items()]))
    click.echo(
        "\nRMSE of the predicted solve rate; share of true skill gaps inside 95 % intervals; "
        "relative\noverspread of gaps; share of worlds in which the broken teacher ends last."
    )


def _row(name: str, result: SimulationResult) -> tuple[str, ...]:
    last = "·" if result.broken_last is None else f"{result.broken_last:.2f}"
    return (name, f"{result.rmse:.3f}", f"{result.coverage:.3f}", f"{result.bias:+.3f}", last)
