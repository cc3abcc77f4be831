"""The verbs of the `league` command about the game of teachers against students."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from league.commands.options import (
    as_json_option,
    league_directory,
    open_history,
    replaced_option,
    seed_option,
    since_option,
    top_option,
)
from league.commands.output import MANY, MORE, first_rows, print_json, print_notes, print_table
from league.drawing.text_table import Cell
from league.games.alpha_rank import LIMIT, alpha_rank
from league.games.diversity import diversity
from league.games.game import FILL, game
from league.games.interaction import interaction
from league.games.nash import nash


def _game_options(top: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of `game`, in the order in which help shows them."""
    fill = click.option(
        "--fill",
        type=click.Choice([FILL]),
        help="Put the ratings' prediction where two have never met.",
    )
    return lambda command: top_option(top)(since_option(replaced_option(fill(command))))


@click.command("interaction")
@league_directory
@top_option(32)
@since_option
@replaced_option
@seed_option
@as_json_option
def interaction_command(directory: Path, as_json: bool, **chosen: Any) -> None:
    """Test whether one number per member is enough, or the league has cycles."""
    found = interaction(open_history(directory), **chosen)
    if as_json:
        print_json(found.to_dict())
        return
    verdict = "an interaction is there" if found.found else "no interaction is shown"
    click.echo(
        f"{verdict}: p = {found.p_value:.3f}; it is {found.share:.0%} of the variance between "
        f"{found.pairs} pairs"
    )
    if found.members:
        click.echo(f"made by: {', '.join(found.members)}")
    if found.oddities:
        rows = [(x.teacher, x.student, x.observed, x.fitted, x.z) for x in found.oddities]
        click.echo()
        print_table(("teacher", "student", "observed", "by strength", "z"), rows)
    print_notes(found.notes)


@click.command("nash")
@league_directory
@_game_options(256)
@as_json_option
def nash_command(directory: Path, as_json: bool, **chosen: Any) -> None:
    """Rate members against the strongest mixture of the other side (Nash averaging)."""
    found = nash(game(open_history(directory), **chosen))
    if as_json:
        print_json(found.to_dict())
        return
    sides = (("teacher", found.teachers), ("student", found.students))
    rows = [
        (role, x.member, x.weight, x.share)
        for role, side in sides
        for x in first_rows(side, sorted(side, key=lambda x: -x.weight))
    ]
    print_table(("role", "member", "weight", "students' share against the mixture"), rows)
    click.echo(
        f"\nvalue {found.value:.4f} (the students' share), gap {found.gap:.1e}. Against everybody "
        f"equally often, the best single\nteacher gains {found.uniform.teacher_gain:.3f} and the "
        f"best single student {found.uniform.student_gain:.3f}."
    )
    print_notes(found.notes)
    if any(len(side) > MANY for _role, side in sides):
        click.echo(MORE)


@click.command("alpha-rank")
@league_directory
@_game_options(LIMIT)
@click.option("--alpha", type=float, help="Selection strength  [default: infinite]")
@as_json_option
def alpha_rank_command(directory: Path, alpha: float | None, as_json: bool, **chosen: Any) -> None:
    """Show how often evolution by mutants would visit each member (alpha-rank)."""
    found = alpha_rank(game(open_history(directory), **chosen), alpha=alpha)
    if as_json:
        print_json(found.to_dict())
        return
    sides = (
        ("teacher", found.teachers, found.teacher_mass),
        ("student", found.students, found.student_mass),
    )
    rows = [
        (role, name, mass)
        for role, names, masses in sides
        for name, mass in zip(names, masses, strict=True)
    ]
    print_table(("role", "member", "share of time"), rows, found.notes)


@click.command("diversity")
@league_directory
@_game_options(64)
@seed_option
@as_json_option
def diversity_command(directory: Path, seed: int, as_json: bool, **chosen: Any) -> None:
    """Count the effectively different members of each role, by what they win and lose."""
    found = diversity(game(open_history(directory), **chosen), seed=seed)
    if as_json:
        print_json(found.to_dict())
        return
    rows: list[tuple[Cell, ...]] = [
        ("teacher", found.teacher_count, found.teachers, found.teachers_alike),
        ("student", found.student_count, found.students, found.students_alike),
    ]
    print_table(("role", "members", "effective number", "if all were alike"), rows, found.notes)
