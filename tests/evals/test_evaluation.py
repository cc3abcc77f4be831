"""Asking, grading, counting and resuming, with engines that answer from a table."""

import gzip
from collections import Counter
from dataclasses import replace
from itertools import count

import pytest
from full_disk import on_full_disk
from json_lines import write_rows
from meanwhile import executing_fails
from mortal import changes_until_death
from sums import GOLD, TableEngine, sums

from code_verifier import Sandbox, SandboxUnavailable, ScriptRunner
from evals import EvalsError, Question, SettingsChanged, evaluate, read_runs
from evals.records import saved_samples
from evals.side_by_side import table_of
from lora_evo import LoraEvoError
from lora_evo.model import Rollout


def files(folder):
    found = sorted(path for path in folder.iterdir() if path.name != ".lock")
    return {path.name: path.read_bytes() for path in found}


def ask(engine, out=None, **changes):
    settings = {"n": 2, "temperature": 1.0, "seed": 4, **changes}
    (result,) = evaluate(engine, sums(), out=out, **settings)
    return result


def test_levels_ill_form_and_faults_are_counted():
    easy = {prompt: answer for prompt, answer in GOLD.items() if len(answer) == 1}
    result = ask(TableEngine({**easy, "5 + 5 =": "?"}), limit=12, n=1)
    assert [result.row()[f"rate_level_{level}"] for level in (1, 2)] == [1.0, 0.0]
    assert {n: part["tasks"] for n, part in result.as_json()["levels"].items()} == {1: 6, 2: 6}
    assert result.overall.ungraded == 1
    assert result.overall.value == pytest.approx(5 / 11)
    assert result.row()["ill_formed"] == pytest.approx(7 / 12)
    assert result.partial
    low, high = result.overall.interval or (0, 0)
    assert 0 <= low < 5 / 11 < high <= 1
    with pytest.raises(SandboxUnavailable, match="base on sums: 40 of 40 samples were not judged"):
        ask(TableEngine(dict.fromkeys(GOLD, "?")))


@pytest.mark.parametrize("count", [1, 10, 11, 20])
def test_samples_that_are_not_judged_are_graded_when_the_run_resumes(tmp_path, count):
    """Of twenty samples; more than half are no result."""

    def grade(pairs, how):
        for number, verdict in enumerate(sums().grade(pairs, how)):
            fault = {"correct": None, "reason": "lost" if number else "odd"}
            yield replace(verdict, **fault) if number < count else verdict

    broken = replace(sums(), grade=grade)
    folder = tmp_path / "base" / "sums"
    if count > 10:
        with pytest.raises(SandboxUnavailable, match=rf"{count} of 20 .* \(lost\); .*same comma"):
            evaluate(TableEngine(GOLD), broken, out=tmp_path)
        assert set(files(folder)) == {"prompts.jsonl", "samples.jsonl", "settings.json"}
    else:
        (run,) = evaluate(TableEngine(GOLD), broken, out=tmp_path)
        assert (run.overall.ungraded, run.overall.value) == (count, 1.0)
    engine = TableEngine(GOLD)
    (run,) = evaluate(engine, sums(), out=tmp_path)
    assert engine.asked == []
    assert (run.overall.ungraded, run.row()["solved"]) == (0, 20)
    assert read_runs(tmp_path) == [replace(run, prompts=dict(run.prompts))]


def test_a_sandbox_that_judges_nothing_is_found_before_anything_is_sampled(tmp_path, monkeypatch):
    executing_fails(monkeypatch)
    engine = TableEngine(GOLD)
    for sandbox in (Sandbox, ScriptRunner):
        with pytest.raises(SandboxUnavailable, match="lost: it ended; type `code-verifier doctor`"):
            evaluate(engine, replace(sums(), sandbox=sandbox), out=tmp_path / "out")
    assert (engine.asked, list(tmp_path.iterdir())) == ([], [])
    assert evaluate(engine, sums())[0].overall.value == 1.0  # it runs no program


