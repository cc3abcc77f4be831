"""Commands that are printed work as they stand."""

import sys
from pathlib import Path

from selfplay import errors


def test_a_printed_command_is_of_this_python(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))  # another environment's
    (tmp_path / "a venv").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "a venv" / "python"))
    assert errors.program() == f"'{tmp_path}/a venv/python' -m selfplay"
    monkeypatch.chdir(tmp_path)
    assert errors.program() == "'a venv/python' -m selfplay"
    (tmp_path / "a venv" / "selfplay").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "a venv"))
    assert errors.program() == "selfplay"
