"""The example with a loop of its own runs, on public doors only."""

import ast
import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "minimal_populora.py"
DOORS = {"code_verifier", "league", "lora_evo", "lora_evo.model", "selfplay"}


def test_it_trains_and_prints_solve_rates(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), "--steps", "2"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert sum(" tasks by t" in line for line in lines) == 4
    assert any(line.endswith("%") and "solves" in line for line in lines)
    assert sum("rating" in line for line in lines) == 4


def test_it_imports_from_doors_only():
    text = EXAMPLE.read_text()
    assert len(text.splitlines()) <= 200
    imported = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
    ours = {name for name in imported if name and name.split(".")[0] in {"evals", *DOORS}}
    assert ours == DOORS
