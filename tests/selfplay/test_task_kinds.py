"""A task kind of one's own, in one file, goes wherever the built-in ones go."""

import importlib
import shutil
from pathlib import Path

import pytest
from json_lines import write_rows

from code_verifier import Proposal, Status, Task
from selfplay.config import read_config
from selfplay.errors import ConfigError
from selfplay.files.record import read_run
from selfplay.reports.run_page import report
from selfplay.run import Extensions
from selfplay.sampling.judge import open_sandbox
from selfplay.tasks.kind import CodeO
from selfplay.tasks.template import template_named
from selfplay.training import new_run, open_run, resume, train

EXAMPLES = Path(__file__).parents[2] / "examples"
CODE_E = "own_task_kind:CODE_E"


@pytest.fixture
def example(monkeypatch):
    """The module of the example, as its own folder's programs import it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    return importlib.import_module("own_task_kind")


def task(program, given, answer):
    return Task("code_e", program, given, answer, id=f"e-{answer}")


def test_a_fourth_kind_trains_is_evaluated_resumes_and_is_shown(runs, tmp_path, example):
    programs = (("1 / a", "4"), ("a", "0"))
    tasks = [task(f"def f(a):\n    return {x}", "0", end) for x, end in programs]
    held_out = write_rows(tmp_path / "held-out.jsonl", [t.to_row() for t in tasks])
    config = runs.config(
        *("steps=1", "rollout.proposals=4", "rollout.max_proposal_length=48"),
        f"eval.held_out=[{held_out}]",
    )
    own = Extensions(task_kinds=[example.CODE_E])
    train(config, tmp_path / "whole", extensions=own)
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    shutil.rmtree(tmp_path / "half" / "checkpoints" / "step-1")
    assert read_run(tmp_path / "half").config["rollout"]["kinds"] == ["code_o", CODE_E]
    resume(tmp_path / "half")  # config.yaml says where the kind is
    assert runs.outcome(tmp_path / "half") == runs.outcome(tmp_path / "whole")

    record = read_run(tmp_path / "whole")
    mine = [t for t in record.tasks() if t.kind == "code_e"]
    assert any(t.accepted and t.solve_rate is not None for t in mine)
    assert any(t.reward is not None and t.reward >= 0 for t in mine)
    assert record.kinds == ["code_e", "code_o"]
    solving = [row.solving for row in record.evals if row.solving]
    assert all(list(row.kinds) == ["code_e"] for row in solving)
    report(tmp_path / "whole", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Solve rate, code_e" in page
    assert f"The student is to {CodeO.words}." in page


def test_the_examples_kind_judges_calls_by_how_they_end(example):
    with open_sandbox(read_config({})) as sandbox:
        for program, given, end in (
            *(("return 1 / a", "0", "4"), ("return 1 / a", "1", "0")),
            ("raise KeyError", "1", Status.EXCEPTION),
        ):
            proposal = Proposal("code_e", f"def f(a):\n    {program}", given)
            verdict = example.CODE_E.validate(proposal, sandbox)
            assert end == (verdict.task.output if verdict.task else verdict.status)
        scores = [example.CODE_E.grade(task("", "", "4"), a, sandbox).score for a in ("4", "0")]
        assert scores == [1.0, 0.0]


def test_a_kind_that_no_import_finds_is_handed_over_again(runs, tmp_path, example):
    kind = example.RaisedException()
    config = runs.config("steps=1", "eval.eval_every=0")
    with new_run(config, tmp_path / "run", extensions=Extensions(task_kinds=[kind])) as run:
        assert run.config.rollout.kinds == ("code_o", ":code_e")
    with pytest.raises(ConfigError, match=r"code_e, an object of the program .* pass it again"):
        resume(tmp_path / "run")
    again = Extensions(task_kinds=[example.RaisedException()])
    with open_run(tmp_path / "run", extensions=again) as run:
        assert again.task_kinds[0] in run.template.in_play


def test_a_kind_that_cannot_be_had_is_refused_in_one_line(runs, tmp_path, example):
    def refused(*kinds, handed=()):
        with pytest.raises(ConfigError) as caught:
            template_named("nano", "nano", kinds, handed)
        return str(caught.value)

    assert "cannot import no_such" in refused("no_such:KIND")
    assert "own_task_kind:ENDS is of type tuple; expected" in refused("own_task_kind:ENDS")
    twice = refused(CODE_E, ":code_e", handed=[example.RaisedException()])
    assert "has the name of another kind, code_e" in twice
    unused = refused("code_o", handed=[example.CODE_E])
    assert "task_kinds holds own_task_kind:CODE_E, and" in unused


@pytest.mark.slow
def test_a_kind_of_ones_own_goes_to_workers(runs, tmp_path, example):
    config = runs.config("steps=1", "eval.eval_every=0")
    own = Extensions(task_kinds=[example.CODE_E])
    train(config, tmp_path / "run", extensions=own, workers=2)
    assert {t.kind for t in read_run(tmp_path / "run").tasks()} == {"code_o", "code_e"}
