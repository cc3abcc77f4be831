"""`rate`: a table of results becomes ratings, without a league."""

import csv
import itertools
import json
import math

import numpy as np
import pytest
from json_lines import write_rows

from league import LeagueConfig, LeagueError, Outcome, find_cycle, rate
from league.table import read_rows
from league_command import run

PAIR = {"member": "a", "opponent": "b"}
MATCH = {"teacher": "a", "student": "b"}
VOTE = {"model_a": "a", "model_b": "b"}


def beliefs(rated):
    return {row.member: (row.mu, row.sigma) for row in rated}


def log_posterior(teacher, student, won, lost, config):
    """Of two skills, in plain arithmetic."""
    z = (student - teacher) / (2.0 * config.beta)  # of erfc, whose unit is sqrt(2) deviations
    prior = sum(((x - config.mu) / config.sigma) ** 2 for x in (teacher, student)) / 2.0
    return won * math.log(math.erfc(-z) / 2.0) + lost * math.log(math.erfc(z) / 2.0) - prior


@pytest.mark.parametrize(("won", "lost"), [(1, 0), (31, 9), (0, 40), (7.25, 12.5)])
@pytest.mark.parametrize(
    "config", [LeagueConfig(), LeagueConfig(mu=0.0, sigma=2.0, beta=0.5, tau=0.0)]
)
def test_two_members_are_where_a_search_finds_the_maximum(won, lost, config):
    def density(one, two):
        return log_posterior(one, two, won, lost, config)

    at, step = (config.mu, config.mu), config.sigma
    while step > 1e-8:
        around = [(at[0] + i * step, at[1] + j * step) for i in range(-2, 3) for j in range(-2, 3)]
        best = max(around, key=lambda point: density(*point))
        at, step = best, step / 2.0 if best == at else step
    h, signs = 1e-3 * config.sigma, (-1, 1)
    steps = h * np.eye(2)
    curve = np.zeros((2, 2))
    for i, j, a, b in itertools.product((0, 1), (0, 1), signs, signs):
        curve[i, j] += a * b * density(*(at + a * steps[i] + b * steps[j])) / (4.0 * h * h)
    covariance = np.linalg.inv(-curve)
    row = {"teacher": "t", "student": "s", "outcome": won / (won + lost), "tasks": won + lost}
    found = {r.member: r for r in rate([row], config)}
    for i, name in enumerate("ts"):
        assert found[name].mu == pytest.approx(at[i], abs=1e-5 * config.sigma)
        assert found[name].sigma == pytest.approx(covariance[i, i] ** 0.5, rel=1e-4)
    gap = (covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]) ** 0.5
    second = max(found.values(), key=lambda r: r.behind_sigma)
    assert second.behind_sigma == pytest.approx(gap, rel=1e-4)
    assert second.behind == pytest.approx(abs(at[0] - at[1]), abs=1e-5 * config.sigma)


def test_every_order_of_the_rows_gives_the_same_bits():
    rng, table = np.random.default_rng(1), []
    for _ in range(60):
        one, two = rng.choice(10, 2, replace=False).tolist()
        won = int(rng.integers(8))
        table.append({"member": one, "opponent": two, "solved": won, "attempts": 7})
    table += [row | {"tasks": 3.3, "attempts": 8} for row in table[:9]]
    whole = rate(table)
    for _ in range(10):
        assert rate([table[i] for i in rng.permutation(len(table))]) == whole
    assert rate(reversed(table)) == whole
    turned = [
        {"teacher": r["opponent"], "student": r["member"], "solved": r["solved"]}
        | {name: r[name] for name in ("attempts", "tasks") if name in r}
        for r in table
    ]
    assert rate(turned) == whole


def test_a_share_of_several_tasks_is_solved_of_attempts():
    counts = PAIR | {"solved": 3, "attempts": 4}
    whole = beliefs(rate([counts]))
    assert beliefs(rate([PAIR | {"outcome": 0.75, "tasks": 4}])) == whole
    assert beliefs(rate([{"teacher": "b", "student": "a", "outcome": 0.75, "tasks": 4}])) == whole
    outcome = Outcome(tasks=4, valid=4, attempts=8, solved=6, unsolved=1)
    assert beliefs(rate([PAIR | {"outcome": outcome}])) == whole
    # Attempts that share a task are worth less.
    fewer = rate([counts | {"tasks": 1}])
    assert fewer[1].behind_sigma > rate([counts])[1].behind_sigma
    assert 25.0 < fewer[0].mu < whole["a"][0]
    half = rate([counts], LeagueConfig(evidence=0.25))
    assert beliefs(half) == beliefs(fewer)
    assert beliefs(rate([PAIR | {"solved": 0, "attempts": 0}]))["a"] == (25.0, 25 / 3)
    assert rate([]) == []


