"""Commands that are printed work as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from selfplay import terminal

SCRIPT = Path(sys.executable).with_name("selfplay")


def printed(command, home, *, cwd, path="/usr/bin:/bin"):
    """Return the command that an error about a run without steps names."""
    done = subprocess.run(
        [*command, "report", str(home)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"PATH": path},
        check=False,
    )
    assert done.returncode == 2
    return done.stderr.split("`")[1].removesuffix(f" resume {home}")


@pytest.fixture
def home(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("steps: 1\n")
    (run / "metrics.jsonl").touch()
    return run


def test_a_printed_command_works_as_it_stands(home, tmp_path, monkeypatch):
    (tmp_path / "venv").symlink_to(SCRIPT.parent.parent)
    for command in (["venv/bin/selfplay"], ["venv/bin/python", "-m", "selfplay"]):
        assert printed(command, home, cwd=tmp_path).endswith("python -m selfplay")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "a venv" / "python"))
    (tmp_path / "a venv").mkdir()
    monkeypatch.setenv("PATH", str(SCRIPT.parent))  # another environment's
    assert terminal.program() == f"'{tmp_path}/a venv/python' -m selfplay"
    monkeypatch.chdir(tmp_path)
    assert terminal.program() == "'a venv/python' -m selfplay"
    (tmp_path / "a venv" / "selfplay").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "a venv"))
    assert terminal.program() == "selfplay"
