"""What commands print: lines no wider than the terminal, and commands that work as they stand."""

import os
import shlex
import shutil
import sys
import textwrap
from pathlib import Path

import click


def program() -> str:
    """Return what to type for `selfplay`, as this process was started.

    `selfplay` where that is the program on PATH, else its path, or `python -m selfplay`.
    """
    script = Path(sys.argv[0])
    if script.name == "__main__.py" and script.parent == Path(__file__).parent:
        return f"{shlex.quote(sys.orig_argv[0])} -m selfplay"
    if script.name != "selfplay":  # a script or notebook of the user's
        script = Path(sys.executable).with_name("selfplay")
        if script.is_relative_to(Path.cwd()):
            script = script.relative_to(Path.cwd())
    if not script.is_file():
        return f"{shlex.quote(sys.executable)} -m selfplay"
    on_path = shutil.which("selfplay")
    if on_path is not None and os.path.samefile(on_path, script):
        return "selfplay"
    return quote(script)


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
