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


def test_a_printed_command_names_the_program_as_it_was_called(home, tmp_path, monkeypatch):
    (tmp_path / "venv").symlink_to(SCRIPT.parent.parent)
    script = "venv/bin/selfplay"
    assert printed([script], home, cwd=tmp_path) == script
    monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert terminal.program() == str(SCRIPT)
    python = str(Path(script).with_name("python"))
    assert printed([python, "-m", "selfplay"], home, cwd=tmp_path) == f"{python} -m selfplay"


def test_on_the_path_its_name_is_enough(home, tmp_path, monkeypatch):
    here = str(SCRIPT.parent)
    assert printed(["selfplay"], home, cwd=tmp_path, path=here) == "selfplay"
    other = tmp_path / "selfplay"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
    monkeypatch.setenv("PATH", f"{tmp_path}:{here}")
    assert terminal.program() == str(SCRIPT)


def test_a_script_of_the_user_names_the_program_of_its_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "a venv" / "python"))
    assert terminal.program() == f"'{tmp_path}/a venv/python' -m selfplay"
    script = tmp_path / "a venv" / "selfplay"
    script.parent.mkdir()
    script.touch(mode=0o755)
    assert terminal.program() == f"'{script}'"
    monkeypatch.chdir(tmp_path)
    assert terminal.program() == "'a venv/selfplay'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert terminal.program() == "selfplay"
