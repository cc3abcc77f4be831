"""What every command line does: its list of commands, and completion by a shell."""

import click
from click.testing import CliRunner


def lists_whole_sentences(main: click.Group) -> None:
    """Check that each command is listed with a whole sentence, and helps in 80 columns."""
    shown = CliRunner().invoke(main, ["--help"]).stdout.partition("Commands:\n")[2].splitlines()
    assert len(shown) == len(main.commands)
    assert all(line.endswith(".") and not line.endswith("..") for line in shown)
    for name in main.commands:
        lines = CliRunner().invoke(main, [name, "--help"]).stdout.splitlines()
        assert all(len(line) <= 80 for line in lines)


def completed(main: click.Group, words: str) -> str:
    """What bash is told to complete a line with."""
    name = words.split()[0]
    variable = f"_{name.upper().replace('-', '_')}_COMPLETE"
    index = str(len(words.split()) - (not words.endswith(" ")))
    assert (
        "complete" in CliRunner().invoke(main, prog_name=name, env={variable: "bash_source"}).output
    )
    asked = {variable: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": index}
    return CliRunner().invoke(main, prog_name=name, env=asked).output
