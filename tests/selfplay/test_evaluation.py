"""What does not move while a run's own tasks change."""

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from json_lines import write_rows
from msgspec import UNSET

from code_verifier import Task
from selfplay.config import EvalConfig, load_preset
from selfplay.errors import ConfigError
from selfplay.evaluate import solving_row, teaching_rows
from selfplay.reports.run_page import summary
from selfplay.sampling.texts import Attempt
from selfplay.seeds import taskset_tasks
from selfplay.tasks.buffer import TaskBuffer
from selfplay.tasks.held_out import guard_of, held_out_tasks, tasks_of
from selfplay.training import new_run


def test_tasks_are_spread_evenly_and_stay_the_same():
    tasks = held_out_tasks(EvalConfig.held_out, 30)
    level_of = {task.id: level for name in EvalConfig.held_out for task, level in tasks_of(name)}
    counts = Counter((task.kind, level_of[task.id]) for task in tasks)
    assert len(counts) == 12
    assert set(counts.values()) == {2, 3}
    assert tasks == held_out_tasks(EvalConfig.held_out, 30)
    assert len({task.id for task in tasks}) == 30
    everything = held_out_tasks(EvalConfig.held_out, 10**6)
    assert len(everything) == 1200


def test_tasks_whose_families_come_in_turn_are_drawn_of_all(tmp_path):
    task = {"kind": "code_o", "program": "def f(a): return a", "output": "1"}
    rows = [{"id": f"{n}", "input": f"{n}"} | task for n in range(80)]
    paths = [str(write_rows(tmp_path / f"{name}.jsonl", rows)) for name in ("a", "b")]
    first, other = (held_out_tasks((path,), 10) for path in paths)
    assert len({int(task.id) % 8 for task in first}) > 4
    assert [task.id for task in first] == [task.id for task in other]
    assert [task.id for task in held_out_tasks(paths[:1], 80)] == [row["id"] for row in rows]
    pairs = [(Task.from_row(row, complete=True), row) for row in rows]
    tasksets = SimpleNamespace(tasks=[pairs])
    trained, held_out = taskset_tasks(load_preset("nano", "rollout.tasks=verifiers:a"), tasksets)
    assert (len(trained), len(held_out)) == (72, 8)
    assert len({int(task.id) % 10 for task in held_out}) > 3
    assert not {task for task, _ in trained} & {*held_out}


def test_a_file_of_tasks_serves_too(tmp_path):
    identity, pairs = {"program": "def f(a): return a"}, {"inputs": ["1"] * 2, "outputs": ["1"] * 2}
    rows = [
        {"id": "a", "kind": "code_o", "input": "1", "output": "1"} | identity,
        {"id": "", "kind": "code_f", "visible": 1, "level": 3} | identity | pairs,
    ]
    path = write_rows(tmp_path / "mine.jsonl", rows)
    found = held_out_tasks((str(path),), 10)
    assert [task.id for task in found] == ["mine.jsonl/2", "a"]
    assert [level for _, level in tasks_of(str(path))] == [0, 3]
    endless = json.dumps(rows[1]).replace('"level": 3', '"level": 1e999')
    for source, more, words in (
        (str(path), endless, "line 2: not a task: cannot convert float infinity"),
        *((str(path), "[]", "line 2: found list"), (str(path), "{}", "line 2: not a task: field")),
        ("nano_code_0", "", "mean nano_code_o"),
    ):
        path.write_text(f"{json.dumps(rows[0])}\n{more}\n")
        with pytest.raises(ConfigError, match=words):
            held_out_tasks((source,), 10)


def test_the_base_is_measured_before_the_first_step_and_every_living_member_later(runs, whole):
    first, *rows = runs.rows(whole / "eval.jsonl")
    assert (first["step"], first["member"]) == (0, "base")
    assert first["solving"]["difference"] == 0.0
    assert first["teaching"]["proposals"] == 3
    assert sorted({r["step"] for r in rows}) == [2, 4]
    # Evolution came before the measurement of its step: children are measured, the removed not.
    for step in (2, 4):
        mine = {r["member"]: r for r in rows if r["step"] == step}
        assert {"t2", "s2"} < set(mine)
        assert len(mine) == 4
        for name, row in mine.items():
            assert ("teaching" in row) == name.startswith("t")
            assert ("solving" in row) == name.startswith("s")
            if "solving" in row:
                assert len(row["solving"]["solved"]) == 6
                assert row["solving"]["judged"] == [2] * 6


def test_a_run_that_learns_nothing_differs_from_the_base_in_nothing(runs, tmp_path):
    """Equal seeds, equal weights: the pairing is exact, on held-out and on the run's own tasks."""
    off = ("learner.learning_rate=0", "learner.teacher_learning_rate=0", "steps=1")
    tried = ("eval.tasks=12", "eval.samples=4", "rollout.max_completion_length=24")
    home = runs.train(tmp_path / "run", *off, *tried)
    rows = runs.rows(home / "eval.jsonl")
    base = rows[0]["teaching"]
    assert 0.0 < rows[0]["solving"]["solve_rate"] < 1.0
    for row in rows[1:]:
        if "solving" in row:
            assert row["solving"]["difference"] == 0.0
        else:
            assert row["teaching"]["rewards"] == base["rewards"]
    for row in runs.rows(home / "metrics.jsonl"):
        assert row["same_tasks"]["difference"] in (0.0, None)