def test_adapters_share_batches_and_seeds(tmp_path):
    engine = TableEngine(GOLD)
    results = evaluate(engine, sums(), [None, "s0"], n=2, temperature=1.0, out=tmp_path)
    assert [result.adapter for result in results] == ["base", "s0"]
    assert {request.adapter for request in engine.asked[16:24]} == {None, "s0"}
    seeds = [[r.seed for r in engine.asked if r.adapter == name] for name in (None, "s0")]
    assert sorted(seeds[0]) == sorted(seeds[1])
    assert len(set(seeds[0])) == 40
    runs = read_runs(tmp_path)
    assert runs == [replace(run, prompts=dict(run.prompts)) for run in results]
    assert [run.row()["rate_level_2"] for run in runs] == [1.0, 1.0]
    rows = [row for run in runs for row in run.rows()]
    assert {row["prompt"]: row["response"] for row in rows} == GOLD


def test_an_interrupted_run_resumes_to_the_same_bytes(tmp_path):
    ask(TableEngine(GOLD), tmp_path / "a")
    whole, cut = (tmp_path / name / "base" / "sums" for name in "ab")
    assert sorted(files(whole)) == [
        "prompts.jsonl", "result.json", "samples.jsonl", "settings.json", "verdicts.jsonl",
    ]  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        ask(TableEngine(GOLD, patience=16), tmp_path / "b")
    samples = cut / "samples.jsonl"
    assert samples.read_bytes().count(b"\n") == 16
    samples.write_bytes(samples.read_bytes()[:-9])  # a crash in the middle of a line
    seen = Counter()
    second = TableEngine(GOLD)
    ask(second, tmp_path / "b", progress=lambda phase, done: seen.update({phase: done}))
    assert len(second.asked) == 25
    assert seen == {"ask": 40, "grade": 40}
    assert files(whole) == files(cut)
    third = TableEngine(GOLD)
    benchmark = replace(sums(), grade=lambda pairs, how: pytest.fail("graded again"))
    (again,) = evaluate(third, benchmark, n=2, temperature=1.0, seed=4, out=tmp_path / "b")
    assert third.asked == []
    assert again.row()["samples"] == 40
    result = cut / "result.json"
    result.write_text(result.read_text().replace('"python": "', '"python": "0'))
    ask(third, tmp_path / "b")  # graded again: by another version
    assert files(whole) == files(cut)


@pytest.mark.parametrize("first", [{"n": 4}, {"n": 2, "limit": 8}, {"n": 8, "limit": 3}, {"n": 1}])
def test_a_run_grows_and_shrinks_with_what_is_there(tmp_path, first):
    here, whole = (tmp_path / name / "base" / "sums" for name in "ab")
    ask(TableEngine(GOLD), tmp_path / "a", **first)
    engine = TableEngine(GOLD)
    count, limit = first["n"], first.get("limit", 20)
    found = ask(engine, tmp_path / "a", n=4)
    assert len(engine.asked) == 80 - min(count, 4) * limit
    assert found == read_runs(tmp_path / "a")[0]
    ask(TableEngine(GOLD), tmp_path / "b", n=4)
    if count <= 4:
        assert files(here) == files(whole)
    assert found.row()["samples"] == 80
    fewer = ask(TableEngine(dict.fromkeys(GOLD, "asked again")), tmp_path / "b", n=3, limit=6)
    assert (fewer.row()["tasks"], fewer.row()["samples"], fewer.partial) == (6, 18, True)
    again = ask(TableEngine(dict.fromkeys(GOLD, "asked again")), tmp_path / "b", n=4)
    assert files(whole)["samples.jsonl"] == files(here)["samples.jsonl"] or count > 4
    assert again.row()["samples"] == 80


def test_another_prompt_of_a_question_is_another_run(tmp_path):
    ask(TableEngine(GOLD), tmp_path, limit=6)
    first, *rest = sums().questions
    other = replace(sums(), questions=(replace(first, fields={"prompt": "0 + 0 ="}), *rest))
    assert evaluate(TableEngine(GOLD), other, n=2, temperature=1.0, seed=4, out=tmp_path)
    changed = replace(first, fields={"prompt": "zero"})
    other = replace(sums(), questions=(changed, *rest))
    with pytest.raises(SettingsChanged, match="the prompt of sums/0 was another"):
        evaluate(TableEngine(GOLD), other, n=2, temperature=1.0, seed=4, out=tmp_path)


