"""The example of two scripted populations, run as a user runs it."""

import subprocess
import sys
from pathlib import Path

from league import League, read_league

SCRIPT = Path(__file__).parents[2] / "examples" / "league" / "two_populations.py"


def test_the_league_shows_that_both_sides_improve(tmp_path):
    """Students practise and teachers are selected; their matches with frozen members show it."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["teacher", "student"]
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
