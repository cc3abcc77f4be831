"""Examples run as a user runs them, on public doors only."""

import ast
import runpy
from pathlib import Path

from programs import python

from league import League, read_league

EXAMPLES = Path(__file__).parents[2] / "examples"
LOOP = EXAMPLES / "minimal_populora.py"
DOORS = {"code_verifier", "league", "lora_evo", "lora_evo.model", "selfplay"}


def test_a_loop_of_its_own_trains_and_prints_solve_rates(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(LOOP), "--steps", "2"])
    runpy.run_path(str(LOOP), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert sum(" tasks by t" in line for line in lines) == 4
    assert any(line.endswith("%") and "solves" in line for line in lines)
    assert sum("rating" in line for line in lines) == 4


def test_a_loop_of_its_own_imports_from_doors_only():
    text = LOOP.read_text()
    assert len(text.splitlines()) <= 200
    imported = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
    ours = {name for name in imported if name and name.split(".")[0] in {"evals", *DOORS}}
    assert {"league", "lora_evo", "selfplay"} <= ours <= DOORS


def test_a_task_kind_of_its_own_is_one_short_file_on_doors_only():
    text = (EXAMPLES / "own_task_kind.py").read_text()
    assert len(text.splitlines()) <= 100
    imported = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
    assert {name for name in imported if name and name.split(".")[0] in DOORS} <= DOORS


def test_the_league_shows_that_both_sides_improve(tmp_path):
    """Students practise and teachers are selected; their matches with frozen members show it."""
    said = python(EXAMPLES / "league" / "two_populations.py", cwd=tmp_path)
    assert [line.split()[0] for line in said.splitlines()] == ["teacher", "student"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]
    league = League(tmp_path / "run" / "league", read_only=True)
    assert len(league.replacements()) == 12
    matches = read_league(tmp_path / "run" / "league").matches
    rows = list(
        zip(*(matches[name] for name in ("teacher", "student", "solved", "attempts")), strict=True)
    )

    def solve_rates(anchor):
        met = [row for row in rows if anchor in row[:2]]
        thirds = met[: len(met) // 3], met[-len(met) // 3 :]
        return [sum(r[2] for r in part) / sum(r[3] for r in part) for part in thirds]

    first, last = solve_rates("base-t")
    assert last > first + 0.2
    first, last = solve_rates("base-s")
    assert last < first - 0.1
