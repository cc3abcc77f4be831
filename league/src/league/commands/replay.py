"""The verbs `replay` and `calibrate`: a log played again, to check it or under other settings."""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from league.basics.errors import LeagueError
from league.commands.group import FOUND, complain
from league.commands.options import as_json_option, league_directory, open_league
from league.commands.output import bar, print_json, print_table
from league.events.files import EVENTS
from league.events.store import replayed
from league.history.rescore import Log, Rescored, rescore
from league.history.tuning import FEW_MATCHES, TAUS, Tuning, calibrate
from league.state.config import SCHEMES

FIGURES = ("log-loss", "RMSE", "of it chance", "excess", "coverage")
"""The columns that `figures` fills."""
LEGEND = (
    "\nEvery match was predicted from what was recorded before it. log-loss: nats per task; RMSE: "
    "of\nthe predicted solve rate against the observed one, what sampling tasks and rollouts alone "
    "would\ngive, and the excess over it; coverage: of 95 % predictive intervals."
)


@click.command("replay")
@league_directory
@click.option(
    "--scheme",
    "schemes",
    multiple=True,
    type=click.Choice([*SCHEMES, "all"]),
    help="Score this rating scheme on the log; may be repeated.",
)
@click.option("--tau", type=float, help="With --scheme: a tau other than the league's.")
@click.option("--evidence", type=float, help="With --scheme: games that a task counts as.")
@click.option("--elo-k", type=float, help="With --scheme elo: its K, in rating units.")
@as_json_option
def replay_command(
    directory: Path, schemes: tuple[str, ...], as_json: bool, **given: float | None
) -> None:
    """Rebuild the state from the event log alone and compare; exit code 1 if it differs.

    With --scheme, play the log again under that rating scheme instead, and show how well it
    would have predicted every match; nothing is changed.
    """
    overrides = {name: value for name, value in given.items() if value is not None}
    if schemes:
        _compare(directory, SCHEMES if "all" in schemes else schemes, overrides, as_json)
    elif overrides:
        raise LeagueError(f"--{next(iter(overrides)).replace('_', '-')} needs --scheme")
    else:
        _verify(directory, as_json)


def figures(one: Rescored) -> tuple[str | None, ...]:
    """Return the cells of one setting under `FIGURES`."""
    errors = (f"{value:.4f}" for value in (one.rmse, one.noise, one.excess))
    coverage = None if one.coverage is None else f"{one.coverage:.3f}"
    return (f"{one.log_loss:.5f}", *errors, coverage)


def _compare(
    directory: Path, schemes: Collection[str], overrides: dict[str, Any], as_json: bool
) -> None:
    open_league(directory)
    log = Log.read(directory)
    found = []
    with bar("replaying") as progress:
        for i, scheme in enumerate(schemes):
            found.append(rescore(log, scheme, **overrides))
            progress(i + 1, len(schemes))
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    rows = [(one.scheme, f"{one.tau:.3g}", one.matches, *figures(one)) for one in found]
    print_table(("scheme", "tau", "matches", *FIGURES), rows)
    click.echo(LEGEND)
    click.echo(f"log-loss of the best constant prediction: {found[0].base_log_loss:.5f}.")


def _verify(directory: Path, as_json: bool) -> None:
    opened = open_league(directory)
    log = directory / EVENTS
    rebuilt = replayed(opened.config, log.read_bytes()[: opened.byte_length], log)
    equal = rebuilt.to_dict() == opened.state.to_dict()
    counts = {
        "events": rebuilt.events,
        "rounds": len(rebuilt.rounds),
        "matches": len(rebuilt.outcomes),
        "replacements": len(rebuilt.replacements),
        "equal": equal,
    }
    if as_json:
        print_json(counts)
    else:
        print_table(tuple(counts), [tuple(map(str, counts.values()))])
    if not equal:
        complain(f"{directory}: the snapshot does not follow from the log")
        sys.exit(FOUND)


_TAUS = ", ".join(f"{tau:.3g}" for tau in TAUS)


@click.command("calibrate")
@league_directory
@click.option("--tau", "taus", help=f"Taus to try, separated by commas  [default: {_TAUS}]")
@click.option("--evidence", "evidences", help="Games per task to try  [default: the league's]")
@as_json_option
def calibrate_command(
    directory: Path, taus: str | None, evidences: str | None, as_json: bool
) -> None:
    """Find the tau that would have predicted the league of DIRECTORY best."""
    open_league(directory)
    grid = TAUS if taus is None else _numbers("tau", taus)
    tried = None if evidences is None else _numbers("evidence", evidences)
    with bar("replaying") as progress:
        found = calibrate(Log.read(directory), grid, tried, progress)
    if as_json:
        print_json(found.to_dict())
        return
    rows = [
        (
            f"{trial.rescored.tau:.3g}",
            f"{trial.rescored.evidence:g}",
            *figures(trial.rescored),
            "best" if i == found.best else f"{trial.behind:+.5f} ± {trial.error:.5f}",
            "the league's" if i == found.own else "",
        )
        for i, trial in enumerate(found.trials)
    ]
    print_table(("tau", "evidence", *FIGURES, "log-loss behind", ""), rows)
    click.echo(LEGEND)
    click.echo("\n" + _advice(found))


def _advice(found: Tuning) -> str:
    best, own = (found.trials[i].rescored for i in (found.best, found.own))
    if not found.enough:
        return (
            f"Only {own.matches} rated matches: fewer than {FEW_MATCHES} cannot settle this. "
            "Keep the settings for now."
        )
    if not found.change:
        return (
            f"The league's own tau {own.tau:.3g} and evidence {own.evidence:g} are not told apart "
            "from the best:\nkeep them."
        )
    settings = f"tau={best.tau:.3g}"
    if best.evidence != own.evidence:
        settings += f", evidence={best.evidence:g}, max_weight={best.max_weight:g}"
    advice = (
        "A league's settings are fixed at its founding. For the next one, write\n"
        f"    LeagueConfig({settings})"
    )
    if best.tau == max(trial.rescored.tau for trial in found.trials):
        advice += "\nThe best tau is the largest that was tried; go on with --tau."
    return advice


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise LeagueError(
            f"{name} is {text!r}; expected numbers separated by commas, such as 0.1,0.2"
        ) from None
