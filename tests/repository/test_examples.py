"""Examples run as a user runs them, on public doors only."""

import ast
import re
import runpy
from pathlib import Path

import pytest
from programs import python

from league import League, read_league

EXAMPLES = Path(__file__).parents[2] / "examples"
LOOP, BASELINES = EXAMPLES / "minimal_populora.py", EXAMPLES / "role_baselines.py"
DOORS = {"code_verifier", "league", "lora_evo", "lora_evo.model", "selfplay"}


@pytest.mark.usefixtures("short")
def test_a_loop_of_its_own_trains_and_prints_solve_rates(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(LOOP), "--steps", "2"])
    runpy.run_path(str(LOOP), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert sum(" tasks by t" in line for line in lines) == 4
    assert any(line.endswith("%") and "solves" in line for line in lines)
    assert sum("rating" in line for line in lines) == 4


@pytest.mark.parametrize(
    ("path", "lines"), [(LOOP, 200), (BASELINES, 40), (EXAMPLES / "own_task_kind.py", 100)]
)
def test_a_file_of_ones_own_is_short_and_imports_from_doors_only(path, lines):
    text = path.read_text()
    assert len(text.splitlines()) <= lines
    imported = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
    assert {name for name in imported if name.split(".")[0] in {"evals", *DOORS}} <= DOORS


@pytest.mark.usefixtures("short")
def test_a_loops_baselines_are_in_its_checkpoints(tmp_path):
    main = runpy.run_path(str(BASELINES))["main"]
    found = main(tmp_path / "run", 2)
    assert found.keys() >= {"propose code_o", "solve code_o"}
    assert main(tmp_path / "run", 2) == found  # nothing is left to do


def test_the_league_shows_that_both_sides_improve(tmp_path):
    """Students practise and teachers are selected; matches with others that never learn show it."""
    said = python(EXAMPLES / "league" / "two_populations.py", cwd=tmp_path)
    lines = said.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["teacher", "student"]
    solved = [int(share) for share in re.findall(r"(\d+)%", said)]
    assert solved[2] > solved[0] + 20, "students on the tasks of base-t"
    assert solved[3] < solved[1] - 10, "base-s on the teachers' tasks"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]
    league = League(tmp_path / "run" / "league", read_only=True)
    assert len(league.replacements()) == 12
    assert len(read_league(tmp_path / "run" / "league").matches["round"]) == 260
