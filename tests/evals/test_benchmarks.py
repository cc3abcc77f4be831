"""The published benchmarks, on small data in their schemas: loading, asking, judging, regrading."""

import json
import sys

import evalplus_problems
import livecodebench_problems
import pytest
from evals_commands import fails, run
from json_lines import read_rows, write_rows
from sums import Chat, TableEngine

from evals import RECIPES, Data, Grading, Sample, catalog, evaluate, load_benchmark
from lora_evo.model import Rollout

GSM8K = [
    {"question": f"What is {a} + {a}?", "answer": f"Twice {a}.\n#### {2 * a}"} for a in range(1, 5)
]
SUM = livecodebench_problems.row([("1 2\n", "3\n"), ("5 6\n", "11\n")])
LATE = livecodebench_problems.row(
    [("[1]", "1"), ("[4, 2]", "6")], "total", question_id="p2", difficulty="hard",
    starter_code="class Solution:\n    def total(self, xs):\n        ",
)  # fmt: skip
FENCE = "```"


@pytest.fixture
def functions(tmp_path):
    return write_rows(
        tmp_path / "functions.jsonl", [evalplus_problems.DOUBLE, evalplus_problems.HALF]
    )


@pytest.fixture
def contest(tmp_path):
    return write_rows(tmp_path / "contest.jsonl", [SUM, LATE])


def test_functions_are_asked_and_right_is_base_and_plus(functions, tmp_path):
    benchmark = load_benchmark("humaneval_plus", Data(functions))
    engine = TableEngine(
        {
            "double": f"Sure:\n{FENCE}python\ndef double(x):\n    return [x, x]\n{FENCE}\n",
            "half": f"{FENCE}python\ndef half(x):\n    return (x == 3) + 0.5\n{FENCE}",
        },
        Chat(),
    )
    (result,) = evaluate(engine, benchmark, out=tmp_path)
    assert (result.row()["rate"], result.row()["base_rate"]) == (0.5, 1.0)
    assert not any(request.special_tokens for request in engine.asked)
    folder = tmp_path / "base" / "humaneval_plus"
    verdicts = read_rows(folder / "verdicts.jsonl")
    assert [(v["base"], v["plus"], v["failed_test"]) for v in verdicts] == [
        ("pass", "pass", None),
        ("pass", "fail", 0),
    ]
    assert verdicts[0]["extracted"] == "def double(x):\n    return [x, x]"
    samples = tmp_path / "samples.jsonl"
    samples.write_text(run("report", folder, "--format", "evalplus").stdout)
    assert read_rows(samples)[0] == {
        "task_id": "HumanEval/1001",
        "solution": "def double(x):\n    return [x, x]",
    }
    again = run("grade", "humaneval_plus", samples, "--data", functions, "--out", tmp_path / "v")
    assert "1 of 2 samples right" in again.stdout


def test_a_completion_continues_where_the_prompt_ends(functions, tmp_path):
    benchmark = load_benchmark("humaneval_plus", Data(functions))
    engine = TableEngine({"double": "\treturn [x, x]\n", "half": "    return x / 2\n"})
    (result,) = evaluate(engine, benchmark, recipe="evalplus-completion", out=tmp_path)
    assert result.overall.value == 1.0
    assert engine.asked[0].special_tokens
    assert "\ndef " in engine.asked[0].stop
    graded = run(
        *("grade", "humaneval_plus", tmp_path / "base" / "humaneval_plus" / "samples.jsonl"),
        *("--data", functions, "--out", tmp_path / "verdicts.jsonl"),
    )
    assert "2 of 2 samples right" in graded.stdout  # settings.json next to them names the recipe


def test_contest_programs_by_both_rules(contest, tmp_path):
    benchmark = load_benchmark("livecodebench", Data(contest))
    assert [question.level for question in benchmark.questions] == [1, 3]
    script = "a, b = map(int, input().split())\nprint(a + b)"
    method = "class Solution:\n    def total(self, xs):\n        return sum(xs)"
    engine = TableEngine(
        {
            "Do it.": f"<answer>{FENCE}python\n{script}{FENCE} Done.</answer>",
            "def total": f"{FENCE}python\n{method}\n{FENCE}",
        },
        Chat(),
    )
    (azr,) = evaluate(engine, benchmark, recipe="azr", out=tmp_path / "azr")
    assert (azr.overall.value, azr.row()["ill_formed"]) == (1.0, 0.0)
    (official,) = evaluate(engine, benchmark, out=tmp_path)
    assert official.overall.value == 0.5  # the fence of the first must stand on a line of its own


