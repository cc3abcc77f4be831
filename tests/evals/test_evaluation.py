"""Asking, judging, counting and resuming, with engines that answer from a table."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from code_verifier import Sandbox
from evals import (
    Benchmark,
    Completion,
    EvalsError,
    Judging,
    Request,
    Sample,
    SettingsChanged,
    evaluate,
    load_benchmark,
)
from evals.metrics.wilson import wilson
from evals.runs.evaluation import choose


def _gold(benchmark: Benchmark) -> dict[str, str]:
    found = {}
    for question in benchmark.questions:
        task = question.problem
        answer = {"code_o": task.output, "code_i": task.input, "code_f": task.program}[task.kind]
        found[question.fields["prompt"]] = f"b=1;<|answer|>{answer}"
    return found


class TableEngine:
    """Answers by prompt. Fails after `patience` requests, if given."""

    max_rows = 8

    def __init__(self, answers: dict[str, str], patience: int | None = None) -> None:
        self.answers = answers
        self.patience = patience
        self.asked: list[Request] = []

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        if self.patience is not None and len(self.asked) >= self.patience:
            raise KeyboardInterrupt
        self.asked.extend(requests)
        return [
            Completion(self.answers.get(r.prompt, "no idea"), (5, 1), (0.0, 0.0), "stop")
            for r in requests
        ]

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as opened:
        yield opened


@pytest.mark.parametrize("name", ["nano_code_o", "nano_code_i", "nano_code_f"])
def test_the_shipped_tasks_are_graded_and_solvable(name: str, sandbox: Sandbox) -> None:
    benchmark = load_benchmark(name)
    assert len(benchmark.questions) == 400
    assert len({question.id for question in benchmark.questions}) == 400
    gold = _gold(benchmark)
    hard = {q.fields["prompt"] for q in benchmark.questions if q.level == 4}
    engine = TableEngine({p: text for p, text in gold.items() if p not in hard})
    result = evaluate(engine, benchmark, limit=60, sandbox=sandbox)
    assert {level: score.tasks for level, score in result.levels.items()} == dict.fromkeys(
        range(1, 5), 15
    )
    assert [score.rate for score in result.levels.values()] == [1.0, 1.0, 1.0, 0.0]
    assert result.levels[4].ill_formed == 1.0
    assert result.overall.rate == 0.75
    assert result.partial


def test_long_programs_are_of_all_kinds_and_solvable(sandbox: Sandbox) -> None:
    benchmark = load_benchmark("nano_long")
    assert len(benchmark.questions) == len({q.id for q in benchmark.questions}) == 300
    assert {q.problem.kind for q in benchmark.questions} == {"code_o", "code_i", "code_f"}
    taught = [q for k in "oif" for q in load_benchmark(f"nano_code_{k}").questions]
    lines = [q.problem.program.count("\n") for q in benchmark.questions]
    assert min(lines) > max(q.problem.program.count("\n") for q in taught) - 1
    result = evaluate(TableEngine(_gold(benchmark)), benchmark, limit=30, sandbox=sandbox)
    assert {level: score.rate for level, score in result.levels.items()} == {5: 1.0}


@pytest.mark.parametrize(
    ("response", "correct", "reason"),
    [
        ("<|answer|>2", True, "right"),
        ("a=1;<|answer|>2<|end|>", True, "right"),
        ("<|answer|>1", False, "wrong output"),
        ("<|answer|>2<|answer|>2", False, "2 <|answer|> markers"),
        ("2", False, "0 <|answer|> markers"),
        ("<|think|>x<|answer|>2", False, "a marker other than"),
        ("<|answer|> ", False, "nothing after"),
        ("<|answer|>g(", False, "not_literal"),
    ],
)
def test_forms_of_answers(response: str, correct: bool, reason: str, sandbox: Sandbox) -> None:
    benchmark = load_benchmark("nano_code_o")
    question = benchmark.questions[0]
    assert question.problem.output == "2"
    engine = TableEngine({question.fields["prompt"]: response})
    result = evaluate(engine, benchmark, limit=1, sandbox=sandbox)
    assert result.overall.solved == correct
    how = Judging(benchmark.recipe.template("nano_code_o"), sandbox)
    (judgement,) = benchmark.judge([(question, Sample(question.id, 0, response))], how)
    assert judgement.correct is correct
    assert reason in judgement.reason
    cut = Sample(question.id, 0, response, truncated=True)
    (judgement,) = benchmark.judge([(question, cut)], how)
    assert (judgement.correct, judgement.well_formed) == (False, False)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_an_interrupted_run_goes_on_to_the_same_bytes(tmp_path: Path, sandbox: Sandbox) -> None:
    benchmark = load_benchmark("nano_code_o")
    gold = _gold(benchmark)
    ask = {"n": 2, "temperature": 1.0, "limit": 20, "seed": 4, "sandbox": sandbox}
    straight = TableEngine(gold)
    evaluate(straight, benchmark, out=tmp_path / "a", **ask)
    assert sorted(_files(tmp_path / "a")) == [
        "prompts.jsonl",
        "result.json",
        "samples.jsonl",
        "settings.json",
        "verdicts.jsonl",
    ]

    with pytest.raises(KeyboardInterrupt):
        evaluate(TableEngine(gold, patience=16), benchmark, out=tmp_path / "b", **ask)
    samples = tmp_path / "b" / "samples.jsonl"
    assert samples.read_bytes().count(b"\n") == 16
    samples.write_bytes(samples.read_bytes()[:-9])  # a crash in the middle of a line
    seen: Counter[str] = Counter()
    second = TableEngine(gold)
    evaluate(
        second,
        benchmark,
        out=tmp_path / "b",
        progress=lambda phase, count: seen.update({phase: count}),
        **ask,
    )
    assert len(second.asked) == 25
    assert seen == {"ask": 40, "judge": 40}
    assert _files(tmp_path / "a") == _files(tmp_path / "b")
    third = TableEngine(gold)
    judged = replace(benchmark, judge=lambda pairs, how: pytest.fail("judged again"))
    again = evaluate(third, judged, out=tmp_path / "b", **ask)
    assert third.asked == []
    assert again.overall.samples == 40
    result = tmp_path / "b" / "result.json"
    result.write_text(result.read_text().replace('"python": "', '"python": "0'))
    evaluate(third, benchmark, out=tmp_path / "b", **ask)  # judged again: by another version
    assert _files(tmp_path / "a") == _files(tmp_path / "b")
    assert len({request.seed for request in straight.asked}) == 40


def test_changed_settings_and_foreign_files_are_refused(tmp_path: Path, sandbox: Sandbox) -> None:
    benchmark = load_benchmark("nano_code_o")
    engine = TableEngine({})
    evaluate(engine, benchmark, limit=4, out=tmp_path / "a", sandbox=sandbox)
    with pytest.raises(SettingsChanged, match="max_tokens was 192, now 50; seed was 0, now 1"):
        evaluate(
            engine, benchmark, limit=4, seed=1, max_tokens=50, out=tmp_path / "a", sandbox=sandbox
        )
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "samples.jsonl").touch()
    with pytest.raises(EvalsError, match="evals run did not write it"):
        evaluate(engine, benchmark, limit=4, out=tmp_path / "b", sandbox=sandbox)
    (tmp_path / "a" / "settings.json").write_text("{")
    with pytest.raises(EvalsError, match="not JSON"):
        evaluate(engine, benchmark, limit=4, out=tmp_path / "a", sandbox=sandbox)


def test_a_full_disk_leaves_whole_lines(
    tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    benchmark = load_benchmark("nano_code_o")
    calls = []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        evaluate(TableEngine({}), benchmark, limit=20, out=tmp_path / "a", sandbox=sandbox)
    lines = (tmp_path / "a" / "samples.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 8
    assert all(json.loads(line) for line in lines)
    assert lines[-1].endswith(b"\n")
    assert sorted(_files(tmp_path / "a")) == ["prompts.jsonl", "samples.jsonl", "settings.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n is 0"),
        ({"limit": -3}, "limit is -3"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": -0.5}, "temperature is -0.5"),
        ({"seed": -1}, "seed is -1"),
        ({"n": 2}, "2 samples at temperature 0"),
        ({"benchmark": "nano_kode_o"}, "did you mean 'nano_code_o'"),
    ],
)
def test_unusable_arguments(arguments: dict, message: str) -> None:
    with pytest.raises(EvalsError, match=message):
        evaluate(TableEngine({}), **{"benchmark": "nano_code_o", **arguments})


def test_a_fault_of_the_sandbox_is_not_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from code_verifier import Grade

    class Failing:
        def grade_many(self, pairs):
            return (Grade(0.0, "no process", status="sandbox_error") for _ in pairs)

    benchmark = load_benchmark("nano_code_o")
    result = evaluate(TableEngine(_gold(benchmark)), benchmark, limit=4, sandbox=Failing())
    assert (result.overall.ungraded, result.overall.rate) == (4, None)
    assert result.overall.interval == (0.0, 1.0)


def test_a_limit_takes_from_every_level() -> None:
    chosen = choose(load_benchmark("nano_code_i"), 6)
    assert sorted(question.level for question in chosen) == [1, 1, 2, 2, 3, 4]


def test_wilson_interval() -> None:
    # Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for solved, count, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson(solved / count, count) == pytest.approx((low, high), abs=5e-5)