def test_numbers_are_names_and_spaces_around_a_name_do_not_count():
    rows = [
        {"member": 0, "opponent": False, "outcome": 1},
        {"member": "0 ", "opponent": 1.0, "outcome": 1},
        {"member": " 0", "opponent": np.int64(1), "outcome": 0.5},
    ]
    assert {row.member: row.matches for row in rate(rows)} == {"0": 3, "1": 2, "False": 1}


@pytest.mark.parametrize("nothing", [None, math.nan, np.float64("nan"), "", " "])
def test_an_empty_cell_is_not_given(nothing):
    assert rate([PAIR | {"outcome": 1, "tasks": nothing}]) == rate([PAIR | {"outcome": 1}])
    row = PAIR | {"solved": 3, "attempts": 4}
    for names in (["outcome"], ["teacher", "student"]):
        assert rate([row | dict.fromkeys(names, nothing)]) == rate([row])
    for name in ("member", "opponent"):
        with pytest.raises(LeagueError, match=rf"row 2: expected names .*; found .*{name} "):
            rate([row, row | {name: nothing}])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"member": 1, "opponent": "1 ", "outcome": 1}, "row 2: 1 plays itself"),
        (MATCH, "row 2: it has no result; expected outcome, or"),
        ({"white": "a", "black": "b"}, "row 2: expected names .*; found white, black$"),
        (MATCH | {"outcome": "won"}, "row 2: outcome is 'won'; expected a finite"),
        (MATCH | {"outcome": 1.5}, "row 2: outcome is 1.5; expected .* <= 1$"),
        (MATCH | {"solved": 3, "attempts": math.inf}, "row 2: attempts is inf"),
        (MATCH | {"solved": 3, "attempts": 2}, "row 2: solved is 3.0; .* <= 2$"),
        (MATCH | {"outcome": 1, "tasks": -1}, "row 2: tasks is -1"),
        (MATCH | {"outcome": 0.6, "tasks": 1e18}, "row 2: tasks is 1e\\+18; .* <= 1e\\+09$"),
        (MATCH | {"outcome": 1, "tasks": 10**400}, "row 2: tasks is 10{400}; expected a finite"),
        ({"winner": "a"}, "row 2: .*, winner and loser, or .*; found winner 'a'$"),
        ({"winner": "a", "loser": "b", "score": 0.4}, "row 2: score is 0.4; .* >= 0.5 and <= 1$"),
        (VOTE | {"winner": "a"}, "winner is 'a'; expected one of .*b, tie, tie \\(bothbad\\)$"),
        ({"model_a": "a", "winner": "model_a"}, "; found winner 'model_a', model_a 'a'$"),
    ],
)
def test_a_row_that_makes_no_sense_is_named(row, message):
    with pytest.raises(LeagueError, match=message):
        rate([{"teacher": "x", "student": "y", "outcome": 1}, row])


def test_winners_and_votes_are_outcomes():
    def outcomes(*shares):
        return [PAIR | {"outcome": share} for share in shares]

    one, other = {"winner": "a", "loser": "b"}, {"winner": "b", "loser": "a"}
    assert rate([one, other, one]) == rate(outcomes(1, 0, 1))
    assert rate([one | {"score": 0.75}, other | {"score": " "}]) == rate(outcomes(0.75, 0))
    assert rate([one | {"score": 0.5, "tasks": 4}]) == rate([outcomes(0.5)[0] | {"tasks": 4}])
    votes = [VOTE | {"winner": w} for w in ("model_a", "model_b", "tie", " tie (bothbad) ")]
    assert rate(votes) == rate(outcomes(1, 0, 0.5, 0.5))


def written(tmp_path, suffix, rows):
    path = tmp_path / f"rows{suffix}"
    if suffix == ".jsonl":
        write_rows(path, rows)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return path


def board(path, *options, code=0):
    return run("board", "--rows", path, *options, code=code)