MADE_UP = (
    "\nUser: {}\nAssistant: <think> hm </think>",
    "User: {}\nAssistant:",
    "\n\nQuestion: {}\n",
    "\n### Question:\n{}\n\n### Answer:",
    "\nProblem 2: {}\n",
    "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n<think> hm </think>",
    "\n<|im_start|>user\n{}\n",
)
"""How models continue after their answer."""


def judged(name, data, recipe, responses):
    benchmark, chosen = load_benchmark(name, Data(data)), RECIPES[recipe]
    question = benchmark.questions[0]
    pairs = [(question, Sample(question.id, n, text)) for n, text in enumerate(responses)]
    verdicts = benchmark.grade(pairs, Grading.of(chosen, name, 1))
    return [bool(verdict.correct) for verdict in verdicts]


def answers(right, wrong, begun=""):
    """Right answers with a wrong one in a made-up turn, and the other way round; "right" and
    "wrong" alternate. begun: what the prompt has begun, which the first answer does not repeat."""
    return [
        first.removeprefix(begun) + turn.format("What is it?") + second
        for turn in MADE_UP
        for first, second in ((right, wrong), (wrong, right))
    ]


SCRIPT = "a, b = map(int, input().split())\nprint(a {} b)\n"
QUOTING = SCRIPT.format("+").replace("print(", '"""\nUser: x\nQuestion: y\n"""\nprint(')
ANSWERED = {
    "gsm8k": (
        GSM8K,
        ("<think> ok </think> <answer> {} </answer>", "So \\boxed{{{}}}.", "The answer is {}."),
        ("2", "7"),
        (
            "<think> I take it as a task.\nQuestion: is 1 + 1 it? \\boxed{7}\nProblem: no </think> "
            "<answer> 2 </answer>",
            "Problem: 1 + 1.\nUsers: 2\nQuestion: what is it?\n<answer> 2 </answer>",
            "x" * 30_000 + "\n<answer> 2 </answer>\nQuestion: next?\n<answer> 7 </answer>",
        ),
    ),
    "livecodebench": (
        [SUM],
        (f"<think> ok </think> <answer>\n{FENCE}python\n{SCRIPT}{FENCE}\n</answer>",),
        ("+", "-"),
        (
            f"Input:\n{FENCE}\n1 2\n{FENCE}\nProblem: add.\n{FENCE}python\n"
            f"{SCRIPT.format('+')}{FENCE}",
            f"{FENCE}python\n{QUOTING}{FENCE}\nDone.",
        ),
    ),
    "humaneval_plus": (
        [evalplus_problems.DOUBLE],
        (f"{FENCE}python\ndef double(x):\n    return {{}}\n{FENCE}\n",),
        ("[x, x]", "[]"),
        (),
    ),
}
"""Rows, forms of answers to the first, what is right and wrong in a form, and right answers."""


ASKED = {(n, r.template(n)): r.name for n in ANSWERED for r in RECIPES.values() if n in r.templates}
"""A recipe for each template of these benchmarks."""


@pytest.mark.parametrize(("name", "recipe"), [(name, r) for (name, _), r in ASKED.items()])
def test_a_made_up_question_does_not_change_a_verdict(name, recipe, tmp_path):
    rows, forms, (right, wrong), kept = ANSWERED[name]
    data, begun = write_rows(tmp_path / "data", rows), ""
    if name == "humaneval_plus":
        begun = RECIPES[recipe].template(name).response_prefix.partition("\n")[2]
    if recipe == "evalplus-completion":
        begun = f"{FENCE}python\ndef double(x):\n"
    for form in forms:
        responses = answers(form.format(right), form.format(wrong), begun)
        assert judged(name, data, recipe, responses) == [True, False] * len(MADE_UP)
    assert judged(name, data, recipe, kept) == [True] * len(kept)


