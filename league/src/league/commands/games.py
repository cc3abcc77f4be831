"""The verbs of the `league` command about the game of teachers against students."""

from pathlib import Path

import click

from league.commands.options import (
    as_json_option,
    league_directory,
    open_history,
    seed_option,
    since_option,
)
from league.commands.output import MANY, MORE, first_rows, print_json, print_notes, print_table
from league.drawing.text_table import Cell
from league.games.alpha_rank import LIMIT, alpha_rank
from league.games.diversity import diversity
from league.games.game import FILL, Game, game
from league.games.interaction import interaction
from league.games.nash import nash

_fill = click.option(
    "--fill",
    type=click.Choice([FILL]),
    help="Put the ratings' prediction where two have never met.",
)
_replaced = click.option("--replaced", is_flag=True, help="Take former members too.")


@click.command("interaction")
@league_directory
@click.option("--top", default=32, show_default=True, help="How many members a side.")
@since_option
@_replaced
@seed_option
@as_json_option
def interaction_command(
    directory: Path, top: int, since: int, replaced: bool, seed: int, as_json: bool
) -> None:
    """Test whether one number per member is enough, or the league has cycles."""
    found = interaction(open_history(directory), top=top, since=since, replaced=replaced, seed=seed)
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
@click.option("--top", default=256, show_default=True, help="How many members a side.")
@since_option
@_replaced
@_fill
@as_json_option
def nash_command(
    directory: Path, top: int, since: int, replaced: bool, fill: str | None, as_json: bool
) -> None:
    """Rate members against the strongest mixture of the other side (Nash averaging)."""
    found = nash(_game(directory, top, since, replaced, fill))
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
@click.option("--top", default=LIMIT, show_default=True, help="How many members a side.")
@click.option("--alpha", type=float, help="Selection strength  [default: infinite]")
@since_option
@_replaced
@_fill
@as_json_option
def alpha_rank_command(
    directory: Path,
    top: int,
    alpha: float | None,
    since: int,
    replaced: bool,
    fill: str | None,
    as_json: bool,
) -> None:
    """Show how often evolution by mutants would visit each member (alpha-rank)."""
    found = alpha_rank(_game(directory, top, since, replaced, fill), alpha=alpha)
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
@click.option("--top", default=64, show_default=True, help="How many members a side.")
@since_option
@_replaced
@_fill
@seed_option
@as_json_option
def diversity_command(
    directory: Path,
    top: int,
    since: int,
    replaced: bool,
    fill: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Count the effectively different members of each role, by what they win and lose."""
    found = diversity(_game(directory, top, since, replaced, fill), seed=seed)
    if as_json:
        print_json(found.to_dict())
        return
    rows: list[tuple[Cell, ...]] = [
        ("teacher", found.teacher_count, found.teachers, found.teachers_alike),
        ("student", found.student_count, found.students, found.students_alike),
    ]
    print_table(("role", "members", "effective number", "if all were alike"), rows, found.notes)


def _game(directory: Path, top: int, since: int, replaced: bool, fill: str | None) -> Game:
    past = open_history(directory)
    return game(past, top=top, since=since, replaced=replaced, fill=fill)