FORMS = {
    "winners": lambda one, two: {"winner": one, "loser": two, "score": 1},
    "votes": lambda one, two: {"model_a": two, "model_b": one, "winner": "model_b"},
}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_winners_or_votes_is_rated_and_its_cycle_told(tmp_path, suffix, form):
    ordered = [FORMS[form](*pair) | {"said": "one,\n\u2028two"} for pair in ("ab", "bc", "ac")]
    plain = board(written(tmp_path, suffix, ordered)).stdout.splitlines()
    assert [line.split()[0] for line in plain] == ["member", "a", "b", "c"]
    path = written(tmp_path, suffix, [*ordered, *[FORMS[form]("c", "a")] * 2])
    *_, blank, told = board(path).stdout.splitlines()
    assert (blank, told) == ("", "a beats b, b beats c, c beats a: no rating can show this cycle.")
    rated = {row["member"]: row for row in json.loads(board(path, "--json").stdout)}
    assert {name: row["matches"] for name, row in rated.items()} == {"a": 4, "b": 2, "c": 4}
    found = {name: (row["mu"], row["sigma"]) for name, row in rated.items()}
    assert found == beliefs(rate(read_rows(path)))


WRONG_FILES = [
    ("r.csv", "winner,loser\na,b\na,a\n", "r.csv line 3: a plays itself; expected two members"),
    ("r.csv", "winner,loser\na,b,1\n", "r.csv: line 2: 3 cells; expected 2, as in the first line"),
    ("r.csv", 'winner,loser\n"a,b\nc,d\n', "r.csv: line 2: unexpected end of data; expected a"),
    ("r.csv", b"winner,loser\na,\xff\n", "r.csv: 'utf-8' codec can't decode byte 0xff"),
    (
        "r.csv",
        "winner,loser,score,score\na,b,1,.5\n",
        "line 1: the column score is there twice; exp",
    ),
    ("r.csv", "winner,loser\n", "r.csv holds no rows; expected the result of a match in each"),
    ("r.jsonl", '{}\n{"winner": a}\n', "r.jsonl: line 2: Expecting value: column 12 (char 11); ex"),
    ("r.jsonl", "[" * 100_000, "; expected a JSON object\n"),
]


@pytest.mark.parametrize(("name", "content", "message"), WRONG_FILES)
def test_a_wrong_file_is_one_line_with_the_line_in_it(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in board(path, code=2).stderr


def test_a_file_that_cannot_be_opened_is_one_line_with_the_systems_reason(tmp_path):
    for path, reason in {"none.csv": "No such file or directory", ".": "Is a directory"}.items():
        done = board(tmp_path / path, code=2)
        assert done.stderr == f"error: cannot read {tmp_path / path}: {reason}\n"


def beats(*pairs, **more):
    return [{"winner": one, "loser": two} | more for one, two in pairs]


def test_a_cycle_is_the_shortest_of_the_widest_wins_in_any_order_of_rows():
    assert find_cycle([]) is None
    assert find_cycle(beats("ab", "bc", "ac", "ba")) is None  # a and b are even
    long, short = beats("ab", "bc", "cd", "de", "ea", tasks=9), beats("xy", "yz", "zx")
    assert find_cycle(long) == list("abcde")
    wide = beats("pr", "rq", "qp", "qp", "qp", tasks=2) + beats("rp", tasks=0.5)
    table = long + short + wide
    rng = np.random.default_rng(0)
    for _ in range(10):
        assert find_cycle([table[i] for i in rng.permutation(len(table))]) == ["p", "r", "q"]
    assert find_cycle([*table, *beats("rp")]) == ["x", "y", "z"]  # p against r is 2 to 1.5
    assert find_cycle([*long, *beats("xy", "yx"), *beats("yz", "zx")]) == list("abcde")


def test_thirds_that_add_up_to_a_half_are_no_win():
    thirds = [PAIR | {"outcome": share} for share in (0.1, 0.2, 0.7, 0.6, 0.9)]
    assert find_cycle([*thirds, *beats("bc", "ca")]) is None


def test_a_cycle_is_one_of_the_strongest_of_all_that_a_search_finds():
    """Against all cycles of three members, for tables in which some exist."""
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(20):
        names = list("abcdefgh")
        pairs = [rng.choice(names, 2, replace=False).tolist() for _ in range(60)]
        lead = {(x, y): pairs.count([x, y]) - pairs.count([y, x]) for x in names for y in names}
        least = {
            three: min(lead[pair] for pair in itertools.pairwise([*three, three[0]]))
            for three in itertools.permutations(names, 3)
        }
        cycle = find_cycle(beats(*pairs))
        if max(least.values()) > 0:
            found += 1
            assert least[tuple(cycle)] == max(least.values())
            assert cycle[0] == min(cycle)
        else:
            assert cycle is None or len(cycle) > 3
    assert found > 10
