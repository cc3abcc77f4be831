"""The command, run in this process, and a run that is interrupted."""

import pytest
from click.testing import CliRunner

from selfplay.cli import main
from selfplay.progress import Progress
from selfplay.training import train


def command(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def worked(*words):
    """Run a command that must end well; return what it says."""
    result = command(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def refused(result, *words, code=2):
    """The command ended with this exit code and one line to stderr that holds the words."""
    assert result.exit_code == code, (result.output, result.exception)
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert all(word in line for word in words), line


class Interrupting(Progress):
    """Interrupts a step as one of its phases begins."""

    def __init__(self, step, phase):
        super().__init__(quiet=True)
        self.at = step, phase

    def phase(self, phase):
        super().phase(phase)
        if (self.done + 1, phase) == self.at:
            raise KeyboardInterrupt


def train_until(step, config, home, *, phase="propose", **given):
    """Train, and interrupt this step."""
    with pytest.raises(KeyboardInterrupt):
        train(config, home, progress=Interrupting(step, phase), **given)
