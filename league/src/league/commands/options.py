"""What the commands take: options that several share, and the league of a directory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from league.basics.data import PlainData
from league.commands.group import complain
from league.commands.output import print_json
from league.events.files import check_exists
from league.history.history import history
from league.league import League

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What adds an option to a command."""

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of a table."
)
since_option = click.option(
    "--since", default=0, show_default=True, help="Leave out earlier rounds."
)
seed_option = click.option("--seed", default=0, show_default=True, help="Of all random draws.")
replaced_option = click.option("--replaced", is_flag=True, help="Take former members too.")
league_directory = click.argument("directory", type=click.Path(path_type=Path))


def top_option(members: int) -> Option:
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


def analysis_command(
    name: str, find: Callable[..., PlainData], *options: Option
) -> Callable[[Callable[[Any], None]], click.Command]:
    """Make a verb of a function that shows what an analysis of the league of DIRECTORY finds.

    find: called with the league's history, and the values of `options` by name; with --json its
    result is printed and not shown.
    """

    def command(show: Callable[[Any], None]) -> click.Command:
        def run(directory: Path, as_json: bool, **chosen: Any) -> None:
            found = find(history(open_league(directory)), **chosen)
            if as_json:
                print_json(found.to_dict())
            else:
                show(found)

        run.__doc__ = show.__doc__
        made: Callable[..., Any] = run
        steps: tuple[Option, ...] = (as_json_option, *reversed(options), league_directory)
        for option in steps:
            made = option(made)
        return click.command(name)(made)

    return command
