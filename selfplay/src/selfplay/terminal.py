"""What commands print: errors in one line, commands to type, wrapped text."""

import errno
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from lora_evo.terminal import first_line, remedy
from selfplay.errors import is_out_of_memory, is_refusal

_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def one_line_errors(directory: Path | None = None) -> Iterator[None]:
    """Print an error that the user can correct as one line, and exit.

    Exit codes: 1 if the work was stopped, as by a full disk; 2 for wrong usage; 130 if interrupted.
    directory: of the run; the line names its resume command if there is something to resume.
    """
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        _stop("interrupted", 130, directory)
    except BrokenPipeError:
        raise  # click ends quietly when the reader of the output is gone
    except OSError as error:
        place = error.filename or directory
        where = f" ({place})" if place else ""
        advice = remedy(error)
        if error.errno in _FORBIDDEN and directory and str(place).startswith(str(directory)):
            command = f"cp -r --no-preserve=mode {quote(directory)} COPY"
            advice = f"; resume a copy of your own: {command}"
            directory = None  # a repetition would end the same way
        _stop(f"{error.strerror or error}{where}{advice}", 1, directory)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        advice = "set lower rollout.max_rows or learner.micro_batch_tokens, or take a smaller base"
        _stop(f"out of memory ({first_line(error)}); {advice}", 1, directory)
    except ValueError as error:
        if type(error) is ValueError:
            raise  # a fault of this program keeps its traceback
        if is_refusal(error):
            _stop(str(error), 2)
        _stop(f"{error}{remedy(error.__cause__)}", 1, directory)


def _stop(message: str, code: int, directory: Path | None = None) -> None:
    line = " ".join(part.strip() for part in message.splitlines())
    if directory is not None and (directory / "config.yaml").is_file():
        begun = (directory / "checkpoints").is_dir()
        then = "nothing is lost: continue" if begun else "the run has not begun: start it again"
        line += f"; {then} with `{program()} resume {quote(directory)}`"
    click.echo(f"error: {line}", err=True)
    sys.exit(code)


def program() -> str:
    """Return `selfplay` if PATH has this Python's, else the command that runs the module."""
    python, on_path = Path(sys.executable), shutil.which("selfplay")
    if on_path is not None and Path(on_path).parent.samefile(python.parent):
        return "selfplay"
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return f"{quote(python)} -m selfplay"


def quiet_libraries() -> None:
    """Switch off notes and progress bars of transformers, before it is imported."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def quote(path: Path) -> str:
    """Return a path quoted for a shell."""
    return shlex.quote(str(path))


def wrap(text: str, width: int) -> str:
    """Return the text with wider lines broken between words and continued two spaces further in.

    A word that is wider, such as a path, stays whole.
    """
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return "\n".join(lines)


def say(text: str, *, err: bool = False) -> None:
    """Print text, on a terminal wrapped to its width."""
    stream = sys.stderr if err else sys.stdout
    width = shutil.get_terminal_size().columns
    click.echo(wrap(text, width) if stream.isatty() else text, err=err)
