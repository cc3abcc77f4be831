"""Scores with intervals, comparisons, averages, populations, and the paper's table of them."""

import csv
import io
import itertools
import json
import math
import re

import numpy as np
import pytest
from verdicts_of_one import compare, estimate

from evals import EvalsError, Group, Row, SampleVerdict, build_table, tables
from evals.recipes import CODE, MATH
from evals.scores import (
    adjust,
    average,
    averages,
    base_rate,
    majority,
    problem_scores,
    score_members,
)
from evals.tables import as_markdown, as_text


def verdicts(*samples):
    """Problems p0, p1 ... from words such as "+-?": right, wrong, ungraded."""
    meaning = {"+": True, "-": False, "?": None}
    return {f"p{i}": [meaning[mark] for mark in word] for i, word in enumerate(samples)}


def drawn(seed, problems, samples):
    generator = np.random.default_rng(seed)
    hardness = generator.uniform(0, 1, problems)
    return {
        f"p{i}": [bool(x) for x in generator.random(samples) < hardness[i]] for i in range(problems)
    }


def share(right, of=10):
    return {f"p{i}": [i < right] for i in range(of)}


def column(name="gsm8k", **right):
    return score_members({member: share(count, 60) for member, count in right.items()}, name)


def cells(table, label):
    """The rows of one line that have a score, by column."""
    return {row.column: row for row in table.rows if row.label == label and row.problems}


def test_ungraded_samples_never_count_and_are_reported():
    found = verdicts("+?-", "??", "+")
    assert problem_scores(found) == {"p0": 0.5, "p2": 1.0}
    score = estimate(found)
    assert (score.value, score.problems, score.ungraded) == (0.75, 2, 3)
    for nothing in ({}, verdicts("?", "??")):
        assert score_members({"a": nothing}) is None


@pytest.mark.parametrize(("n", "c"), [(1, 0), (1, 1), (5, 2), (8, 3), (8, 8), (8, 0), (9, 7)])
def test_pass_at_k_and_its_opposite_are_shares_of_subsets(n, c):
    found = {"p": [True] * c + [False] * (n - c)}
    for k in range(1, n + 1):
        subsets = list(itertools.combinations(range(n), k))
        wanted = sum(any(i < c for i in subset) for subset in subsets) / len(subsets)
        assert problem_scores(found, k)["p"] == pytest.approx(wanted, abs=1e-12)
        wanted = sum(all(i < c for i in subset) for subset in subsets) / len(subsets)
        assert problem_scores(found, k, "pass^k")["p"] == pytest.approx(wanted, abs=1e-12)
    assert problem_scores(found) == problem_scores(found, 1) == {"p": c / n}


def test_the_base_tests_are_counted_by_task_as_all_tests_are():
    passes = [("a", "pass")] + [("b", "fail")] * 9 + [("b", None)]
    verdicts = [
        SampleVerdict(id, place, 0, None, "", "", False, {"base": status})
        for place, (id, status) in enumerate(passes)
    ]
    assert base_rate(verdicts) == 0.5


def test_pass_at_k_of_many_samples_neither_overflows_nor_cancels():
    exact = 1 - math.comb(9997, 100) / math.comb(10000, 100)
    found = problem_scores({"p": [True] * 3 + [False] * 9997}, 100)
    assert found["p"] == pytest.approx(exact, rel=1e-9)
    for k in (0, 3):
        with pytest.raises(EvalsError, match=r"p1 has 2|p0 has 3"):
            estimate(verdicts("++-", "+-?"), k=k)
    with pytest.raises(EvalsError, match=r"a on aime24: pass@2 needs"):
        score_members({"a": {"p": [True]}}, "aime24", k=2)


