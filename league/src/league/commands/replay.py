"""The verb `replay`: a league's log played again, to check it or under another rating scheme."""

import sys
from pathlib import Path
from typing import Any

import click

from league.commands.group import FOUND, complain
from league.commands.options import as_json_option, league_directory, open_league
from league.commands.output import print_json, print_table
from league.commands.progress import bar
from league.config import SCHEMES
from league.errors import LeagueError
from league.replay.log import Log
from league.replay.rescore import Rescored, rescore
from league.storage.settings import EVENTS
from league.storage.store import replayed

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


def figures(one: Rescored) -> tuple[str | None, ...]:
    """Return the cells of one setting under `FIGURES`."""
    return (
        f"{one.log_loss:.5f}",
        f"{one.rmse:.4f}",
        f"{one.noise:.4f}",
        f"{one.excess:.4f}",
        None if one.coverage is None else f"{one.coverage:.3f}",
    )


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
        print_json([one.to_dict() for one in found])
        return
    rows = [(one.scheme, f"{one.tau:.3g}", one.matches, *figures(one)) for one in found]
    print_table(("scheme", "tau", "matches", *FIGURES), rows)
    click.echo(LEGEND)
    click.echo(f"log-loss of the best constant prediction: {found[0].base_log_loss:.5f}.")


def _verify(directory: Path, as_json: bool) -> None:
    opened = open_league(directory)
    log = directory / EVENTS
    whole = log.read_bytes()[: opened.byte_length]
    rebuilt = replayed(opened.config, whole, log)
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
        print_table(tuple(counts), [tuple(str(value) for value in counts.values())])
    if not equal:
        complain(f"{directory}: the snapshot does not follow from the log")
        sys.exit(FOUND)
