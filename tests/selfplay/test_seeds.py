"""The tasks that a run starts from: a file's, or the model's own."""

from types import SimpleNamespace

import pytest
from json_lines import write_rows

from selfplay import seeds
from selfplay.config import load_preset
from selfplay.errors import ConfigError, RunDirectoryError, SelfplayError
from selfplay.files.layout import SEEDS
from selfplay.sampling.judge import open_sandbox
from selfplay.sampling.prompts import template_of
from selfplay.seeds import given_seeds, seed_tasks
from selfplay.settings import shipped
from selfplay.tasks.held_out import equal_task
from selfplay.training import new_run, open_run

KINDS = "rollout.kinds=[code_o, code_i, code_f]"
SELF = (
    *("rollout.self_seed=true", "rollout.seed_tasks=4", "rollout.max_proposal_length=40"),
    *("eval.eval_every=0", KINDS),
)


def row(number, **more):
    return {"snippet": f"def f(a):\n    return a + {number}", "input": "1", "output": "?"} | more


ROWS = (
    *(row(number) for number in range(6)),
    row(0),  # twice
    row("b"),  # raises
    row(6, kind="code_i"),
    {"program": "def f(a):\n    return a", "inputs": list("123456"), "message": "m"},
)


@pytest.fixture
def file(tmp_path):
    return write_rows(tmp_path / "mine.jsonl", ROWS)


def test_a_run_starts_from_a_file_and_does_without_it_afterwards(runs, file, tmp_path):
    home = tmp_path / "run"
    given = (f"rollout.seed_file={file}", "rollout.seed_tasks=7", "eval.eval_every=0", KINDS)
    with new_run(runs.config(*given), home) as run:
        tasks = run.seed_tasks
        calls = [task for task in tasks if task.kind != "code_f"]
        assert sorted(task.output for task in calls) == list("1234567")
        assert [task.kind for task in calls].count("code_i") == 1
        assert [task.outputs for task in tasks if task.kind == "code_f"] == [tuple("123456")]
        assert {t.id for t in run.buffer.draw(9, 0)} == {task.id for task in calls}
    file.unlink()
    with open_run(home) as run:
        assert run.seed_tasks == tasks
        assert {t.id for t in run.buffer.draw(9, 0)} == {task.id for task in calls}


def test_fewer_seeds_are_drawn_by_the_runs_seed_from_those_whose_prompts_fit(runs, file):
    given = (f"rollout.seed_file={file}", "rollout.seed_tasks=3", "rollout.kinds=[code_o]")

    def drawn(seed, long="none"):
        config = runs.config(*given, f"seed={seed}")
        prompts = SimpleNamespace(
            template=template_of(config), why_not_shown=lambda task: "long" * (long in task.program)
        )
        return given_seeds(config, sandbox, prompts, {})

    with open_sandbox(runs.config()) as sandbox:
        assert len(drawn(1)) == 3
        assert drawn(1) == drawn(1) != drawn(2)
        assert not any("+ 1" in task.program for n in range(9) for task in drawn(n, "+ 1"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["rollout.seed_tasks=8"], "has 7 different valid tasks .* rollout.seed_tasks=7"),
        (["rollout.seed_file=no.jsonl"], "rollout.seed_file: there is no file no.jsonl"),
        (["rollout.seed_file=null", "template=azr"], "seed_tasks is 4, and template azr has one"),
    ],
)
def test_what_is_asked_and_cannot_be_had_is_an_error(runs, file, tmp_path, settings, words):
    with (
        pytest.raises(ConfigError, match=words),
        new_run(runs.config(f"rollout.seed_file={file}", *settings), tmp_path / "run"),
    ):
        pass
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def small_batches():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeds, "BATCH", 16)
        yield


@pytest.fixture(scope="module")
def written(runs, small_batches, tmp_path_factory):
    """A run at its start, the base of which wrote the seeds, and those; never changed."""
    with new_run(runs.config(*SELF), tmp_path_factory.mktemp("written") / "run") as run:
        assert {t.id for t in run.buffer.draw(9, 0)} == {t.id for t in run.seed_tasks[:4]}
        return run.directory, run.seed_tasks


def test_the_base_writes_seeds_of_every_kind_and_equal_runs_the_same(runs, written, tmp_path):
    home, tasks = written
    kinds = [task.kind for task in tasks]
    assert tasks[0].program == "def f(a):\n    return a", "the identity"
    assert (len(kinds), kinds.count("code_f")) == (8, 4)
    assert {"code_o", "code_i"} < set(kinds)
    assert len({(t.program, t.input, t.inputs) for t in tasks}) == 8
    with open_run(home) as run:
        assert run.seed_tasks == tasks
    equal = tmp_path / "equal"
    with new_run(runs.config(*SELF), equal):
        assert (home / SEEDS).read_bytes() == (equal / SEEDS).read_bytes()
    (equal / SEEDS).write_text("")
    with pytest.raises(RunDirectoryError, match="0 bytes, expected"), open_run(equal):
        pass


def test_the_base_writes_no_held_out_tasks(runs, written, tmp_path):
    _, (_, *others) = written
    held = write_rows(tmp_path / "held.jsonl", [task.to_row() for task in others])
    with new_run(runs.config(*SELF, f"eval.held_out={held}"), tmp_path / "run") as run:
        assert len(run.seed_tasks) == 8
        assert not any(equal_task(task, run.guard) for task in run.seed_tasks)


@pytest.mark.usefixtures("small_batches")
def test_a_base_that_writes_no_tasks_is_given_up(runs, tmp_path):
    with (
        pytest.raises(SelfplayError, match=r"64 proposals of nano there are 1 .*seed_file=FILE"),
        new_run(runs.config(*SELF, "rollout.max_proposal_length=2"), tmp_path / "run"),
    ):
        pass
    assert not (tmp_path / "run").exists()


def test_presets_can_have_the_seeds_that_they_ask_for():
    for name in shipped("presets"):
        config, r = load_preset(name), load_preset(name).rollout
        assert r.self_seed or len(seed_tasks(config.template, r.seed_tasks, 0)) == r.seed_tasks