def test_the_bootstrap_is_seeded_takes_problems_whole_and_agrees_with_the_formula():
    results = drawn(1, 400, 4)
    one, same, other = (estimate(results, name) for name in ("a", "a", "b"))
    assert one == same
    assert one != other
    error = np.std(list(problem_scores(results).values()), ddof=1) / 20
    assert one.high - one.low == pytest.approx(2 * 1.96 * error, rel=0.08)
    once, often = verdicts("+", "-", "+", "-"), verdicts("+" * 64, "-" * 64, "+" * 64, "-" * 64)
    assert estimate(once) == estimate(often)


def test_comparisons_are_paired_by_problem():
    found = compare(verdicts(*"+++++++-+-"), verdicts(*"---+++++--"))
    assert (found.wins, found.losses, found.ties, found.problems) == (4, 1, 5, 10)
    assert found.value == pytest.approx(0.3)
    assert found.low < 0.3 < found.high
    several = compare(verdicts("++", "+-", "--"), verdicts("+-", "--", "--"))
    assert (several.wins, several.losses, several.ties) == (2, 0, 1)
    assert compare(verdicts("++-", "---"), verdicts("+--", "---"), k=2).value > 0
    easy = drawn(5, 200, 1)
    better = {p: [True] if i % 10 == 0 else v for i, (p, v) in enumerate(easy.items())}
    gain, alone = compare(better, easy), estimate(easy)
    assert gain.high - gain.low < (alone.high - alone.low) / 1.5
    assert compare(verdicts("+", "+", "?"), verdicts("-", "?", "+")).problems == 1
    with pytest.raises(EvalsError, match="no problem was graded for both"):
        compare(verdicts("+", "?"), verdicts("?", "-"))


def test_a_population_has_a_mean_a_weakest_and_a_best_inside_their_intervals():
    board = column(base=12, s0=24, s1=36, s2=30)
    found = board.summary(["s0", "s1", "s2", "lost"])
    assert [row.member for row in found.values()] == [None, "s0", "s1"]
    assert found["mean"].value == pytest.approx(0.5)
    assert [row.problems for row in board.summary(["lost"]).values()] == [0, 0, 0]
    many = score_members({f"s{i}": drawn(i, 30, 1) for i in range(24)}, "aime24")
    for group in (found, many.summary(many.members)):
        score = group["mean"]
        assert score.low <= score.value <= score.high
        assert [group[kind].interval for kind in ("weakest", "best")] == [None, None]


@pytest.mark.parametrize(
    ("right", "low", "high"), [(0, 0.0, 0.114), (3, 0.035, 0.256), (30, 0.886, 1.0)]
)
def test_one_sample_a_problem_has_wilsons_interval(right, low, high):
    found = estimate(share(right, 30))
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-3), pytest.approx(high, abs=1e-3))


def test_no_interval_is_without_width():
    many = {f"p{i}": [False] * 4 for i in range(29)} | {"p": [True, False, False, False]}
    found = estimate(many)
    assert found.low < found.value < found.high
    assert found.high > 0.05
    same = compare(many, many)
    assert -0.15 < same.low < 0.0 == same.value < same.high < 0.15


def test_the_total_is_the_mean_of_the_code_and_the_math_average():
    counts = dict.fromkeys(CODE, 36) | dict.fromkeys(MATH, 12)
    boards = {name: column(name, a=count, b=count) for name, count in counts.items()}
    found = averages(boards)
    rows = [found[name].row("a") for name in ("code", "math", "total")]
    assert [row.value for row in rows] == pytest.approx([0.6, 0.2, 0.4])
    assert rows[2].problems == 600
    one, two = column("aime24", a=30, b=30), column("aime25", b=30, c=30)
    both = average("both", [one, two])
    assert both.members == ("b",)
    assert average("none", [one, column("amc23", z=6)]) is None
    assert set(averages({"aime24": one})) == {"math"}


def table(**changed):
    results = {
        "Qwen": {"humaneval_plus": share(4), "gsm8k": share(3)},
        "s_0": {"humaneval_plus": share(6), "gsm8k": share(8)},
        "s|1": {"humaneval_plus": share(8), "gsm8k": share(6), "sums": share(1)},
    }
    return build_table(results, base="Qwen", **changed)


