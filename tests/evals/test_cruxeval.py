"""CRUXEval: reading assertions, judging them by running, and answers that are no literals."""

import pytest
from evals_commands import run
from json_lines import read_rows, write_rows
from sums import Chat, TableEngine

from evals import RECIPES, Data, Grading, Sample, evaluate, load_benchmark
from evals.code.programs import find_answer
from evals.recipes import plain, render

ROWS = [
    {"id": "sample_0", "code": "def f(xs):\n    return len(xs)", "input": "'abc'", "output": "3"},
    {
        "id": "sample_1",
        "code": "suffix = '!'\ndef f(a, go=str):\n    return go(a) + suffix",
        "input": "1",
        "output": "'1!'",
    },
]
PLAIN = plain("cruxeval_o", 99).template("cruxeval_o")


@pytest.fixture
def data(tmp_path):
    return write_rows(tmp_path / "crux.jsonl", ROWS)


def judged(name, data, question, *answers):
    benchmark = load_benchmark(name, Data(data))
    asked = benchmark.questions[question]
    pairs = [(asked, Sample(asked.id, n, text)) for n, text in enumerate(answers)]
    return [verdict.correct for verdict in benchmark.grade(pairs, Grading(PLAIN, 2))]


def test_both_directions_are_asked_and_graded(data, tmp_path):
    engine = TableEngine(
        {
            "f('abc') == ??": "It is long. [ANSWER]\nassert f('abc') == 3\n[/ANSWER]",
            "f(??) == 3": "[ANSWER]assert f([1, 2, 4]) == 3[/ANSWER]",
            "f(??) == '1!'": "[ANSWER]assert f(2) == '1!'[/ANSWER]",
        },
        Chat(),
    )
    (output,) = evaluate(engine, load_benchmark("cruxeval_o", Data(data)), out=tmp_path / "runs")
    (input_,) = evaluate(engine, load_benchmark("cruxeval_i", Data(data)), out=tmp_path / "runs")
    assert [found.overall.value for found in (output, input_)] == [0.5, 0.5]
    assert output.row()["ill_formed"] == 0.5
    rows = read_rows(tmp_path / "runs" / "base" / "cruxeval_i" / "verdicts.jsonl")
    assert [(row["extracted"], row["gold"], row["correct"]) for row in rows] == [
        ("f([1, 2, 4])", "f('abc')", True),
        ("f(2)", "f(1)", False),
    ]
    samples = tmp_path / "runs" / "base" / "cruxeval_i" / "samples.jsonl"
    again = run("grade", "cruxeval_i", samples, "--data", data, "--out", tmp_path / "verdicts")
    assert "1 of 2 samples right" in again.stdout


@pytest.mark.parametrize(
    ("kind", "response", "found"),
    [
        ("code_o", "assert f(1) == [2, 'a == b']", "[2, 'a == b']"),
        ("code_o", "<think>[ANSWER]4</think><answer>\n```python\nf(1) == 5\n```</answer>", "5"),
        ("code_o", "[ANSWER] 1 [/ANSWER] no, [ANSWER] {2: 3} # done [/ANSWER]", "{2: 3}"),
        ("code_o", "So it holds that assert f(x) == 7", "7"),
        ("code_o", "assert 8 == f(1), 'because'", "8"),
        ("code_o", "assert f(1) is None", "None"),
        ("code_o", "It returns seven.", None),
        ("code_i", "assert f('x', n=2) == 3", "f('x', n=2)"),
        ("code_i", "f( 1 )", "f(1)"),
        ("code_i", "[1, 2]", None),
        ("code_i", "f(" + "(" * 5000, None),
        ("code_o", "1+" * 5000 + "1", None),
        ("code_i", "f(0x" + "f" * 5000 + ")", None),
    ],
)
def test_the_asked_part_is_found(kind, response, found):
    assert find_answer(kind, response, PLAIN) == found


@pytest.mark.parametrize("recipe", [r for r in RECIPES.values() if "cruxeval_o" in r.templates])
def test_a_prompt_shows_the_problem_and_hides_the_answer(recipe, data):
    for name, shown in (("cruxeval_o", "f('abc') == ??"), ("cruxeval_i", "f(??) == 3")):
        question = load_benchmark(name, Data(data)).questions[0]
        text = render(recipe, name, question.fields, Chat())
        assert ROWS[0]["code"] in text
        assert shown in text
        assert "f('abc') == 3" not in text
        template = recipe.template(name)
        assert text.endswith(template.response_prefix)
        more = "assert f('abc') == 3\n[/ANSWER]\n\n[PYTHON]\n...\n[ANSWER]\nassert f('') == 0"
        if template.stop:
            assert find_answer("code_o", more, template) == "3"


def test_equality_is_pythons_and_an_expression_is_wrong(data):
    wrong = "'3'", "4", "1 + 2", "len('abc')", "f('abc') + 0", "xs"
    assert judged("cruxeval_o", data, 0, "3", "3.0", *wrong) == [True] * 2 + [False] * 6
    wrong = "f(2)", "f()", "f(1) or 3", "f(1, str)", "f((len := lambda _: 3))"
    assert judged("cruxeval_i", data, 1, "f(1)", *wrong) == [True] + [False] * 5
