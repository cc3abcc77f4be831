"""The analysis verbs, as a user types them."""

import json

import pytest
from click.testing import CliRunner

from league import League, LeagueConfig, Outcome
from league.cli import main

VERBS = (
    "calibration",
    "interaction",
    "nash",
    "alpha-rank",
    "diversity",
    "survival",
    "drift",
    "generations",
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("analysis") / "l"
    config = LeagueConfig(seed=1, matcher="uniform")
    with League(path, ["t0", "t1", "t2"], ["s0", "s1", "s2"], config) as league:
        for number in range(12):
            for pair in league.pair(number):
                solved = 6 + 6 * int(pair.student[1]) + 5 * int(pair.teacher[1])
                league.record(pair, Outcome(4, 4, 32, solved, 0))
    return str(path)


@pytest.fixture(scope="module")
def young(tmp_path_factory):
    """Nobody has met anybody yet."""
    path = tmp_path_factory.mktemp("young") / "l"
    League(path, ["t0", "t1"], ["s0", "s1"]).close()
    return str(path)


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_prints_a_table_and_json_and_repeats_itself(directory, verb):
    plain = run(verb, directory)
    assert plain.exit_code == 0, plain.output
    assert len(plain.stdout.splitlines()) >= 1
    found = run(verb, directory, "--json")
    assert found.exit_code == 0
    assert isinstance(json.loads(found.stdout), dict)
    assert run(verb, directory, "--json").stdout == found.stdout
    assert run(verb, directory).stdout == plain.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_changes_the_league_or_trips_over_a_missing_one(directory, verb, tmp_path):
    result = run(verb, str(tmp_path / "nowhere"))
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "no league in" in result.stderr


@pytest.mark.parametrize("verb", ["nash", "alpha-rank", "diversity"])
def test_blanks_are_refused_until_filled(young, verb):
    result = run(verb, young)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "--fill predicted" in result.stderr
    filled = run(verb, young, "--fill", "predicted")
    assert filled.exit_code == 0
    assert "note: 4 of 4 pairs have never met" in filled.stdout


@pytest.mark.parametrize("verb", ["calibration", "survival", "drift", "generations"])
def test_a_league_without_matches_is_no_error(young, verb):
    assert run(verb, young).exit_code == 0
    assert run(verb, young, "--json").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("nash", "--top", "0"),
        ("alpha-rank", "--alpha", "0"),
        ("alpha-rank", "--alpha", "nan"),
        ("generations", "--cohorts", "0"),
        ("calibration", "--since", "-1"),
        ("interaction", "--top", "1"),
        ("diversity", "--seed", "x"),
    ],
)
def test_wrong_use_is_told_in_one_line(directory, arguments):
    verb, *rest = arguments
    result = run(verb, directory, *rest)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_large_leagues_are_cut_down_and_say_so(tmp_path):
    path = tmp_path / "large"
    League(path, [f"t{i}" for i in range(70)], [f"s{i}" for i in range(33)]).close()
    ranked = run("alpha-rank", str(path), "--fill", "predicted")
    assert "note: the best 32 of 70 teachers by mu - 3 sigma" in ranked.stdout
    assert len(json.loads(run("survival", str(path), "--json").stdout)["teachers"]["lines"]) == 70
    shown = run("survival", str(path)).stdout
    assert "--json has all" in shown
    assert sum(line.startswith("teacher") for line in shown.splitlines()) == 1 + 20
    assert sum(line.startswith("student") for line in shown.splitlines()) == 1 + 33
    refused = run("alpha-rank", str(path), "--fill", "predicted", "--top", "33")
    assert refused.exit_code == 2
    assert "at most 32 a side" in refused.stderr


def test_the_tables_say_what_happened(directory):
    nash = run("nash", directory).stdout
    # The teachers want low shares: t0 has the lowest row, and s2 is the best student.
    rows = {line.split()[1]: line.split()[2] for line in nash.splitlines()[1:7]}
    assert rows["t0"] == rows["s2"] == "1.00"
    assert "value 0.5625" in nash
    assert run("generations", directory).stdout.count("note: nobody has been replaced") == 1
    assert "no anchors" in run("drift", directory).stdout
    cells = json.loads(run("interaction", directory, "--json").stdout)
    assert cells["observed"][0] == [6 / 32, 12 / 32, 18 / 32]


def test_the_board_shows_where_a_member_could_stand(directory):
    board = run("board", directory)
    assert "ranks" in board.stdout.splitlines()[0].split()
    rows = json.loads(run("board", directory, "--json").stdout)["student"]
    assert rows[0]["member"] == "s2"
    assert rows[0]["ranks"]["low"] == 1
    assert rows[0]["ranks"]["rank"] == 1