def test_rows_and_columns_are_the_papers():
    found = table()
    assert found.columns == ("sums", "humaneval_plus", "gsm8k", "code", "math", "total")
    kinds = [line[0].kind for line in found.lines]
    assert kinds == ["base", "member", "member", "mean", "weakest", "best"]
    labels = "mean of 2 adapters", "weakest adapter", "best adapter"
    mean, weakest, best = (cells(found, label) for label in labels)
    assert mean["gsm8k"].value == pytest.approx(0.7)
    assert (weakest["gsm8k"].member, best["gsm8k"].member) == ("s|1", "s_0")
    assert best["total"].value == pytest.approx(0.7)
    assert "sums" not in cells(found, "Qwen")
    alone = build_table({"a": {"gsm8k": share(3)}, "b": {}}, base="b")
    assert [line[0].kind for line in alone.lines] == ["base", "member"]


def test_limited_runs_are_marked_in_every_average_they_enter():
    found = table(partial=[("s_0", "gsm8k")])
    marked = {name for name, row in cells(found, "s_0").items() if row.partial}
    assert marked == {"gsm8k", "math", "total"}
    marked = {row.label for row in found.rows if row.column == "gsm8k" and row.partial}
    assert marked == {"s_0", "mean of 2 adapters", "weakest adapter", "best adapter"}
    assert found.notes[0] == "* part of the benchmark (--limit)"
    assert "80.0*" in as_text(found)
    assert "80.0\\*" in as_markdown(found)


