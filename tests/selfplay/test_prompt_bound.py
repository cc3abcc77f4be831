"""No task is accepted whose prompts would be longer than the run, or its engine, can read."""

import json
from dataclasses import replace

import pytest

from code_verifier import Proposal, Task
from evals.engine.base_model import choose_device, load_base_model
from selfplay.errors import ConfigError
from selfplay.population.prompt_bound import PromptBound, longest_completion, longest_sample
from selfplay.population.writing import Draft, Prompts, Trial
from selfplay.prompts.template import template_named
from selfplay.run.attempts import validate
from selfplay.step.loop import new_run, train
from selfplay.step.progress import Progress

ECHO = "def f(a):\n    return a + [1]"


@pytest.fixture(scope="module")
def tokenizer():
    return load_base_model("nano", choose_device("cpu"), "float32").tokenizer


def listing(count):
    items = list(range(count))
    return Task(kind="code_o", program=ECHO, input=str(items), output=str([*items, 1]))


@pytest.mark.parametrize("template", ["nano", "azr"])
@pytest.mark.parametrize("references", [1, 4])
def test_every_prompt_with_accepted_tasks_is_within_the_bound(
    runs, tokenizer, template, references
):
    references = 1 if template == "nano" else references
    limit = 60 if template == "nano" else 3000
    settings = (f"rollout.max_prompt_length={limit}", f"rollout.num_references={references}")
    config = runs.config(*settings)
    prompts = template_named(template, "nano")
    bound = PromptBound(config, prompts, tokenizer, None)
    tasks = [listing(n) for n in range(2, 400, 3)]
    accepted = [task for task in tasks if not bound.excess(task)]
    assert 2 < len(accepted) < len(tasks)
    asked = Prompts(prompts, tokenizer, config.rollout)
    drafts = [
        Draft("t0", kind, tuple(accepted[-shown:]), 1)
        for kind, shown in (("code_o", references), ("code_i", references), ("code_f", 1))
    ]
    trials = [Trial("s0", task, 1, 1.0) for task in accepted]
    requests = [*asked.of_drafts(drafts), *asked.of_trials(trials)]
    longest = max(len(request.prompt_ids) for request in requests)
    assert limit * 0.8 < longest <= limit
    assert longest + longest_completion(config) <= longest_sample(config)
    # The next longer one would not have fitted.
    one_more = tasks[len(accepted)]
    (request,) = asked.of_drafts([Draft("t0", "code_o", (one_more,) * references, 1)])
    (trial,) = asked.of_trials([Trial("s0", one_more, 1, 1.0)])
    assert max(len(request.prompt_ids), len(trial.prompt_ids)) > limit


def test_what_the_context_leaves_is_the_bound_where_nothing_is_set(runs, tokenizer):
    template = template_named("nano", "nano")
    config = runs.config("rollout.max_completion_length=448")
    bound = PromptBound(config, template, tokenizer, 512)
    assert bound.excess(listing(10)) == ""
    reason = bound.excess(listing(60))
    assert "at most 64 fit (what the longest completion leaves of the context of 512)" in reason
    assert PromptBound(config, template, tokenizer, None).excess(listing(400)) == ""
    tighter = replace(config, rollout=replace(config.rollout, max_prompt_length=50))
    assert "at most 50 fit (rollout.max_prompt_length)" in (
        PromptBound(tighter, template, tokenizer, 512).excess(listing(60))
    )


def test_a_bound_that_nothing_fits_is_refused(runs, tmp_path):
    config = runs.config("rollout.max_prompt_length=5")
    line = r"not even the shortest task fits into a prompt: .* at most 5 fit"
    with pytest.raises(ConfigError, match=line):
        train(config, tmp_path / "run", Progress(quiet=True))
    assert not (tmp_path / "run").exists()


def test_a_valid_task_that_is_too_long_is_refused_by_name(runs, tmp_path):
    config = runs.config("rollout.max_prompt_length=80", "yardstick.eval_every=0")
    with new_run(config, tmp_path / "run") as run:
        proposals = [Proposal("code_o", ECHO, str(list(range(count)))) for count in (3, 200)]
        (short, metrics), (long, none) = validate(run, enumerate(proposals))
    assert (short.status, metrics is None) == ("ok", False)
    assert (long.status, long.task, none) == ("too_long", None, None)
    assert "a prompt that shows it has" in long.reason


def test_a_held_out_task_that_is_too_long_ends_the_run_before_it_begins(runs, tmp_path):
    rows = [
        {"kind": t.kind, "program": t.program, "input": t.input, "output": t.output}
        for t in (listing(3), listing(200))
    ]
    held_out = tmp_path / "tasks.jsonl"
    held_out.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    settings = ("rollout.max_prompt_length=80", f"yardstick.held_out=[{held_out}]")
    with pytest.raises(ConfigError, match=r"yardstick.held_out: tasks.jsonl/2: a prompt that"):
        train(runs.config(*settings), tmp_path / "run", Progress(quiet=True))
    assert not (tmp_path / "run").exists()
