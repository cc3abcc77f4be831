"""A run's tasks in the forms of others, read by the code that reads those forms."""

import shutil

import pytest
from json_lines import write_rows

from code_verifier import Limits, Proposal, Sandbox, compute_score, trl_reward
from code_verifier import read_rows as read_lines
from evals import Data, Grading, Sample, load_benchmark
from evals.recipes import plain
from selfplay_command import worked

PROGRAM = "import math\n\ndef f(a, b=2):\n    return [math.gcd(a, b), 'é']"
CALL = {"program": PROGRAM, "input": "12, b=18", "output": "[6, 'é']", "status": "ok"}
PAIRS = {"inputs": [f"{n}" for n in range(6)], "outputs": [f"{n * n}" for n in range(6)]}
TASKS = [
    {"id": "1-a", "kind": "code_o", **CALL},
    {"id": "1-b", "kind": "code_i", **CALL},
    {"id": "2-c", "kind": "code_f", "program": "def f(n):\n    return n * n", "status": "ok"}
    | {"message": "a square", "visible": 3}
    | PAIRS,
    {"id": "2-d", "kind": "code_e", "program": "def f():\n    return 1 / 0", "status": "ok"},
    {"id": "2-e", "kind": "code_o", "status": "exception"},
]
ANSWERS = {"1-a": "[6, 'é']", "1-b": "6, 12", "2-c": "def f(n):\n    return n ** 2"}


@pytest.fixture(scope="module")
def run(whole, tmp_path_factory):
    """A real run whose tasks are known ones, of a kind of its own, too."""
    copy = tmp_path_factory.mktemp("export") / "run"
    shutil.copytree(whole, copy)
    write_rows(copy / "tasks.jsonl", [{"step": 1, "teacher": "t0", **task} for task in TASKS])
    return copy


@pytest.fixture
def written(run, tmp_path):
    """Write a form; return the rows of its file, and what the command said."""

    def write(form):
        out = tmp_path / f"{form}.jsonl"
        said = worked("tasks", run, "--out", out, "--format", form)
        return [row for _, row in read_lines(out)], said

    return write


def test_ours_are_all_that_were_accepted(written):
    rows, said = written("ours")
    assert [row["id"] for row in rows] == ["1-a", "1-b", "2-c", "2-d"]
    assert said.startswith("4 tasks: ")


def test_azr_seeds_of_calls_and_of_functions_are_two_files(written, tmp_path):
    (call,), said = written("azr")
    ((_, function),) = read_lines(tmp_path / "azr_code_f.jsonl")
    columns = {"snippet", "input", "output", "imports", "original_snippet", "composite_functions"}
    assert (set(call), call["imports"]) == (columns, [])
    assert set(function) == {"snippet", "inputs", "outputs", "message", "imports"}
    assert said.count("1 tasks: ") == 2
    assert said.endswith("1 of other kinds left out\n")
    with Sandbox(workers=1, limits=Limits(wall_s=60)) as sandbox:
        read = [sandbox.validate(Proposal.from_row(row)).task for row in (call, function)]
    assert read[0].output == CALL["output"]
    assert list(read[1].outputs) == PAIRS["outputs"]


def test_cruxeval_asks_and_grades_them(written, tmp_path):
    (row,), said = written("cruxeval")
    assert set(row) == {"id", "code", "input", "output"}
    assert "2 of other kinds left out" in said
    for name, answer, wrong in [
        ("cruxeval_o", "[6, 'é']", "[5, 'é']"),
        ("cruxeval_i", "f(6, 12)", "f(6, 13)"),
    ]:
        benchmark = load_benchmark(name, Data(tmp_path / "cruxeval.jsonl"))
        (question,) = benchmark.questions
        given = [Sample(question.id, i, text) for i, text in enumerate((answer, wrong))]
        how = Grading(plain(name, 99).template(name), 1)
        verdicts = benchmark.grade([(question, sample) for sample in given], how)
        assert [verdict.correct for verdict in verdicts] == [True, False]


def replies(ids):
    """Right answers, fenced as the prompts ask."""
    return [f"It is so.</think>\n<answer>\n```\n{ANSWERS[i]}\n```\n</answer>" for i in ids]


def test_trl_rewards_right_answers_to_the_prompts(written):
    rows, said = written("trl")
    assert "1 of other kinds left out" in said
    asked = ("What does f return", "Find an input", "a square")
    for row, part in zip(rows, asked, strict=True):
        (turn,) = row["prompt"]
        assert turn["role"] == "user"
        assert part in turn["content"]
        assert "<answer>" in turn["content"]
    assert CALL["output"] not in rows[0]["prompt"][0]["content"]
    assert CALL["input"] not in rows[1]["prompt"][0]["content"]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    with Sandbox(workers=1, limits=Limits(wall_s=60)) as sandbox:
        reward = trl_reward(sandbox)
        right = [[{"role": "assistant", "content": text}] for text in replies(columns["id"])]
        assert reward(right, **columns) == [1.0, 1.0, 1.0]
        assert reward(["<answer>7</answer>"] * 3, **columns) == [0.0, 0.0, 0.0]


def test_verl_scores_right_answers_by_the_ground_truth(written):
    rows, _ = written("verl")
    texts = replies(row["extra_info"]["id"] for row in rows)
    truths = [row["reward_model"]["ground_truth"] for row in rows]
    sources = [row["data_source"] for row in rows]
    assert list(map(compute_score, sources, texts, truths)) == [1.0, 1.0, 1.0]
    assert compute_score(sources[0], texts[1], truths[0]) == 0.0
