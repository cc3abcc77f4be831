"""The analysis verbs of the `league` command."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import click

from league.analysis.alpha_rank import LIMIT, alpha_rank
from league.analysis.calibration import calibration
from league.analysis.diversity import diversity
from league.analysis.drift import drift
from league.analysis.game import FILL, Game, game
from league.analysis.generations import Cohort, generations
from league.analysis.history import History, history
from league.analysis.interaction import interaction
from league.analysis.nash import nash
from league.analysis.survival import survival
from league.cli_frame import (
    as_json_option,
    league_directory,
    one_line_errors,
    open_league,
    print_json,
)
from league.tables import Cell, table

_LINES = 20
_WIDTH = 95
_MANY = 64
_MORE = f"note: the first {_LINES} of each role are shown; --json has all"

T = TypeVar("T")

_fill = click.option(
    "--fill",
    type=click.Choice([FILL]),
    help="Put the ratings' prediction where two have never met.",
)
_since = click.option("--since", default=0, show_default=True, help="Leave out earlier rounds.")
_replaced = click.option("--replaced", is_flag=True, help="Take former members too.")
_seed = click.option("--seed", default=0, show_default=True, help="Of all random draws.")


@click.command("calibration")
@league_directory
@_since
@as_json_option
@one_line_errors
def calibration_command(directory: Path, since: int, as_json: bool) -> None:
    """Compare expected with observed shares of tasks, by tenths of the expectation."""
    found = calibration(_past(directory), since=since)
    if as_json:
        print_json(found.to_json())
        return
    rows = [
        (f"{x.low:.1f}-{x.high:.1f}", x.matches, x.tasks, x.predicted, x.observed)
        for x in found.deciles
    ]
    _print(("expected", "matches", "tasks", "mean expected", "observed"), rows)
    summary = [
        ("log-loss, nats per task", _number(found.log_loss)),
        ("  always expecting the mean", _number(found.log_loss_constant)),
        ("  knowing each result", _number(found.log_loss_best)),
        ("RMSE, chance included", _number(found.rmse)),
        ("bias, observed - expected", _number(found.bias)),
        ("inside 95 % intervals", _number(found.coverage)),
    ]
    click.echo()
    _print(("over all matches", "value"), summary, found.notes)


@click.command("interaction")
@league_directory
@click.option("--top", default=32, show_default=True, help="How many members a side.")
@_since
@_replaced
@_seed
@as_json_option
@one_line_errors
def interaction_command(
    directory: Path, top: int, since: int, replaced: bool, seed: int, as_json: bool
) -> None:
    """Test whether one number per member is enough, or the league has cycles."""
    found = interaction(_past(directory), top=top, since=since, replaced=replaced, seed=seed)
    if as_json:
        print_json(found.to_json())
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
        _print(("teacher", "student", "observed", "by strength", "z"), rows)
    _notes(found.notes)


@click.command("nash")
@league_directory
@click.option("--top", default=256, show_default=True, help="How many members a side.")
@_since
@_replaced
@_fill
@as_json_option
@one_line_errors
def nash_command(
    directory: Path, top: int, since: int, replaced: bool, fill: str | None, as_json: bool
) -> None:
    """Rate members against the strongest mixture of the other side (Nash averaging)."""
    found = nash(_game(directory, top, since, replaced, fill))
    if as_json:
        print_json(found.to_json())
        return
    sides = (("teacher", found.teachers), ("student", found.students))
    rows = [
        (role, x.member, x.weight, x.share)
        for role, side in sides
        for x in _first(side, sorted(side, key=lambda x: -x.weight))
    ]
    _print(("role", "member", "weight", "students' share against the mixture"), rows)
    click.echo(
        f"\nvalue {found.value:.4f} (the students' share), gap {found.gap:.1e}. Against everybody "
        f"equally often, the best single\nteacher gains {found.uniform.teacher_gain:.3f} and the "
        f"best single student {found.uniform.student_gain:.3f}."
    )
    _notes(found.notes)
    if any(len(side) > _MANY for _role, side in sides):
        click.echo(_MORE)


@click.command("alpha-rank")
@league_directory
@click.option("--top", default=LIMIT, show_default=True, help="How many members a side.")
@click.option("--alpha", type=float, help="Selection strength  [default: infinite]")
@_since
@_replaced
@_fill
@as_json_option
@one_line_errors
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
        print_json(found.to_json())
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
    _print(("role", "member", "share of time"), rows, found.notes)


@click.command("diversity")
@league_directory
@click.option("--top", default=256, show_default=True, help="How many members a side.")
@_since
@_replaced
@_fill
@_seed
@as_json_option
@one_line_errors
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
        print_json(found.to_json())
        return
    rows: list[tuple[Cell, ...]] = [
        ("teacher", found.teacher_count, found.teachers, found.teachers_alike),
        ("student", found.student_count, found.students, found.students_alike),
    ]
    _print(("role", "members", "effective number", "if all were alike"), rows, found.notes)


@click.command("survival")
@league_directory
@as_json_option
@one_line_errors
def survival_command(directory: Path, as_json: bool) -> None:
    """Show how long members last and whose descendants are left."""
    found = survival(_past(directory))
    if as_json:
        print_json(found.to_json())
        return
    sides = (found.teachers, found.students)
    rows: list[tuple[Cell, ...]] = [
        (x.role, x.members, x.living, x.median_life, x.founders_alive, x.takeover, x.takeover_by)
        for x in sides
    ]
    header = ("role", "members", "living", "median life", "founders alive", "takeover", "by")
    _print(header, rows)
    lines = [
        (x.role, line.founder, line.living, line.ancestry)
        for x in sides
        for line in _first(x.lines, x.lines)
    ]
    click.echo()
    _print(("role", "founder", "living by main parents", "ancestry"), lines, found.notes)
    if any(len(x.lines) > _MANY for x in sides):
        click.echo(_MORE)


@click.command("drift")
@league_directory
@as_json_option
@one_line_errors
def drift_command(directory: Path, as_json: bool) -> None:
    """Show how the two sides' ratings move, and what can be read from that."""
    found = drift(_past(directory))
    if as_json:
        print_json(found.to_json())
        return
    rows = [
        (
            found.rounds[i],
            found.teacher_mean[i],
            found.student_mean[i],
            found.gap[i],
            found.gap_centred[i],
        )
        for i in _thinned(len(found.rounds))
    ]
    _print(("rounds", "teachers", "students", "gap", "gap without replacement jumps"), rows)
    if found.against_anchors:
        spans = [
            (x.role, f"{x.first}-{x.last}", x.matches, x.tasks, x.solve_rate)
            for x in found.against_anchors
        ]
        click.echo()
        _print(("against anchors", "rounds", "matches", "tasks", "solve rate"), spans)
    kept = {True: "is kept", False: "is NOT kept", None: "could not be followed"}[found.conserved]
    click.echo(
        f"\n{textwrap.fill(found.statement, _WIDTH)}\n"
        f"The weighted mean of a match's two ratings {kept} ({found.checked} matches checked)."
    )


