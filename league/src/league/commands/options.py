"""What the commands take: options that several share, and the league of a directory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from league.commands.group import complain
from league.events.files import check_exists
from league.history.history import History, history
from league.league import League

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of a table."
)
since_option = click.option(
    "--since", default=0, show_default=True, help="Leave out earlier rounds."
)
seed_option = click.option("--seed", default=0, show_default=True, help="Of all random draws.")
replaced_option = click.option("--replaced", is_flag=True, help="Take former members too.")
league_directory = click.argument("directory", type=click.Path(path_type=Path))


def top_option(members: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option of how many members a side are looked at, with this default."""
    return click.option(
        "--top", default=members, show_default=True, help="How many members a side."
    )


def open_league(directory: Path) -> League:
    """Open the league of a directory for reading; what had to be repaired goes to stderr."""
    check_exists(directory)
    opened = League(directory, read_only=True)
    for warning in opened.warnings:
        complain(warning)
    return opened


def open_history(directory: Path) -> History:
    """Open the league of a directory for reading, and return what happened in it."""
    return history(open_league(directory))
