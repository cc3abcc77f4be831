"""The `code-verifier` command."""

import click

from code_verifier import __version__
from code_verifier.commands.doctor import doctor
from code_verifier.commands.judging import check, grade
from code_verifier.commands.measuring import compare, coverage, metrics


@click.group()
@click.version_option(__version__, prog_name="code-verifier")
def main() -> None:
    """Run untrusted Python programs, grade answers, and measure structure.

    Files are JSON Lines, one object a line; `-` is standard input or output, and gzip is read as
    it is. Exit codes: 0 done, 1 the work found a problem or was stopped, 2 wrong usage or
    unusable input, 130 interrupted. Finished results are always kept.
    """


for command in (check, grade, metrics, coverage, compare, doctor):
    main.add_command(command)
