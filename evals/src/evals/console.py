"""What all commands do at a terminal: they end with an exit code, and show how far they are."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from code_verifier import CodeVerifierError, SandboxUnavailable, Stopped, stop_on_signals
from evals.errors import EvalsError
from lora_evo import EngineStopped, LoraEvoError


class Commands(click.Group):
    """Turns the return value of a command and its errors into an exit code and one line.

    0: done. 1: the work found a problem or was stopped. 2: wrong usage. 130: interrupted.
    """

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; wrong usage is one line, too."""
        try:
            sys.exit(super().main(*args, **{**extra, "standalone_mode": False}))
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            words = " ".join(error.format_message().split()).rstrip(".")
            context = getattr(error, "ctx", None)
            more = f"; see {context.command_path} --help" if context else ""
            click.echo(f"error: {words}{more}", err=True)
            sys.exit(error.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with stop_on_signals():
                code = super().invoke(ctx)
        except (SandboxUnavailable, EngineStopped) as error:
            code = print_error(str(error), 1)
        except (EvalsError, CodeVerifierError, LoraEvoError) as error:
            code = print_error(str(error), 2)
        except KeyboardInterrupt as error:
            code = print_error(
                "interrupted; finished samples are kept, the same command resumes",
                1 if isinstance(error, Stopped) else 130,
            )
        except BrokenPipeError:  # the reader of the output is gone
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (nothing to flush at the end)
            code = 1
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            misplaced = isinstance(error, FileNotFoundError | FileExistsError | NotADirectoryError)
            code = print_error(f"{place}{error.strerror or error}", 2 if misplaced else 1)
        sys.exit(code)


def print_error(text: str, code: int) -> int:
    """Print one line on the error stream; return the exit code."""
    click.echo(f"error: {text}", err=True)
    return code


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[str, int], None]]:
    """Show a bar for each phase on the error stream; it is advanced by a phase and a number."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(file=sys.stderr)) as progress:
        tasks: dict[str, TaskID] = {}

        def advance(phase: str, count: int) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(f"{label}: {phase}", total=total)
            progress.advance(tasks[phase], count)

        yield advance