class Narrow(TableEngine):
    """Has no room for prompts of 7 characters."""

    def tokenise(self, request):
        if len(request.prompt) == 7:
            raise LoraEvoError("no room")
        return request


def test_a_prompt_that_does_not_fit_counts_as_wrong(tmp_path):
    engine, adapters = Narrow(GOLD), [None, "s0", "s1"]
    runs = evaluate(engine, sums(), adapters, out=tmp_path)
    assert len(engine.asked) == 10 * len(adapters)
    for run in runs:
        lost = [verdict for verdict in run.verdicts if verdict.reason == "the prompt does not fit"]
        assert len(lost) == 10
        assert all(v.correct is False and v.truncated and not v.well_formed for v in lost)
        assert (run.overall.value, run.row()["truncated"]) == (0.5, 0.5)
    again = Narrow({})
    assert evaluate(again, sums(), adapters, out=tmp_path) == runs
    notes = table_of(read_runs(tmp_path))[1].notes
    assert "sums: of 30 samples the prompt does not fit, which counts as wrong" in notes


class EchoEngine(TableEngine):
    """Answers every request by its seed, and notes on disk how often it was asked."""

    max_rows = 4

    def __init__(self, notes):
        super().__init__({})
        self.notes = notes

    def generate(self, requests):
        with self.notes.open("a") as file:
            file.writelines(f"{request.seed}\n" for request in requests)
        return [Rollout(None, (), (5, 1), (0.0, 0.0), "stop", str(r.seed % 9)) for r in requests]


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_a_change_a_run_resumes_to_the_same_files(tmp_path, every):
    def act(home):
        ask(EchoEngine(home.parent / "notes"), home, limit=6)

    whole = tmp_path / "whole" / "home"
    made = changes_until_death(lambda: act(whole), whole, None)
    assert made > 8
    for k in count(1, every):
        home = tmp_path / str(k) / "home"
        home.parent.mkdir()
        died = changes_until_death(lambda h=home: act(h), home, k) is None
        if died:
            assert changes_until_death(lambda h=home: act(h), home, None)
        found, wanted = (files(place / "base" / "sums") for place in (home, whole))
        assert found == wanted, f"killed at change {k} of {made}"
        asked = (home.parent / "notes").read_text().split()
        # A batch whose answers were lost with the process is asked once more, nothing else is.
        assert len(asked) - len(set(asked)) <= 4
        if not died:
            break


def test_a_result_of_other_verdicts_is_no_result(tmp_path):
    evaluate(TableEngine(GOLD), sums(), out=tmp_path)
    (result,) = tmp_path.rglob("result.json")
    whole = result.read_bytes()
    evaluate(TableEngine(GOLD), sums(), out=tmp_path, limit=4)
    result.write_bytes(whole)  # as where a command is killed between the verdicts and the result
    with pytest.raises(EvalsError, match=r"result\.json is of other verdicts"):
        read_runs(tmp_path)
    evaluate(TableEngine(GOLD), sums(), out=tmp_path, limit=4)
    (found,) = read_runs(tmp_path)
    assert (found.partial, len(found.verdicts)) == (True, 4)


def test_changed_settings_and_strange_files_are_refused(tmp_path):
    engine = TableEngine({})
    ask(engine, tmp_path, limit=4)
    with pytest.raises(SettingsChanged, match="max_tokens was 4, now 50; seed was 4, now 1"):
        ask(engine, tmp_path, limit=4, seed=1, max_tokens=50)
    (tmp_path / "b" / "base" / "sums").mkdir(parents=True)
    (tmp_path / "b" / "base" / "sums" / "samples.jsonl").touch()
    with pytest.raises(EvalsError, match="evals run did not write it"):
        ask(engine, tmp_path / "b")
    (tmp_path / "base" / "sums" / "settings.json").write_text("{")
    with pytest.raises(EvalsError, match="not JSON"):
        ask(engine, tmp_path, limit=4)
    with pytest.raises(EvalsError, match="2 samples at temperature 0"):
        ask(engine, temperature=0)


