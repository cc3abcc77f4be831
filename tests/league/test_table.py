"""`rate`: a table of results becomes ratings, without a league."""

import csv
import json

import numpy as np
import pytest
import trueskill
from click.testing import CliRunner
from json_lines import write_rows

from league import League, LeagueConfig, LeagueError, Outcome, rate
from league.cli import main


def beliefs(rated):
    return {row.member: (row.mu, row.sigma) for row in rated}


def test_games_are_trueskills():
    """Wins and losses in a row give what the `trueskill` package gives, whoever plays."""
    env = trueskill.TrueSkill(draw_probability=0.0)
    rng = np.random.default_rng(4)
    names = ["a", "b", "c", "d"]
    expected = {name: env.create_rating() for name in names}
    rows = []
    for _ in range(25):
        winner, loser = rng.choice(names, 2, replace=False).tolist()
        expected[winner], expected[loser] = trueskill.rate_1vs1(
            expected[winner], expected[loser], env=env
        )
        row = {"member": winner, "opponent": loser, "outcome": 1}
        rows.append(
            row if rng.random() < 0.5 else {"teacher": winner, "student": loser, "outcome": 0}
        )
    found = rate(rows)
    for row in found:
        belief = expected[row.member]
        assert (row.mu, row.sigma) == pytest.approx((belief.mu, belief.sigma), abs=1e-4)
        assert row.lower_bound == pytest.approx(env.expose(belief), abs=1e-3)
    assert [row.lower_bound for row in found] == sorted(
        (r.lower_bound for r in found), reverse=True
    )
    assert sum(row.matches for row in found) == 50


def test_outcomes_are_rated_as_a_league_rates_them(tmp_path):
    config = LeagueConfig(tau=0.4, evidence=0.5, max_weight=12.0)
    rng = np.random.default_rng(1)
    rows = []
    with League(tmp_path / "l", ["t0", "t1", "t2"], ["s0", "s1", "s2"], config) as league:
        for number in range(8):
            for pair in league.pair(number):
                solved = int(rng.integers(1, 33))
                outcome = Outcome(40, 32, 64, solved, max(0, 32 - solved))
                league.record(pair, outcome)
                rows.append({"teacher": pair.teacher, "student": pair.student, "outcome": outcome})
        found = beliefs(rate(rows, config))
        for name, belief in found.items():
            assert belief == (league.rating(name).mu, league.rating(name).sigma)
    assert beliefs(rate(rows)) != found


def test_a_share_of_several_tasks_is_solved_of_attempts():
    both = {"member": "a", "opponent": "b"}
    whole = beliefs(rate([both | {"solved": 3, "attempts": 4}]))
    assert beliefs(rate([both | {"outcome": 0.75, "tasks": 4}])) == whole
    assert beliefs(rate([{"teacher": "b", "student": "a", "outcome": 0.75, "tasks": 4}])) == whole
    # Attempts that share a task are worth less.
    fewer = beliefs(rate([both | {"solved": 3, "attempts": 4, "tasks": 1}]))
    assert fewer["a"][1] > whole["a"][1]
    assert 25.0 < fewer["a"][0] < whole["a"][0]
    assert beliefs(rate([both | {"solved": 0, "attempts": 0}]))["a"][0] == 25.0
    assert rate([]) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"member": "a", "opponent": "a", "outcome": 1}, "row 2: a plays itself"),
        ({"member": "a", "outcome": 1}, "row 2: .*member and opponent; found member, outcome$"),
        ({"teacher": "a", "student": "b"}, "row 2 has no 'solved'"),
        ({"teacher": "a", "student": "b", "outcome": "won"}, "row 2: could not convert"),
        ({"teacher": "a", "student": "b", "outcome": 1.5}, "row 2: the outcome is 1.5"),
        ({"teacher": "a", "student": "b", "outcome": float("nan")}, "row 2: the outcome is nan"),
        ({"teacher": "a", "student": "b", "solved": 3, "attempts": 2}, "row 2: solved 3 of 2"),
        ({"teacher": "a", "student": "b", "outcome": 1, "tasks": -1}, "row 2: tasks is -1"),
    ],
)
def test_a_row_that_makes_no_sense_is_named(row, message):
    with pytest.raises(LeagueError, match=message):
        rate([{"teacher": "x", "student": "y", "outcome": 1}, row])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_the_board_of_a_file(tmp_path, suffix):
    rows = [
        {"teacher": "t0", "student": "s0", "solved": 30, "attempts": 40},
        {"teacher": "t0", "student": "s1", "solved": 10, "attempts": 40},
    ]
    path = tmp_path / f"results{suffix}"
    if suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        write_rows(path, rows)
    plain = CliRunner().invoke(main, ["board", "--rows", str(path)])
    assert [line.split()[0] for line in plain.stdout.splitlines()] == ["member", "t0", "s0", "s1"]
    found = json.loads(CliRunner().invoke(main, ["board", "--rows", str(path), "--json"]).stdout)
    assert {r["member"]: (r["mu"], r["sigma"]) for r in found} == beliefs(rate(rows))
    path.write_text("[1]\n")  # of CSV it is a heading alone
    wrong = CliRunner().invoke(main, ["board", "--rows", str(path)])
    assert wrong.exit_code == 2