class Thinking(Chat):
    """A tokenizer whose chat template opens a thought."""

    def apply_chat_template(self, conversation, **arguments):
        return f"{super().apply_chat_template(conversation, **arguments)}<assistant><think>\n"


class Turns(TableEngine):
    """Gives these responses in turn, to whatever it is asked."""

    def generate(self, requests):
        texts = self.answers[len(self.asked) :][: len(requests)]
        self.asked.extend(requests)
        return [Rollout(None, (), (5, 1), (0.0, 0.0), "stop", text) for text in texts]


CRUX = {"id": "s", "code": "def f(x):\n    return x", "input": "2", "output": "2"}
DRAFTS = {
    "gsm8k": (GSM8K[:1], r"\boxed{2}"),
    "humaneval_plus": (
        [evalplus_problems.DOUBLE], f"{FENCE}python\ndef double(x):\n    return [x, x]\n{FENCE}\n",
    ),
    "livecodebench": (
        [SUM], f"{FENCE}python\nprint(sum(map(int, input().split())))\n{FENCE}\n",
    ),
    "cruxeval_i": ([CRUX], "[ANSWER]assert f(2) == 2[/ANSWER]"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAFTS)
def test_a_draft_in_a_thought_is_ill_formed_whoever_opened_it(name, tmp_path):
    rows, draft = DRAFTS[name]
    benchmark = load_benchmark(name, Data(write_rows(tmp_path / "data", rows)))
    cut, seen = f"Let us try\n{draft} No wait", f"Let us see</think>\n{draft}"
    for tokenizer, responses, right in (
        (Thinking(), (cut, f"{cut}</think>\n", seen), (False, False, True)),
        (Chat(), (f"<think>{cut}", f"Let us try\n{draft}"), (False, True)),
    ):
        engine, how = Turns(responses, tokenizer), {"n": len(right), "temperature": 1.0}
        (result,) = evaluate(engine, benchmark, recipe="chat", **how)
        assert tuple(verdict.correct for verdict in result.verdicts) == right
        assert tuple(verdict.well_formed for verdict in result.verdicts) == right
        assert tuple(sample.response for sample in result.samples.values()) == responses


def test_a_program_of_megabytes_is_ill_formed_and_not_run(contest, tmp_path):
    rows = [{"id": "p1", "response": f"{FENCE}\n" + "x = 1\n" * 400_000 + FENCE}]
    samples, out = write_rows(tmp_path / "s.jsonl", rows), tmp_path / "v.jsonl"
    assert run("grade", "livecodebench", samples, "--data", contest, "--out", out).exit_code == 0
    (verdict,) = read_rows(out)
    assert "a program of 2399999 characters" in verdict["reason"]
    assert verdict["extracted"] is None


def test_data_that_cannot_be_used_is_one_line(functions, tmp_path):
    model = ("run", "--model", tmp_path, "--out", tmp_path / "out", "--benchmark")
    for message, arguments in (
        ("did you mean 'mbpp_plus'", ("mbpp_pls",)),
        ("absent.jsonl: No such file", ("humaneval_plus", "--data", tmp_path / "absent.jsonl")),
        ("is for one of", ("humaneval_plus,mbpp_plus", "--data", functions)),
        ("gsm8k is not asked for", ("mbpp_plus", "--data", f"gsm8k={functions}")),
        ("lacks the texts", ("livecodebench", "--data", functions)),
    ):
        fails(2, message, *model, *arguments)


def test_another_package_adds_a_benchmark(tmp_path, monkeypatch):
    (tmp_path / "more_sums.py").write_text("from sums import sums as load\n")
    folder = tmp_path / "sums-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: sums\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[evals.benchmarks]\nsums = more_sums:load\nbroken = more_sums:absent\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "more_sums", raising=False)
    catalog.added_benchmarks.cache_clear()
    try:
        (result,) = evaluate(TableEngine({"3 + 3 =": " 6"}), "sums")
        assert (result.row()["solved"], result.row()["tasks"]) == (1, 20)
        rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)}
        assert (rows["sums"]["tasks"], rows["broken"]["tasks"]) == ([20], [])
        assert "cannot be loaded" in rows["broken"]["description"]
    finally:
        catalog.added_benchmarks.cache_clear()