def test_top_p_and_top_k_reach_the_engine_and_the_settings(tmp_path):
    engine = TableEngine({})
    result = ask(engine, tmp_path, limit=4, top_p=0.9, top_k=5)
    assert {(r.top_p, r.top_k) for r in engine.asked} == {(0.9, 5)}
    assert (result.settings["top_p"], result.settings["top_k"]) == (0.9, 5)
    assert not {"top_p", "top_k"} & set(ask(engine, limit=4).settings)


TWICE = "def twice(x):\n    return 2 * x\n"
NAMES = ("HumanEval/900", "HumanEval/901", "60", "Mbpp/900")
BENCHMARK = replace(
    sums(),
    name="humaneval_plus",
    questions=tuple(Question(name, {"prompt": f"# {name}\n"}, "") for name in NAMES),
)


def read(path):
    samples, _ = saved_samples(path, BENCHMARK)
    return [(s.id, s.sample, s.solution or s.response) for s in samples]


def test_evalplus_json_lines(tmp_path):
    rows = [
        {"task_id": "HumanEval/900", "solution": TWICE, "base_status": "pass"},
        {"task_id": "HumanEval/901", "completion": "    return 1"},
        {"task_id": "HumanEval/900", "solution": "x = 1"},
        {"task_id": "HumanEval/5", "solution": "x = 1"},
    ]
    path = write_rows(tmp_path / "any.name", rows)
    found = read(path)
    assert found == [
        ("HumanEval/900", 0, TWICE),
        ("HumanEval/901", 0, "# HumanEval/901\n    return 1"),
        ("HumanEval/900", 1, "x = 1"),
    ]
    assert saved_samples(path, BENCHMARK)[1] == [
        "samples of evalplus",
        "1 samples left out: not in this data, 'HumanEval/5' first",
    ]
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert read(path) == found


def test_a_completion_goes_on_from_a_prompt_of_evalplus_alone(tmp_path):
    texts = "4", "```python\nx = 4\n```"
    path = write_rows(tmp_path / "in", [{"task_id": "sums/2", "completion": t} for t in texts])
    found = saved_samples(path, sums())[0]
    assert [(sample.response, sample.solution) for sample in found] == [
        ("4", "4"),
        (texts[1], None),
    ]


P0 = '{"id": "p0", "response": "x"}'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([P0, "{"], "line 2: not JSON"),
        ([P0, '{"id": "p1"}'], "line 2: expected an object with id, response"),
        ([P0, '{"id": "p1", "response": 3}'], "line 2: response cannot be 3"),
        ([P0, '{"id": "p1", "response": "x", "truncated": 1}'], "truncated cannot be 1"),
        ([P0, '{"id": "p0", "response": "x", "sample": 0}'], "line 2: .* came before"),
        (['{"task_id": "x", "solution": 3}'], "line 1: neither solution nor completion"),
        (['{"id": "x", "response": "y"}'], "humaneval_plus has no task 'x'"),
        (['{"doc_id": 1, "resps": [["a"]]}'], "found fields doc_id, resps; expected"),
        ([], "holds no samples"),
    ],
)
def test_what_is_no_sample_is_refused_in_one_line(tmp_path, lines, said):
    path = tmp_path / "any.name"
    path.write_text("\n".join(lines))
    with pytest.raises(EvalsError, match=said) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_full_disk_takes_no_part_of_a_sample(tmp_path):
    program = r"""
from evals.question import Sample
from evals.records import read_samples
from evals.run import add_samples, open_folder

failed, run = 0, home / "run"
with open_folder(run, {}, {"q": "?"}):
    for n in range(300):
        new = [Sample("q", n, "x" * 100, False, 1)]
        try:
            add_samples(run, new)
        except OSError:
            failed += 1
            assert len(read_samples(run / "samples.jsonl")) == n
            make_room()
            add_samples(run, new)
with open_folder(run, {}, {"q": "?"}) as kept:
    assert [number for _, number in kept] == list(range(300))
assert failed == 1
"""
    on_full_disk(tmp_path / "disk", 32, program)
