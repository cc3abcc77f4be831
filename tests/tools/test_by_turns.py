"""Speeds of two commits by turns: a tiny repository whose package changed between them."""

import subprocess
import sys
from pathlib import Path

import by_turns
import pytest

BENCHMARK = """
from league import TIMES
print("| tasks | at once | times |")
print("|---|---|---|")
print(f"| 1 | 64 | {TIMES} |")
print("| 1 | 5000 | 1,000 |")
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of two commits: its league was half as fast in the first."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    package = tmp_path / "league" / "src" / "league"
    for folder in (package, tmp_path / "benchmarks", tmp_path / "docs"):
        folder.mkdir(parents=True)
    (tmp_path / "benchmarks" / "league_ratings.py").write_text(BENCHMARK)
    (package / "__init__.py").write_text("TIMES = 2.0")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    (package / "__init__.py").write_text("TIMES = 4.0")
    row = "| it | is fast | `python benchmarks/{}.py`, `{}` |"
    first = git("rev-parse", "--short=7", "HEAD")
    rows = [("league_ratings", first), ("lora_children", first), ("league_ratings", "0" * 7)]
    table = "\n".join(row.format(*names) for names in rows)
    (tmp_path / "docs" / "results.md").write_text(f"\n## Speed\n\n{table}\n\n## Limits\n")
    monkeypatch.setattr(by_turns, "ROOT", tmp_path)
    return tmp_path


def test_a_figure_that_moved_is_marked(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a benchmark or a commit that is not there is said in its row."""
    monkeypatch.setattr(sys, "argv", ["by_turns"])
    by_turns.main()
    printed = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.split("|")[3:-1]] for line in printed[2:-2]]
    assert cells == [
        ["1, 64, times", "2", "4", "2", "MOVED"],
        ["1, 5000, times", "1,000", "1,000", "1", ""],
        ["", "", "", "", "then: it has no such benchmark"],
        ["", "", "", "", "then: this commit is not in the history here"],
    ]
    assert printed[-1].startswith("1 of 2 figures moved")
