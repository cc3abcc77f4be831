"""Exit codes, errors and progress bars of all commands."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import click

import lora_evo.terminal
from code_verifier import CodeVerifierError, SandboxUnavailable, stop_on_signals
from evals.errors import EvalsError
from lora_evo import EngineStopped, LoraEvoError
from lora_evo.terminal import remedy

_WRONG_PATH = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)


class Commands(lora_evo.terminal.Commands):
    """Turns a command's return value and errors into one line and an exit code: 0 done, 1 the work
    found a problem or was stopped, 2 wrong usage, 130 interrupted."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with stop_on_signals():
                code = super().invoke(ctx)
        except (EvalsError, CodeVerifierError, LoraEvoError) as error:
            stopped = isinstance(error, SandboxUnavailable | EngineStopped)
            code = print_error(error, 1 if stopped else 2)
        except KeyboardInterrupt as error:
            text = "interrupted; finished samples are kept, the same command resumes"
            code = print_error(text, getattr(error, "exit_code", 130))
        except BrokenPipeError:
            raise  # click ends quietly when the reader has gone
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            text = f"{place}{error.strerror or error}{remedy(error)}"
            code = print_error(text, 2 if isinstance(error, _WRONG_PATH) else 1)
        sys.exit(code)


def print_error(error: object, code: int) -> int:
    """Print one line on the error stream; return the exit code."""
    click.echo(f"error: {error}", err=True)
    return code


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[str, int], None]]:
    """Show a bar for each phase on the error stream; yield the function that advances a phase."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr)) as progress:
        task = cache(lambda phase: progress.add_task(f"{label}: {phase}", total=total))
        yield lambda phase, count: progress.advance(task(phase), count)
