"""The command, run in this process, a run that is interrupted, and what equal runs share."""

import pytest
from click.testing import CliRunner
from json_lines import read_rows

from selfplay.cli import main
from selfplay.reports.progress import Progress
from selfplay.training import train


def command(*words, columns=None):
    """Run a command; `columns` is the width of the terminal."""
    return CliRunner().invoke(main, [str(word) for word in words], terminal_width=columns)


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


def outcome(run):
    """Everything that equal runs have in common: bytes by file, metrics without their seconds."""
    named = [
        *(run / name for name in ("config.yaml", "tasks.jsonl", "eval.jsonl")),
        run / "league" / "events.jsonl",
        *(p for name in ("members", "ancestors") for p in (run / name).rglob("*")),
    ]
    found = {str(p.relative_to(run)): p.read_bytes() for p in sorted(named) if p.is_file()}
    measured = read_rows(run / "metrics.jsonl")
    for row in measured:
        row.pop("seconds")
        row.pop("memory_mb", None)
    return found | {"metrics": measured}
