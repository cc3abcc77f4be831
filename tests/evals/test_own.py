"""Benchmarks of one's own: a file and a grader; and rows that are not the published ones."""

import json

import pytest
from evals_commands import fails, run
from json_lines import read_rows, write_rows
from sums import TableEngine

from evals import Data, EvalsError, SettingsChanged, evaluate, load_benchmark, read_runs
from evals.own import load_own
from evals.side_by_side import table_of
from evals.tables import as_text, build_table

FENCE = "```python\n{}\n```"
CASES = {
    "math": (
        {"prompt": "1 + 1?", "answer": "It is\n#### 2"},
        r"\boxed{4/2}", "#### 3",
    ),
    "exact": ({"problem": "Where?", "answer": "New  York"}, "New York", "new york"),
    "tests": (
        {"prompt": "def add(a, b)", "test_list": ["assert add(1, 2) == 3"]},
        FENCE.format("def add(a, b): return a + b"), FENCE.format("def add(a, b): return a - b"),
    ),
    "stdio": (
        {"id": 0, "question": "echo", "inputs": ["3\n"], "outputs": ["3\n"]},
        FENCE.format("print(input())"), FENCE.format("print(4)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("grader", CASES)
def test_a_file_and_a_grader_are_a_benchmark(grader, tmp_path):
    row, right, wrong = CASES[grader]
    data = write_rows(tmp_path / "rows.jsonl", [row])
    samples = write_rows(tmp_path / "in", [{"id": 0, "response": text} for text in (right, wrong)])
    out = tmp_path / "out.jsonl"
    done = run("grade", f"mine={data}", samples, "--grader", grader, "--out", out)
    assert done.stdout.startswith("mine: 1 of 2 samples right")
    assert [row["correct"] for row in read_rows(out)] == [True, False]
    (tmp_path / "b.toml").write_text(f'file = "rows.jsonl"\ngrader = "{grader}"')
    assert load_own("mine", tmp_path / "b.toml").description == "rows of b.toml"


@pytest.mark.parametrize("column", ["task_id", "question_id", "idx", "unique_id"])
@pytest.mark.parametrize("grader", ["math", "exact"])
def test_samples_find_the_rows_of_their_ids_whatever_these_are_called(column, grader, tmp_path):
    rows = [{column: n, "question": f"{n}?", "answer": str(2 * n)} for n in (1, 2, 3)]
    benchmark = load_own("mine", write_rows(tmp_path / "rows", rows), grader)
    assert [question.id for question in benchmark.questions] == ["1", "2", "3"]
    answers = [question.fields["answer"] for question in benchmark.questions]
    assert answers == ["2", "4", "6"]  # which a recipe's examples show


@pytest.mark.parametrize(
    ("gold", "response", "right"),
    [
        ("It rains.", "It rains.", True),
        ("U.S.A.", r"\boxed{U.S.A.}", True),
        ("New York", r"\boxed{\text{New York}}", True),
        ("red green blue yellow", "<think>red?</think>\nred green blue yellow", True),
        ("red green blue yellow", "red green blue yellow<|im_end|>", True),
        ("line one\nline two", "line one\nline two\nQuestion: what?\nline three", True),
        ("cafe\u0301", "caf\xe9", True),
        ("red green blue yellow", "<think>red green blue yellow", False),
        (".", "**", False),
        ("New York", r"\boxed{\text{Old York}} New York", False),
    ],
)
def test_exact_is_the_marked_answer_or_the_whole_response(gold, response, right, tmp_path):
    rows = write_rows(tmp_path / "rows", [{"question": "?", "answer": gold}])
    benchmark = load_own("mine", rows, "exact")
    (found,) = evaluate(TableEngine({"": response}), benchmark, recipe="azr")
    assert [verdict.correct for verdict in found.verdicts] == [right]


def test_it_is_asked_like_a_published_one_and_in_no_published_average(tmp_path):
    benchmark = load_own("mine", write_rows(tmp_path / "rows", [CASES["math"][0]]), "math")
    assert benchmark.recipe.template("mine") == benchmark.recipe.template("math500")
    engine = TableEngine({"1 + 1?": "</think><answer>2</answer>"})
    (found,) = evaluate(engine, benchmark, recipe="azr", out=tmp_path / "out")
    assert found.overall.value == 1.0
    assert "User: 1 + 1?" in engine.asked[0].prompt
    table = build_table({"a": {"mine": {"0": [True]}, "gsm8k": {"0": [False]}}})
    assert {row.column: row.value for row in table.rows} == {"mine": 1, "gsm8k": 0, "math": 0}
    assert read_runs(tmp_path / "out")[0].benchmark == "mine"


@pytest.mark.parametrize(
    ("name", "row", "grader", "message"),
    [
        ("gsm8k", {"question": "?", "answer": "1"}, "math", "'gsm8k' cannot be a benchmark's name"),
        ("math", {"question": "?", "answer": "1"}, "math", "'math' cannot be a benchmark's name"),
        ("mine", {"question": "?", "answer": "1"}, None, "no grader None; add --grader: "),
        ("mine", {"question": "?", "answer": "1"}, "tests", "row 1: no tests"),
        ("mine", {"answer": "1"}, "exact", "row 1: no question; found the columns answer"),
        ("mine", {"question": "?", "answer": " "}, "exact", "row 1: no text in answer"),
        ("mine", {"question": "?", "answer": True}, "exact", "row 1: no text in answer"),
        ("mine", {"question": "?"}, "math", "row 1: no answer"),
        ("mine", CASES["stdio"][0], "tests", "standard input; choose the grader stdio"),
    ],
)
def test_what_cannot_be_one_is_an_error_of_one_line(name, row, grader, message, tmp_path):
    with pytest.raises(EvalsError, match=message) as caught:
        load_own(name, write_rows(tmp_path / "rows.jsonl", [row]), grader)
    assert "\n" not in str(caught.value)
    (tmp_path / "b.toml").write_text("grader = 3")
    fails(2, "expected `file` and `grader`", "run", "--model", "nano", "--benchmark",
          f"mine={tmp_path / 'b.toml'}", "--out", tmp_path / "out")  # fmt: skip


def test_another_grader_is_another_run(tmp_path):
    rows, engine = write_rows(tmp_path / "rows", [CASES["math"][0]]), TableEngine({"": "4/2"})
    for grader in ("math", "exact"):
        evaluate(engine, load_own("mine", rows, grader), recipe="azr", out=tmp_path / grader)
    with pytest.raises(SettingsChanged, match=r"graded by math', now .*graded by exact'"):
        evaluate(engine, load_own("mine", rows, "exact"), recipe="azr", out=tmp_path / "math")
    runs = read_runs(tmp_path / "math", tmp_path / "exact")
    _, table = table_of(runs, against="base (math)")
    assert (table.differences, "their graders differ" in as_text(table)) == ((), True)


def test_other_rows_under_a_published_name_are_marked(tmp_path):
    rows = [{"question": "1 + 1?", "answer": "#### 2"}]
    benchmark = load_benchmark("gsm8k", Data(write_rows(tmp_path / "rows", rows)))
    evaluate(TableEngine({"1": "#### 2"}), benchmark, recipe="azr", out=tmp_path / "out")
    (found,) = read_runs(tmp_path / "out")
    assert json.loads((found.folder / "settings.json").read_text())["published"] is False
    text = as_text(table_of([found])[1])
    assert "100.0‡ (" in text
    assert "100.0†‡ (" in text
    assert "‡ with other rows than the published ones (--data)" in text
