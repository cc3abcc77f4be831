"""No member is trained on a task that members are measured on."""

from dataclasses import replace

import pytest
from json_lines import write_rows

from code_verifier import Task
from selfplay import seed_tasks
from selfplay.errors import ConfigError, RunDirectoryError, SelfplayError
from selfplay.files.record import read_run
from selfplay.reports.findings import warnings_of
from selfplay.sft import fine_tune
from selfplay.tasks.held_out import NANO_SETS, equal_task, guard_of
from selfplay.training import open_run, train

TASK = Task("code_o", "def f(x):\n    return [x, -2, 'a']", "1, 'b'", "[1, -2, 'a']", id="held/1")
EVALUATED = ("steps=1", "eval.tasks=1", "eval.samples=1", "eval.proposals=1")


def write(path, tasks, **more):
    return write_rows(path, [task.to_row() | more for task in tasks])


@pytest.mark.parametrize(
    ("changes", "equal"),
    [
        ({}, True),
        ({"program": 'def f( y ):\n    # adds\n    return [y,-2,"a"]', "input": '1,  "b"'}, True),
        ({"program": "def f(x):\n    return [x, 2, 'a']"}, False),
        ({"program": "def f(x):\n    return [x, -2, 'c']"}, False),
        ({"program": "def f(x):\n    return [x, -2.0, 'a']"}, False),
        ({"program": "def f(x):\n    return [-2, x, 'a']"}, False),
        ({"input": "2, 'b'"}, False),
        ({"kind": "code_i"}, False),
    ],
)
def test_equal_tasks_have_one_kind_input_and_program_but_for_layout_and_own_names(
    tmp_path, changes, equal
):
    guard = guard_of((str(write(tmp_path / "held.jsonl", [TASK])),))
    found = equal_task(replace(TASK, **changes), guard)
    assert (None if found is None else found.id) == ("held/1" if equal else None)


def test_seeds_that_come_with_nano_pass_over_held_out_tasks():
    """Of whose programs and inputs some are the same but for the names."""
    guard = guard_of(NANO_SETS)
    plain = [seed_tasks("nano", 64, seed) for seed in range(8)]
    seeds = [seed_tasks("nano", 64, seed, guard) for seed in range(8)]
    assert {len(tasks) for tasks in seeds} == {64}
    assert not any(equal_task(task, guard) for tasks in seeds for task in tasks)
    assert any(equal_task(task, guard) for tasks in plain for task in tasks)
    assert sum(map(len, guard.values())) == 1500


def test_held_out_proposals_train_none_and_are_counted_apart(runs, brief, tmp_path):
    rows = [row for row in runs.rows(brief / "tasks.jsonl") if row["step"] == 1]
    met = [row for row in rows if row["status"] == "ok"][::2]
    held = write_rows(tmp_path / "held.jsonl", [row | {"level": 1} for row in met])
    home = runs.train(tmp_path / "guarded", *EVALUATED, f"eval.held_out={held}")
    proposals = runs.rows(home / "tasks.jsonl")
    rows = [row for row in proposals if row["status"] == "held_out"]
    assert [row["id"] for row in rows] == [row["id"] for row in met]
    assert all(row["reason"].startswith("it is the held-out task 1-t") for row in rows)
    assert all("reward" not in row or row["reward"] is None for row in rows)
    assert not any(row["attempts"] for row in rows)
    run = read_run(home)
    (step,) = run.steps
    assert step.rejected["held_out"] == len(met)
    valid = sum(row["status"] == "ok" for row in proposals)
    assert step.valid_share == valid / (len(proposals) - len(met))
    assert f"{len(rows)} of the run's tasks were held-out ones: left out" in warnings_of(run)


def test_held_out_rows_of_a_file_train_none_and_a_file_of_them_is_refused(runs, tmp_path):
    tasks = seed_tasks("nano", 6, 5)
    held = write(tmp_path / "held.jsonl", tasks[:3], level=1)
    settings = (*EVALUATED, f"eval.held_out={held}", "rollout.kinds=[code_o]")
    every = (f"rollout.tasks={write(tmp_path / 'some.jsonl', tasks)}", "rollout.proposals=3")
    home = runs.train(tmp_path / "run", *settings, *every)
    rows = runs.rows(home / "tasks.jsonl")
    assert {row["status"] for row in rows} == {"ok", "held_out"}
    free = {task.program for task in tasks[3:]}
    assert {row["program"] for row in rows if row["status"] == "ok"} <= free
    assert not any(row["attempts"] for row in rows if row["status"] == "held_out")
    before, rows = held.read_bytes(), (home / "eval.jsonl").read_bytes()
    write(held, tasks[1:4], level=1)
    with pytest.raises(RunDirectoryError, match="are not those on which"), open_run(home):
        pass
    held.write_bytes(before)
    with open_run(home):
        assert (home / "eval.jsonl").read_bytes() == rows
    with pytest.raises(
        ConfigError, match=r"all tasks of code_o in .* are held-out tasks, on which"
    ):
        train(runs.config(*settings, f"rollout.tasks={held}"), tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_seeds_and_a_supervised_start_leave_held_out_tasks_out(runs, tmp_path):
    tasks = seed_tasks("nano", 6, 5)
    held = write(tmp_path / "held.jsonl", tasks[:3], level=1)
    settings = (*EVALUATED, f"eval.held_out={held}", "rollout.kinds=[code_o]")
    seeds = write(tmp_path / "seeds.jsonl", tasks)
    with pytest.raises(ConfigError, match="has 3 different valid tasks"):
        train(
            runs.config(*settings, f"rollout.seed_file={seeds}", "rollout.seed_tasks=4"),
            tmp_path / "refused",
        )
    said = []
    config = runs.config(*settings)
    more = {"batch_size": 2, "learning_rate": 1e-3, "held_out": 0}
    fine_tune(config, seeds, tmp_path / "start", said.append, **more)
    assert "3 of the 6 tasks are held-out ones: left out" in said
    with pytest.raises(SelfplayError, match="all 3 tasks are held-out ones"):
        fine_tune(config, held, tmp_path / "none", said.append, **more)
