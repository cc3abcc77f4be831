"""The held-out tasks of nano as benchmarks of evals: solvable, graded by form and by running."""

import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from json_lines import read_rows
from meanwhile import executing_fails

from code_verifier import SandboxUnavailable
from evals import Benchmark, Data, EvalsError, Grading, Sample
from selfplay import nano_benchmarks
from selfplay.tasks import held_out
from selfplay.tasks.template import NANO

ROOT = Path(__file__).parents[2]


def verdicts(benchmark: Benchmark, samples: list[Sample]):
    how = Grading(benchmark.recipe.template(benchmark.name))
    named = {question.id: question for question in benchmark.questions}
    return list(benchmark.grade([(named[sample.id], sample) for sample in samples], how))


@pytest.mark.parametrize("declared", ["pyproject.toml", "selfplay/pyproject.toml"])
def test_every_set_is_offered_by_an_entry_point(declared: str) -> None:
    found = tomllib.loads((ROOT / declared).read_text())["project"]["entry-points"]
    assert (
        set(found["evals.benchmarks"])
        == set(held_out.NANO_SETS)
        == set(nano_benchmarks.DESCRIPTIONS)
    )
    for name, target in found["evals.benchmarks"].items():
        module, _, function = target.partition(":")
        assert getattr(import_module(module), function)(Data()).name == name


@pytest.mark.parametrize(
    ("name", "count"), [(n, 300 if "long" in n else 400) for n in held_out.NANO_SETS]
)
def test_the_tasks_are_solvable_and_asked_as_they_were_written(name: str, count: int) -> None:
    benchmark = nano_benchmarks.load(name, Data())
    assert len({question.id for question in benchmark.questions}) == count
    rows = read_rows(held_out.DATA / f"{name}.jsonl")
    prompts = [question.fields["prompt"] for question in benchmark.questions]
    assert prompts == [row["prompt"] for row in rows]
    some = benchmark.part(12)
    gold = [Sample(q.id, 0, NANO.kind(q.problem.kind).answer_text(q.problem, "b=1;")) for q in some]
    assert all(verdict.correct for verdict in verdicts(benchmark, gold))


def test_forms_of_answers() -> None:
    benchmark = nano_benchmarks.load("nano_code_o", Data())
    name = benchmark.questions[0].id
    for response, correct, reason in (
        *(("<|answer|>2", True, "right"), ("a=1;<|answer|>2<|end|>", True, "right")),
        *(("<|answer|>1", False, "wrong output"), ("<|answer|>g(", False, "not_literal")),
        *((text, False, "ill-formed") for text in ("2", "<|answer|> ", "<|think|>x<|answer|>2")),
        ("<|answer|>2<|answer|>2", False, "ill-formed"),
    ):
        samples = [Sample(name, 0, response), Sample(name, 1, response, truncated=True)]
        whole, cut = verdicts(benchmark, samples)
        assert (whole.correct, reason in whole.reason) == (correct, True), response
        assert (cut.correct, cut.well_formed) == (False, False)


def test_data_of_the_users_own_is_refused() -> None:
    with pytest.raises(EvalsError, match="leave out --data"):
        nano_benchmarks.load("nano_code_o", Data("x.jsonl"))


def test_sets_whose_answers_are_executed_try_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    nano_benchmarks.load("nano_code_f", Data()).try_sandbox()
    executing_fails(monkeypatch)
    nano_benchmarks.load("nano_code_o", Data()).try_sandbox()  # values are only compared
    for name in ("nano_code_i", "nano_code_f", "nano_long"):
        with pytest.raises(SandboxUnavailable, match="the fork server was lost: it ended"):
            nano_benchmarks.load(name, Data()).try_sandbox()
