"""What commands print: lines no wider than the terminal, and commands that work as they stand."""

import os
import shlex
import shutil
import sys
import textwrap
from pathlib import Path

import click

_QUIET = {
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}


def program() -> str:
    """Return what to type for `selfplay`: that where it is this Python's on PATH, else a module."""
    python, on_path = Path(sys.executable), shutil.which("selfplay")
    if on_path is not None and Path(on_path).parent.samefile(python.parent):
        return "selfplay"
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return f"{quote(python)} -m selfplay"


def quiet_libraries() -> None:
    """Keep notes and progress bars of the model library off the terminal, before it is imported."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)


def quote(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(str(path))


def wrapped(text: str, width: int) -> str:
    """Return the text broken between words where a line is wider, what continues indented by two
    more spaces; a longer word, such as a path, stays whole."""
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
    click.echo(wrapped(text, width) if stream.isatty() else text, err=err)
