"""The example with a loop of its own runs, on public doors only."""

import ast
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "minimal_populora.py"
DOORS = {"code_verifier", "league", "lora_evo", "lora_evo.model", "selfplay"}


def test_it_trains_and_prints_solve_rates():
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--steps", "2"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert sum(" tasks by t" in line for line in lines) == 4
    assert any(line.endswith("%") and "solves" in line for line in lines)
    assert sum("rating" in line for line in lines) == 4


def test_it_imports_from_doors_only():
    text = EXAMPLE.read_text()
    assert len(text.splitlines()) <= 200
    imported = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
    ours = {name for name in imported if name and name.split(".")[0] in {"evals", *DOORS}}
    assert ours == DOORS
