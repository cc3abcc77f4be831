"""The verbs of the `league` command about the game of teachers against students."""

from typing import Any

import click

from league.commands.options import (
    Option,
    analysis_command,
    replaced_option,
    seed_option,
    since_option,
    top_option,
)
from league.commands.output import MANY, MORE, first_rows, print_notes, print_table
from league.games.alpha_rank import LIMIT, AlphaRank, alpha_rank
from league.games.diversity import Diversity, diversity
from league.games.game import FILL, game
from league.games.interaction import Interaction, interaction
from league.games.nash import Nash, nash
from league.history.history import History

_fill = click.option(
    "--fill",
    type=click.Choice([FILL]),
    help="Put the ratings' prediction where two have never met.",
)
_alpha = click.option("--alpha", type=float, help="Selection strength  [default: infinite]")


def _game_options(top: int) -> tuple[Option, ...]:
    return top_option(top), since_option, replaced_option, _fill


def _nash(past: History, **chosen: Any) -> Nash:
    return nash(game(past, **chosen))


def _alpha_rank(past: History, alpha: float | None, **chosen: Any) -> AlphaRank:
    return alpha_rank(game(past, **chosen), alpha=alpha)


def _diversity(past: History, seed: int, **chosen: Any) -> Diversity:
    return diversity(game(past, **chosen), seed=seed)


@analysis_command(
    "interaction", interaction, top_option(32), since_option, replaced_option, seed_option
)
def interaction_command(found: Interaction) -> None:
    """Test whether one number per member is enough, or the league has cycles."""
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


@analysis_command("nash", _nash, *_game_options(256))
def nash_command(found: Nash) -> None:
    """Rate members against the strongest mixture of the other side (Nash averaging)."""
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


@analysis_command("alpha-rank", _alpha_rank, *_game_options(LIMIT), _alpha)
def alpha_rank_command(found: AlphaRank) -> None:
    """Show how often evolution by mutants would visit each member (alpha-rank)."""
    teachers = zip(found.teachers, found.teacher_mass, strict=True)
    students = zip(found.students, found.student_mass, strict=True)
    rows = [("teacher", *row) for row in teachers] + [("student", *row) for row in students]
    print_table(("role", "member", "share of time"), rows, found.notes)


@analysis_command("diversity", _diversity, *_game_options(64), seed_option)
def diversity_command(found: Diversity) -> None:
    """Count the effectively different members of each role, by what they win and lose."""
    rows = [
        ("teacher", found.teacher_count, found.teachers, found.teachers_alike),
        ("student", found.student_count, found.students, found.students_alike),
    ]
    print_table(("role", "members", "effective number", "if all were alike"), rows, found.notes)
