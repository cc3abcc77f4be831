"""The example of two scripted populations, run as a user runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from league import League
from league.analysis import drift, history, interaction

SCRIPT = Path(__file__).parents[2] / "examples" / "league" / "two_populations.py"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where the script has run."""
    home = tmp_path_factory.mktemp("example")
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=home, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["teacher", "student"]
    return home


def test_the_league_sees_what_was_planted(home):
    """Students practise and teachers are selected: both get better, and nobody makes a cycle."""
    league = League(home / "run" / "league", read_only=True)
    assert len(league.replacements()) == 12
    past = history(league)
    spans = drift(past).against_anchors
    students = [span.solve_rate for span in spans if span.role == "student"]
    teachers = [span.solve_rate for span in spans if span.role == "teacher"]
    assert students[-1] > students[0] + 0.3
    assert teachers[-1] < teachers[0] - 0.1
    assert not interaction(past).found


def test_it_writes_nothing_outside_its_league_and_repeats_itself(home, tmp_path):
    assert sorted(p.name for p in home.iterdir()) == ["run"]
    subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=tmp_path, capture_output=True, timeout=120, check=True
    )
    for name in ("events.jsonl", "snapshot.json", "league.json"):
        first, second = (base / "run" / "league" / name for base in (home, tmp_path))
        assert first.read_bytes() == second.read_bytes()
