"""The verb `calibrate`: which tau and evidence would have predicted a league's log best."""

from pathlib import Path

import click

from league.commands.options import as_json_option, league_directory, open_league
from league.commands.output import print_json, print_table
from league.commands.progress import bar
from league.commands.replay import FIGURES, LEGEND, figures
from league.errors import LeagueError
from league.replay.calibrate import FEW_MATCHES, TAUS, Tuning, calibrate
from league.replay.log import Log

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