def test_the_base_attempts_a_sample_of_the_steps_own_tasks(runs, whole):
    tasks = runs.rows(whole / "tasks.jsonl")
    for row in runs.rows(whole / "metrics.jsonl"):
        mine = [t for t in tasks if t["step"] == row["step"]]
        both = [t for t in mine if t["base_solve_rate"] is not None]
        pairs = Counter((t["teacher"], t["student"]) for t in both)
        assert set(pairs.values()) <= {1}
        assert row["same_tasks"]["tasks"] == len(both)
        if both:
            students = sum(t["solve_rate"] for t in both) / len(both)
            base = sum(t["base_solve_rate"] for t in both) / len(both)
            assert row["same_tasks"]["difference"] == pytest.approx(students - base)


def test_without_held_out_tasks_teachers_are_measured(runs, tmp_path):
    home = runs.train(tmp_path / "run", "steps=1", "eval.held_out=[]")
    rows = runs.rows(home / "eval.jsonl")
    assert not any("solving" in row for row in rows)
    assert {row["member"] for row in rows if "teaching" in row} == {"base", "t0", "t1"}
    assert "solved by the base" in summary(home)


def test_references_of_measured_teachers_are_the_runs_seeds(runs, tmp_path, monkeypatch):
    settings = ("eval.eval_every=0", "eval.proposals=16", "rollout.max_proposal_length=1")
    with new_run(runs.config(*settings), tmp_path / "run") as run:
        asked, sample = [], run.population.sample
        monkeypatch.setattr(run.population, "sample", lambda d: asked.extend(d) or sample(d))
        teaching_rows(run, [None])
        shown = {task.program for draft in asked for task in draft.references}
        assert len(shown) > 1
        assert shown <= {task.program for task in run.seed_tasks}


def solving(*tasks):
    """Attempts at tasks by score; None is one without a verdict."""
    asked = (None, Task("code_o", "p", "1", "1"), 0, 1.0)
    return [
        [Attempt(*asked, answer="x", score=s or 0.0, infra_error=s is None) for s in scores]
        for scores in tasks
    ]


def test_rates_are_paired_by_task_and_what_was_not_judged_is_left_out():
    mine = solving((1.0, 1.0), (1.0, 0.0), (None, None), (0.0, 0.0), (1.0, None))
    base = solving((1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (1.0, 1.0))
    of_base = solving_row(["code_o"] * 5, base, [None] * 5).rates
    assert of_base == [0.5, 0.0, 1.0, 0.5, 1.0]
    row = solving_row(["code_o"] * 5, mine, of_base)
    assert row.over_start is UNSET
    assert solving_row(["code_o"] * 5, mine, [None] * 5, of_base).over_start == row.difference
    assert row.solve_rate == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert row.difference == pytest.approx((0.5 + 0.5 - 0.5 + 0) / 4)
    assert row.standard_error == pytest.approx((0.6875 / 12) ** 0.5)
    assert row.pass_at_k == pytest.approx(2 / 3)
    assert row.solved == (2, 1, 0, 0, 1)
    assert row.judged == (2, 2, 0, 2, 1)
    assert row.kinds["code_o"].difference == row.difference


def task(name, kind="code_o"):
    return Task(kind, f"def f(a): return {name}", "1", name, id=name)


def test_seed_tasks_hold_their_share_of_the_references():
    buffer = TaskBuffer(4, [task("0"), task("1")])
    for i in range(2, 9):
        buffer.add(task(str(i)))
    drawn = [buffer.draw(1, seed, 0.3)[0].id for seed in range(400)]
    share = sum(name in ("0", "1") for name in drawn) / 400
    assert share == pytest.approx(0.3, abs=0.07)
    assert drawn == [buffer.draw(1, seed, 0.3)[0].id for seed in range(400)]
    assert {buffer.draw(1, seed)[0].id for seed in range(100)} == {"5", "6", "7", "8"}


def test_a_buffer_gives_the_last_steps_tasks_first_and_may_keep_its_oldest():
    buffer = TaskBuffer(6, [task("0")], "oldest")
    for i in range(1, 9):
        buffer.add(task(str(i), "code_i" if i % 2 else "code_o"), step=i // 3 + 1)
    assert {t.id for t in buffer.draw(9, 1)} == set("012345")
    for seed in range(20):
        drawn = buffer.draw_newest("code_i", 3, 3, seed)  # 3 and 5 are of step 2
        assert {t.id for t in drawn[:2]} == {"3", "5"}
        assert {t.kind for t in drawn} == {"code_i"}
        assert len(drawn) == 3
    assert {buffer.draw_newest("code_i", 3, 3, seed)[2].id for seed in range(20)} == {"0", "1"}
    assert buffer.draw_newest("code_f", 3, 3, 1) == []
    as_code_i = [replace(task(name), kind="code_i") for name in ("0", "1", "3")]
    drawn = buffer.draw_newest("code_i", 3, 3, 1, guard_of(as_code_i))
    assert [t.id for t in drawn] == ["5"], "a seed of code_o is held out as code_i"
