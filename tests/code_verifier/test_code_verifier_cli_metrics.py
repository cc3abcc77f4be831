"""`metrics`, `coverage` and `compare` on good files and bad ones."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from code_verifier.commands.measuring import compare, coverage, metrics
from code_verifier.metrics.measurement import NUMBERS

PLAIN = {"id": "a", "program": "def f(x):\n    return x + 1", "step": 1, "kind": "code_o"}
TWIN = {"program": "def f(y):\n    return y + 2", "step": 2, "teacher": "t0", "student": "s1"}
AZR = {"snippet": "def f(x):\n    return math.pi", "imports": ["import math"], "input": "1"}
BROKEN = {"id": 9, "program": "def f("}


def call(command: click.Command, *args: object) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args])


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_metrics_rows_carry_what_tells_where_they_are_from(tmp_path: Path) -> None:
    rows = write(tmp_path / "in", PLAIN, TWIN, AZR, BROKEN)
    result = call(metrics, rows, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    first, second, azr, broken = lines(tmp_path / "out")
    names = {*NUMBERS, "structure"}
    assert set(first) == {"id", "step", "kind", *names}
    assert set(second) == {"id", "step", "teacher", "student", *names}
    assert (first["id"], second["id"], azr["id"]) == ("a", 2, 3)
    assert (azr["imports"], azr["loc"]) == (1, 3)
    assert set(broken) == {"id", "error"}
    head = json.loads(result.stdout)
    assert (head["programs"], head["unparsed"], head["structures"]) == (3, 1, 2)
    table = call(metrics, rows, "--out", tmp_path / "out")
    assert "halstead_effort" in table.stdout


def test_metrics_page(tmp_path: Path) -> None:
    rows = write(tmp_path / "in.jsonl", PLAIN, TWIN, AZR, BROKEN)
    result = call(metrics, rows, "--out", tmp_path / "out", "--html", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text()
    assert "<title>in.jsonl</title>" in page
    assert str(tmp_path) not in page
    assert "Trends over the steps" in page
    assert "return x + 1" in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out", "page.html"]


def test_a_page_that_cannot_be_written_keeps_the_results(tmp_path: Path) -> None:
    rows = write(tmp_path / "in", PLAIN)
    for bad in (tmp_path / "none" / "page", tmp_path):
        result = call(metrics, rows, "--out", tmp_path / "out", "--html", bad)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert "cannot write" in result.stderr
        assert len(lines(tmp_path / "out")) == 1
        (tmp_path / "out").unlink()


@pytest.mark.parametrize(
    "bad", ['{"input": "1"}', '{"program": 7}', "{", '{"snippet": "x", "imports": 3}']
)
def test_a_row_without_a_program_stops_or_is_skipped(tmp_path: Path, bad: str) -> None:
    rows = write(tmp_path / "in", PLAIN, bad, TWIN)
    for command, args in ((metrics, ["--out", tmp_path / "out"]), (coverage, [])):
        stopped = call(command, rows, *args)
        assert stopped.exit_code == 2
        assert "line 2" in stopped.stderr
        skipped = call(command, rows, *args, "--on-error", "skip")
        assert skipped.exit_code == 0, skipped.output
        assert "line 2" in skipped.stderr
    assert len(lines(tmp_path / "out")) == 2


def test_odd_programs_are_rows_with_an_error(tmp_path: Path) -> None:
    odd = ["x\x00", "x = '\ud800'", "(" * 500, "-" * 100_000 + "1", "x = 1\n" * 200_000]
    rows = write(tmp_path / "in", *({"program": text, "step": "no"} for text in odd))
    result = call(metrics, rows, "--out", tmp_path / "out", "--html", tmp_path / "page", "--json")
    assert result.exit_code == 0, result.output
    assert all("error" in row for row in lines(tmp_path / "out"))
    assert json.loads(result.stdout)["unparsed"] == len(odd)
    assert "There is no program to show" in (tmp_path / "page").read_text()


@pytest.mark.parametrize("step", [None, "3", True, float("inf"), [1]])
def test_a_step_that_is_no_number_draws_no_trend(tmp_path: Path, step: object) -> None:
    rows = write(tmp_path / "in", {**PLAIN, "step": step}, TWIN)
    result = call(metrics, rows, "--out", tmp_path / "out", "--html", tmp_path / "page")
    assert result.exit_code == 0, result.output
    assert "Trends" not in (tmp_path / "page").read_text()


def test_empty_files(tmp_path: Path) -> None:
    rows = write(tmp_path / "in")
    result = call(metrics, rows, "--out", tmp_path / "out", "--html", tmp_path / "page", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {
        "programs": 0,
        "unparsed": 0,
        "structures": 0,
        "metrics": {},
    }
    for args in ((rows,), (rows, "--json")):
        assert call(coverage, *args).exit_code == 0
    for left, right in ((rows, rows), (write(tmp_path / "one", PLAIN), rows)):
        empty = call(compare, left, right)
        assert empty.exit_code == 2
        assert "no program can be measured" in empty.stderr


def test_coverage(tmp_path: Path) -> None:
    rows = write(tmp_path / "in", PLAIN, TWIN, AZR, BROKEN)
    found = json.loads(call(coverage, rows, "--json").stdout)
    assert (found["programs"], found["unparsed"]) == (3, 1)
    assert set(found) == {"programs", "unparsed", "structure", "node_types", "imports"}
    assert found["structure"]["distinct"] == 2
    assert found["structure"]["growth"] == [[1, 1], [2, 1], [3, 2]]
    assert found["structure"]["repeated"][0]["example"] == PLAIN["program"]
    shown = call(coverage, rows)
    assert "by node_types" in shown.stdout
    assert "1 after 1, 1 after 2, 2 after 3" in shown.stdout


def test_compare(tmp_path: Path) -> None:
    left = write(tmp_path / "left", PLAIN, TWIN)
    right = write(tmp_path / "right", PLAIN, AZR, BROKEN)
    found = json.loads(call(compare, left, right, "--json").stdout)
    assert (found["left_programs"], found["right_programs"]) == (2, 2)
    assert set(found["numbers"]) == set(NUMBERS)
    assert found["jaccard"] == 0.5
    assert found["numbers"]["imports"]["superiority"] == 0.75
    shown = call(compare, left, right)
    assert shown.exit_code == 0
    assert "1 shared (Jaccard 0.500)" in shown.stdout


def test_wrong_use_ends_with_2(tmp_path: Path) -> None:
    rows = write(tmp_path / "in", PLAIN)
    for command, args in (
        (metrics, (rows, "--out", tmp_path / "out", "--workers", 0)),
        (metrics, (rows, "--out", tmp_path / "none" / "out")),
        (metrics, (tmp_path / "none", "--out", tmp_path / "out")),
        (coverage, (tmp_path / "none",)),
        (coverage, (rows, "--top", -1)),
        (compare, (rows,)),
        (compare, (rows, tmp_path)),
    ):
        result = call(command, *args)
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output


def test_many_rows_over_processes_are_the_same(tmp_path: Path) -> None:
    many = (
        {**PLAIN, "id": i, "program": f"def f(x): return x {'+ x ' * (i % 7)}"} for i in range(1500)
    )
    rows = write(tmp_path / "in", *many)
    outs = []
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        assert call(metrics, rows, "--out", out, "--workers", workers).exit_code == 0
        outs.append(out.read_bytes())
    assert outs[0] == outs[1]
