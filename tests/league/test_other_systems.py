"""On Windows and macOS a league works; where files have no locks, it says so."""

from elsewhere import worked

NUMPY = "click, numpy"


def test_results_in_files_are_rated(tmp_path):
    (tmp_path / "rows.csv").write_text("member,opponent,outcome\na,b,1\nb,c,0.5\n")
    program = "from league.cli import main\nmain(['board', '--rows', sys.argv[1]])"
    assert worked(program, tmp_path / "rows.csv", after=NUMPY).splitlines()[1].startswith("a ")


def test_a_league_is_founded_played_and_read(tmp_path):
    program = """
from league import League, Outcome
from league.cli import main
with League(sys.argv[1], ["t0"], ["s0"]) as league:
    assert "cannot be locked" in league.warnings[0]
    for pair in league.pair(0):
        league.record(pair, Outcome(8, 6, 24, 6, 2))
main(["board", sys.argv[1]])
"""
    assert "teacher  t0" in worked(program, tmp_path / "l", after=NUMPY)
    assert b"\r" not in (tmp_path / "l" / "events.jsonl").read_bytes()
