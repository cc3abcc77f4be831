"""How the `league` command ends: one line on standard error and an exit code, no traceback.

0: done. 1: the work found a problem or was stopped, as by a damaged or busy league. 2: wrong
usage. 130: interrupted.
"""

import sys
from typing import Any, NoReturn

import click

from league.basics.errors import LeagueError, LeagueLocked, UnreadableLeague

FOUND = 1
USAGE = 2
INTERRUPTED = 130


class OneLineErrors(click.Group):
    """A group of commands whose errors are one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except LeagueError as error:
            stopped = isinstance(error, UnreadableLeague | LeagueLocked)
            _end(str(error), FOUND if stopped else USAGE)
        except BrokenPipeError:
            raise  # click ends quietly when the reader has gone
        except OSError as error:
            _end(str(error), FOUND)
        except KeyboardInterrupt:
            _end("interrupted", INTERRUPTED)


def complain(sentence: str) -> None:
    """Print a sentence on standard error, as one line."""
    click.echo(f"league: {' '.join(sentence.split())}", err=True)


def _end(sentence: str, code: int) -> NoReturn:
    complain(sentence)
    sys.exit(code)