@click.command("generations")
@league_directory
@click.option("--cohorts", default=12, show_default=True, help="At most so many a side.")
@as_json_option
@one_line_errors
def generations_command(directory: Path, cohorts: int, as_json: bool) -> None:
    """Show solve rates of students by birth against teachers by birth; a dot if never met."""
    found = generations(_past(directory), cohorts=cohorts)
    if as_json:
        print_json(found.to_json())
        return
    rows = [
        (f"born {_span(cohort)}", *cells)
        for cohort, cells in zip(found.teachers, found.solve_rate, strict=True)
    ]
    _print(("teachers", *(f"students {_span(c)}" for c in found.students)), rows, found.notes)


COMMANDS = (
    calibration_command,
    interaction_command,
    nash_command,
    alpha_rank_command,
    diversity_command,
    survival_command,
    drift_command,
    generations_command,
)


def _past(directory: Path) -> History:
    return history(open_league(directory))


def _game(directory: Path, top: int, since: int, replaced: bool, fill: str | None) -> Game:
    return game(_past(directory), top=top, since=since, replaced=replaced, fill=fill)


def _print(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], notes: Sequence[str] = ()
) -> None:
    click.echo(table(header, rows))
    _notes(notes)


def _notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"note: {note}")


def _number(value: float | None) -> str:
    return "·" if value is None else f"{value:.4f}"


def _span(cohort: Cohort) -> str:
    return str(cohort.first) if cohort.first == cohort.last else f"{cohort.first}-{cohort.last}"


def _first(rows: Sequence[T], ranked: Sequence[T]) -> Sequence[T]:
    """All rows of a small league in their own order, the first of a large one by rank."""
    return rows if len(rows) <= _MANY else ranked[:_LINES]


def _thinned(count: int) -> list[int]:
    step = max(1, -(-count // _LINES))
    return sorted({*range(0, count, step), count - 1})
