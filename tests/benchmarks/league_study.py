"""Studies of the league in known-truth worlds, one table a command, alike for the same options.

    python tests/benchmarks/league_study.py schemes --drift 0.42 [--json]

`docs/league-schemes.md` names the command of each of its figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any

import click
from league_studies.cycle_table import CYCLES, cycle_table
from league_studies.drift_table import DRIFTS, drift_table
from league_studies.impossible_table import impossible_table
from league_studies.invalid_table import invalid_table
from league_studies.matcher_table import matcher_table
from league_studies.replacement_table import replacement_table
from league_studies.scheme_table import scheme_table
from league_studies.world import World

from league.basics.errors import LeagueError
from league.commands.group import OneLineErrors
from league.commands.options import as_json_option
from league.commands.output import bar, print_json, print_table
from league.drawing.text_table import Cell
from league.rating.rating import RatingModel

_SHARED = {
    "members": "Teachers, and as many students.",
    "rounds": "Rounds of random pairs, everybody playing once in each.",
    "tasks": "Tasks per match.",
    "rollouts": "Attempts per task.",
    "worlds": "Repetitions with other truths.",
    "spread": "Standard deviation of true skills, in rating units.",
    "cycle": "Skill units that a planted circle of rock, paper and scissors gives and takes.",
    "alike": "Share of a performance's variance that belongs to the task.",
    "seed": "Of all random numbers.",
}


def _world_options(
    *without: str, **defaults: float
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options for the fields of a World less some; `drift` only where it is given a default."""
    texts = _SHARED | (
        {"drift": "Step of a true skill between rounds."} if "drift" in defaults else {}
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for field in reversed(fields(World)):
            if field.name in texts and field.name not in without:
                default: Any = defaults.get(field.name, field.default)
                command = click.option(
                    f"--{field.name}",
                    default=round(default, 4) if isinstance(default, float) else default,
                    show_default=True,
                    help=texts[field.name],
                )(command)
        return command

    return add


@click.group(cls=OneLineErrors)
def main() -> None:
    """Compare schemes, matchers and settings in worlds whose truth is known."""


@main.command()
@_world_options(drift=RatingModel.tau)
@as_json_option
def schemes(as_json: bool, **world: Any) -> None:
    """Compare ways to turn a match into ratings; all are told the true drift as tau."""
    with bar("schemes") as progress:
        rows = scheme_table(World(**world), progress)
    _show(
        rows,
        as_json,
        ("scheme", "RMSE", "coverage", "bias"),
        "RMSE of predicted solve rates; share of true solve rates inside 95 % intervals; slope of\n"
        "predicted on true rates, less 1. In brackets: the name for LeagueConfig.scheme.",
    )


@main.command()
@_world_options()
@click.option("--drift", "drifts", multiple=True, type=float, help="Only this; may be repeated.")
@as_json_option
def drift(as_json: bool, drifts: tuple[float, ...], **world: Any) -> None:
    """Compare values of tau for members that learn, with the floor that no rating can pass."""
    with bar("drift") as progress:
        rows = drift_table(World(**world), drifts or DRIFTS, progress)
    _show(
        rows,
        as_json,
        ("drift", "setting", "tau", "RMSE", "coverage"),
        "Second half of the rounds; `calibrated` is tuned on the first half of each world's own "
        "log, as\n`league calibrate` does. The floor is a joint filter that is told the truth "
        "about the world.",
    )


@main.command()
@_world_options(drift=RatingModel.tau, tasks=64)
@as_json_option
def invalid(as_json: bool, **world: Any) -> None:
    """Compare what an invalid task may count as; one teacher of each world is broken."""
    with bar("invalid tasks") as progress:
        rows = invalid_table(World(**world), progress)
    _show(
        rows,
        as_json,
        ("policy", "its mu", "first", "last", "teachers", "students", "order"),
        "The last teacher writes 15 invalid tasks of 16 and impossible ones. Its rating; share of "
        "worlds\nin which it ranks first and last; mean mu of the sound teachers and of the "
        "students; rank correlation\nof students with the truth. A sound teacher whose tasks are "
        "solved even more often ranks below it.",
    )


@main.command()
@click.option(
    "--size", "sizes", multiple=True, type=int, help="Members a side  [default: 4, 8, 32]"
)
@click.option("--rounds", default=60, show_default=True)
@click.option("--leagues", default=8, show_default=True, help="Repetitions with other ratings.")
@click.option("--spread", default=4.0, show_default=True, help="Of the ratings.")
@click.option("--sigma", default=1.5, show_default=True, help="Doubt about each rating.")
@click.option("--seed", default=0, show_default=True)
@as_json_option
def matchers(as_json: bool, sizes: tuple[int, ...], **options: Any) -> None:
    """Compare who meets whom: worth of the matches, coverage, least use and fairness."""
    with bar("matchers") as progress:
        rows = matcher_table(sizes or (4, 8, 32), **options, progress=progress)
    _show(
        rows,
        as_json,
        ("size", "matcher", "4p(1-p)", "pairs met", "least used", "first - last"),
        "Mean 4p(1-p) of the matches; share of pairs that ever met; rounds played by the student "
        "who\nplayed least, in the worst league; worth of the first teacher's matches less the "
        "last one's.",
    )


@main.command()
@_world_options(drift=RatingModel.tau)
@click.option("--every", "intervals", multiple=True, type=int, help="Rounds  [default: 10, 2]")
@click.option("--jump", default=1.0, show_default=True, help="Of a child's skill, in rating units.")
@as_json_option
def replacement(as_json: bool, intervals: tuple[int, ...], jump: float, **world: Any) -> None:
    """Compare ratings of children and ways to select whom they replace."""
    if any(every < 1 for every in intervals) or not 0.0 <= jump < float("inf"):
        raise LeagueError("expected --every of at least 1 and a finite --jump >= 0")
    with bar("replacement") as progress:
        rows = replacement_table(World(**world), intervals or (10, 2), jump, progress)
    _show(
        rows,
        as_json,
        ("every", "child's rating", "ranked by", "grace", "newborn", "regret", "spared", "RMSE"),
        "Rounds between replacements, matches of grace; share of the culled that came last "
        "(chance: 1 / members);\nhow much better than the true worst of its role the culled one "
        "was, in mean solve rate; share of replacements\nleft out for want of an eligible member; "
        "RMSE of predicted solve rates.",
    )


@main.command()
@_world_options("cycle", drift=0.0, worlds=8)
@click.option("--cycle", "cycles", multiple=True, type=float, help="Only this; may be repeated.")
@as_json_option
def cycles(as_json: bool, cycles: tuple[float, ...], **world: Any) -> None:
    """Plant a circle of rock, paper and scissors: is it found, and what does it cost?"""
    with bar("cycles") as progress:
        rows = cycle_table(World(**world), cycles or CYCLES, progress)
    _show(
        rows,
        as_json,
        ("cycle", "found", "share", "RMSE, ratings", "default history", "long history"),
        "Skill units that the circle gives and takes, 0 for none; share of worlds in which "
        "`interaction` finds\none at p < 0.05, and its mean share of the variance between pairs; "
        "RMSE of predicted solve rates by\nratings alone, and blended with pair history "
        "(history_tasks, history_decay) = (100, 0.5) and (20, 0.99).",
    )


@main.command()
@_world_options(drift=RatingModel.tau)
@as_json_option
def impossible(as_json: bool, **world: Any) -> None:
    """Rank a teacher of valid but impossible tasks by each named fitness."""
    with bar("impossible tasks") as progress:
        rows = impossible_table(World(**world), progress)
    _show(
        rows,
        as_json,
        ("fitness", "first", "last"),
        "Share of worlds in which the teacher whose tasks nobody can solve ranks first and last.",
    )


def _show(rows: Sequence[Any], as_json: bool, header: Sequence[str], legend: str) -> None:
    plain = [asdict(row) for row in rows]
    if as_json:
        print_json(plain)
        return
    print_table(header, [[_cell(value) for value in row.values()] for row in plain])
    click.echo("\n" + legend)


def _cell(value: Any) -> Cell:
    return f"{value:.3f}" if isinstance(value, float) else value


if __name__ == "__main__":
    main()
