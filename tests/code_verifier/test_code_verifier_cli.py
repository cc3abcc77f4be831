"""The command, on good files and bad ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from code_verifier.cli import main


def call(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return path


GOOD = {"id": "a", "program": "def f(x):\n    return x + 1", "input": "1"}
AZR = {"snippet": "def f(x):\n    return math.floor(x)", "input": "1.5", "imports": ["import math"]}
MANY = {"snippet": "def f(x):\n    return x", "inputs": ["1", "'a'"], "imports": []}


def test_check_keeps_the_order_and_reads_azr_rows(tmp_path: Path) -> None:
    rows = write(tmp_path / "in", GOOD, "", AZR, MANY, {**GOOD, "program": "f("})
    result = call("check", rows, "--out", tmp_path / "out", "--workers", 2, "--json")
    assert result.exit_code == 0, result.output
    found = lines(tmp_path / "out")
    assert [row["status"] for row in found] == ["ok", "ok", "ok", "syntax_error"]
    assert [row["output"] for row in found] == ["2", "1", "[1, 'a']", None]
    assert [row["id"] for row in found] == ["a", 3, 4, "a"]
    assert set(found[0]) == {"id", "status", "output", "reason", "wall_ms", "runs"}
    assert json.loads(result.stdout) == {"rows": 4, "status": {"ok": 3, "syntax_error": 1}}


@pytest.mark.parametrize("bad", ["{", "[1]", '{"input": "1"}', '{"program": 1, "input": "1"}'])
def test_a_bad_line_stops_or_is_skipped(tmp_path: Path, bad: str) -> None:
    rows = write(tmp_path / "in", GOOD, bad, GOOD)
    stopped = call("check", rows, "--out", tmp_path / "out")
    assert stopped.exit_code == 2
    assert "line 2" in stopped.stderr
    assert len(lines(tmp_path / "out")) == 1
    skipped = call("check", rows, "--out", tmp_path / "out", "--on-error", "skip")
    assert skipped.exit_code == 0
    assert "line 2" in skipped.stderr
    assert len(lines(tmp_path / "out")) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_wrong_use_ends_with_2(tmp_path: Path) -> None:
    rows = write(tmp_path / "in", GOOD)
    for args in (
        ("check", rows, "--out", tmp_path / "out", "--workers", 0),
        ("check", rows, "--out", tmp_path / "out", "--runs", 1),
        ("check", rows, "--out", tmp_path / "none" / "out"),
        ("check", rows, "--out", tmp_path),
        ("check", tmp_path / "none", "--out", tmp_path / "out"),
        ("check", tmp_path, "--out", tmp_path / "out"),
        ("metrics", rows),
    ):
        result = call(*args)
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output


def test_an_empty_file_gives_an_empty_file(tmp_path: Path) -> None:
    for command in ("check", "grade", "metrics"):
        result = call(command, write(tmp_path / "in"), "--out", tmp_path / "out")
        assert result.exit_code == 0, result.output
        assert (tmp_path / "out").read_text() == ""


def test_grade(tmp_path: Path) -> None:
    square = "def f(x):\n    return x * x"
    rows = write(
        tmp_path / "in",
        {"id": 1, "kind": "code_o", "output": "4", "answer": "4"},
        {"id": 2, "kind": "code_i", "program": square, "output": "4", "answer": "-2"},
        {"id": 3, "kind": "code_f", "inputs": ["1", "3"], "outputs": ["1", "9"], "answer": square},
        {"id": 4, "kind": "code_o", "output": "4", "answer": "4.0"},
    )
    result = call("grade", rows, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    found = lines(tmp_path / "out")
    assert [row["score"] for row in found] == [1.0, 1.0, 1.0, 0.0]
    assert (found[2]["passed"], found[2]["total"]) == (2, 2)
    call("grade", rows, "--out", tmp_path / "out", "--python-equality")
    assert lines(tmp_path / "out")[3]["score"] == 1.0
    bad = write(tmp_path / "bad", {"id": 1, "kind": "code_x", "answer": "4"})
    assert call("grade", bad, "--out", tmp_path / "out").exit_code == 2


def test_metrics(tmp_path: Path) -> None:
    rows = write(tmp_path / "in", GOOD, AZR, {"id": "b", "program": "f("})
    result = call("metrics", rows, "--out", tmp_path / "out", "--json")
    found = lines(tmp_path / "out")
    assert found[0]["cyclomatic"] == 1
    assert found[1]["imports"] == 1
    assert "error" in found[2]
    summary = json.loads(result.stdout)
    assert (summary["programs"], summary["unparsed"]) == (2, 1)
    assert summary["metrics"]["loc"]["p50"] == 2.5
    assert "ast_depth" in call("metrics", rows, "--out", tmp_path / "out").stdout


def test_doctor_names_the_layers() -> None:
    found = json.loads(call("doctor", "--json").stdout)
    assert found["works"]
    assert {"seccomp", "rlimits"} <= {layer["name"] for layer in found["layers"]}
    assert "seccomp" in call("doctor").stdout


def test_version() -> None:
    assert call("--version").output.startswith("code-verifier, version")
