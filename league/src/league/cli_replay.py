"""The verbs that play a league's log again: `replay` and `calibrate`."""

import sys
from pathlib import Path
from typing import Any

import click

from league import store
from league.calibrate import FEW_MATCHES, TAUS, Calibration, calibrate
from league.cli_frame import (
    as_json_option,
    league_directory,
    one_line_errors,
    open_league,
    print_json,
)
from league.config import SCHEMES
from league.errors import LeagueError
from league.progress import bar
from league.rescore import Log, Rescored, rescore
from league.tables import table

_HEADER = ("log-loss", "RMSE", "of it chance", "excess", "coverage")
_LEGEND = (
    "\nEvery match was predicted from what was recorded before it. log-loss: nats per task; RMSE: "
    "of\nthe predicted solve rate against the observed one, what sampling tasks and rollouts alone "
    "would\ngive, and the excess over it; coverage: of 95 % predictive intervals."
)


@click.command()
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
@one_line_errors
def replay(
    directory: Path,
    schemes: tuple[str, ...],
    tau: float | None,
    evidence: float | None,
    elo_k: float | None,
    as_json: bool,
) -> None:
    """Rebuild the state from the event log alone and compare; exit code 1 if it differs.

    With --scheme, play the log again under that rating scheme instead, and show how well it
    would have predicted every match; nothing is changed.
    """
    given = {"tau": tau, "evidence": evidence, "elo_k": elo_k}
    overrides = {name: value for name, value in given.items() if value is not None}
    if schemes:
        _compare(directory, SCHEMES if "all" in schemes else schemes, overrides, as_json)
    elif overrides:
        raise LeagueError(f"--{next(iter(overrides)).replace('_', '-')} needs --scheme")
    else:
        _verify(directory, as_json)


@click.command(name="calibrate")
@league_directory
@click.option(
    "--tau",
    "taus",
    help="Taus to try, separated by commas  [default: "
    + ", ".join(f"{tau:.3g}" for tau in TAUS)
    + "]",
)
@click.option("--evidence", "evidences", help="Games per task to try  [default: the league's]")
@as_json_option
@one_line_errors
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
        print_json(found.to_json())
        return
    rows = [
        (
            f"{trial.rescored.tau:.3g}",
            f"{trial.rescored.evidence:g}",
            *_figures(trial.rescored),
            "best" if i == found.best else f"{trial.behind:+.5f} ± {trial.error:.5f}",
            "the league's" if i == found.own else "",
        )
        for i, trial in enumerate(found.trials)
    ]
    click.echo(table(("tau", "evidence", *_HEADER, "log-loss behind", ""), rows))
    click.echo(_LEGEND)
    click.echo("\n" + _advice(found))


def _advice(found: Calibration) -> str:
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


def _compare(
    directory: Path, schemes: tuple[str, ...], overrides: dict[str, Any], as_json: bool
) -> None:
    open_league(directory)
    log = Log.read(directory)
    found = []
    with bar("replaying") as progress:
        for i, scheme in enumerate(schemes):
            found.append(rescore(log, scheme, **overrides))
            progress(i + 1, len(schemes))
    if as_json:
        print_json([one.to_json() for one in found])
        return
    rows = [(one.scheme, f"{one.tau:.3g}", one.matches, *_figures(one)) for one in found]
    click.echo(table(("scheme", "tau", "matches", *_HEADER), rows))
    click.echo(_LEGEND)
    click.echo(f"log-loss of the best constant prediction: {found[0].base_log_loss:.5f}.")


def _figures(one: Rescored) -> tuple[str | None, ...]:
    return (
        f"{one.log_loss:.5f}",
        f"{one.rmse:.4f}",
        f"{one.noise:.4f}",
        f"{one.excess:.4f}",
        None if one.coverage is None else f"{one.coverage:.3f}",
    )


def _verify(directory: Path, as_json: bool) -> None:
    opened = open_league(directory)
    log = directory / store.EVENTS
    whole = log.read_bytes()[: opened.byte_length]
    rebuilt = store.replayed(opened.config, whole, log)
    equal = rebuilt.to_json() == opened.state.to_json()
    figures = {
        "events": rebuilt.events,
        "rounds": len(rebuilt.rounds),
        "matches": len(rebuilt.outcomes),
        "replacements": len(rebuilt.replacements),
        "equal": equal,
    }
    if as_json:
        print_json(figures)
    else:
        click.echo(table(tuple(figures), [tuple(str(value) for value in figures.values())]))
    if not equal:
        click.echo(f"league: {directory}: the snapshot does not follow from the log", err=True)
        sys.exit(1)


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise LeagueError(
            f"{name} is {text!r}; expected numbers separated by commas, such as 0.1,0.2"
        ) from None


COMMANDS = (replay, calibrate_command)