def test_markdown_survives_names_with_markup():
    lines = [line for line in as_markdown(table()).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {8}
    found = as_markdown(build_table({"<b>`x`</b>": {"gsm8k": share(1)}}))
    assert "&lt;b&gt;\\`x\\`&lt;/b&gt;" in found


def test_json_has_shares_and_whose_the_extremes_are():
    found = json.loads(json.dumps(table().as_json(), allow_nan=False))
    assert found["rows"][1]["scores"]["gsm8k"]["value"] == 0.8
    assert found["rows"][-1]["scores"]["gsm8k"]["member"] == "s_0"
    assert found["rows"][0]["scores"]["gsm8k"]["member"] is None


def test_what_is_not_judged_stands_with_every_number_that_lacks_it():
    """One of the problems of `a` is not judged, nor is one sample of another, nor anything of `c`,
    which counts in no mean."""
    results = {
        "a": {"gsm8k": verdicts("+", "?", "+?"), "humaneval_plus": verdicts("+")},
        "b": {"gsm8k": verdicts("-", "-", "-"), "humaneval_plus": verdicts("+")},
        "c": {"gsm8k": verdicts("?", "?", "?")},
    }
    found = build_table(results)
    lines = {line[0].label: tables.score_cells(line)[1:] for line in found.lines}
    assert found.columns == ("humaneval_plus", "gsm8k", "code", "math", "total")
    assert [" 2 not judged" in cell for cell in lines["a"]] == [False, True, False, True, True]
    assert lines["c"] == ["-", "- 3 not judged", "-", "- 3 not judged", "- 3 not judged"]
    assert lines["mean of 3 adapters"][1].endswith(" 5 not judged")
    assert "no sample of c has a verdict: gsm8k" in found.notes
    assert "members were not graded on the same problems: gsm8k" in found.notes
    assert "samples without a verdict, not counted: 5" in found.notes
    del results["c"]
    compared = build_table(results, against="b")
    difference = max(compared.differences, key=lambda row: row.ungraded)
    assert (difference.problems, difference.wins, difference.ungraded) == (2, 2, 2)
    assert tables.pair_cells(difference)[1].endswith(" 2 not judged")
    counts = {row["benchmark"]: row["ungraded"] for row in compared.differences_as_json()}
    assert counts == {"gsm8k": 2, "humaneval_plus": 0}
    assert "comparisons count only tasks that are judged on both sides" in compared.notes


def test_a_score_has_one_interval_whatever_stands_beside_it():
    alone, other = drawn(1, 40, 4), {**drawn(2, 50, 4), "new": [True]}
    (row,) = build_table({"a": {"gsm8k": alone}}).rows[:1]
    found = build_table({"b": {"gsm8k": dict(reversed(other.items()))}, "a": {"gsm8k": alone}})
    assert cells(found, "a")["gsm8k"].interval == pytest.approx(row.interval, rel=1e-9)
    assert cells(found, "a")["math"].interval == pytest.approx(row.interval, rel=1e-9)


def test_p_is_exact_where_it_can_be_counted_and_adjusted_for_all_comparisons():
    """Ten wins and one loss: 2 (1 + 11) / 2^11 = .0117 by counting."""
    better = compare(verdicts(*"++++++++++-"), verdicts(*"----------+"))
    assert better.p == pytest.approx(2 * 12 / 2**11, abs=0.004)
    assert compare(verdicts("+-", "--"), verdicts("-+", "--")).p == 1.0
    assert compare(verdicts("+", "-"), verdicts("-", "-")).p == 1.0
    rows = [Row("a", "b", p=p) for p in (0.04, 0.01, 0.5, 0.03)]
    assert [row.p for row in adjust(rows)] == pytest.approx([0.09, 0.04, 0.5, 0.09])
    results = {f"s{i}": {"gsm8k": share(40 + i, 60), "aime24": share(30, 60)} for i in range(5)}
    base = {"base": {"gsm8k": share(30, 60)}}
    found = build_table(results | base, against="base")
    assert "p: of no difference, adjusted for 5 comparisons (Holm)" in found.notes
    each = [build_table({name: results[name]} | base, against="base") for name in results]
    (alone,) = each[0].differences
    expected = [row.p for row in adjust([one.differences[0] for one in each])]
    assert [row.p for row in found.differences] == expected
    assert max(expected) > 2 * min(row.differences[0].p for row in each)
    assert tables.pair_cells(alone)[2] == f"{alone.p:.3f}"


def answers(*texts, right="7"):
    """Verdicts on the samples of one question by their extracted answers; `?` is not judged."""
    return [
        SampleVerdict("q", n, 0, None if text == "?" else text == right, "", text, False)
        for n, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("texts", "k", "right"),
    [
        (("7", "5", "5"), 3, False), (("7", "5", "7"), 3, True), (("7", "5", "5"), 2, True),
        (("5", "7"), 2, False), ((None, None, "7"), 3, True), ((None, None, "7"), 2, False),
        (("?", "7", "?", "7", "5"), 3, True),
    ],
)  # fmt: skip
def test_the_commonest_answer_is_judged(texts, k, right):
    assert majority(answers(*texts), k) == {"q": [right]}


def test_a_majority_needs_as_many_graded_samples():
    with pytest.raises(EvalsError, match=r"maj@3 needs a k .* q has 2"):
        majority(answers("7", "?", "7"), 3)
    assert majority(answers("7"), 1) == {"q": [True]}


def test_csv_has_every_score_and_difference():
    results = {"s0": {"gsm8k": share(4)}, "base": {"gsm8k": share(3)}}
    group = Group("student", "mine")
    one = build_table(results, base="base", against="base", groups={"s0": group})
    rows = list(csv.DictReader(io.StringIO(tables.as_csv([one, build_table(results, k=1)]))))
    assert len(rows) == len(one.rows) + 1 + 10
    assert {row["measure"] for row in rows} == {"avg@n", "pass@1"}
    line = next(row for row in rows if row["label"] == "s0" and row["column"] == "gsm8k")
    assert (line["value"], line["role"], line["run"]) == ("0.4", "student", "mine")
    (pair,) = [row for row in rows if row["against"]]
    assert (pair["wins"], float(pair["p"])) == ("1", one.differences[0].p)
