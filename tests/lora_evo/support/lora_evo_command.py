"""The command, run in this process."""

import os

from click.testing import CliRunner

from lora_evo.cli import main


def call(*words, code=0):
    """Run `lora-evo` with these words; it must end with this exit code and no traceback."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None)
    return result


def refused(words, reason, code=2):
    """The command must end in one line of stderr with no output and nothing changed on disk."""
    before = sorted(os.walk("."))
    result = call(*words.split(), code=code)
    assert reason in result.stderr
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert sorted(os.walk(".")) == before
