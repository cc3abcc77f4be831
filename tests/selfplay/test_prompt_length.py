"""Where prompts and completions end: no prompt is too long to read, no closed answer is lost."""

from dataclasses import replace

import pytest
from json_lines import write_rows

from code_verifier import Proposal, Task
from lora_evo.model import choose_device, load_base_model
from selfplay.errors import ConfigError
from selfplay.sampling.judge import validated
from selfplay.sampling.prompts import Prompts
from selfplay.sampling.texts import NOT_SAMPLED, Attempt, Proposed
from selfplay.tasks.template import template_named
from selfplay.training import new_run, train

ECHO = "def f(a):\n    return a + [1]"


@pytest.fixture(scope="module")
def tokenizer():
    return load_base_model("nano", choose_device("cpu"), "float32").tokenizer


def listing(count):
    items = list(range(count))
    return Task(kind="code_o", program=ECHO, input=str(items), output=str([*items, 1]))


def draft(kind, references=(), proposal=None, number=0):
    return Proposed(number, "p", "t0", "s0", kind, tuple(references), 1, proposal=proposal)


def attempt(task):
    return Attempt("s0", task, 1, 1.0)


@pytest.mark.parametrize("template", ["nano", "azr"])
@pytest.mark.parametrize("references", [1, 4])
def test_every_prompt_with_accepted_tasks_is_within_the_bound(
    runs, tokenizer, template, references
):
    references = 1 if template == "nano" else references
    limit = 60 if template == "nano" else 3000
    settings = (f"rollout.max_prompt_length={limit}", f"rollout.num_references={references}")
    config = runs.config(*settings)
    prompts = Prompts(config, template_named(template, "nano"), tokenizer, None)
    tasks = [listing(n) for n in range(2, 400, 3 if template == "nano" else 9)]
    accepted = [task for task in tasks if not prompts.why_too_long(task)]
    assert 2 < len(accepted) < len(tasks)
    drafts = [
        draft(kind, accepted[-shown:])
        for kind, shown in (("code_o", references), ("code_i", references), ("code_f", 1))
    ]
    attempts = [attempt(task) for task in accepted]
    requests = [*prompts.requests(drafts), *prompts.requests(attempts)]
    longest = max(len(request.prompt_ids) for request in requests)
    assert limit * 0.8 < longest <= limit
    assert longest + config.longest_completion <= config.longest_sample
    # The next longer one would not have fitted.
    one_more = tasks[len(accepted)]
    (request,) = prompts.requests([draft("code_o", [one_more] * references)])
    (solving,) = prompts.requests([attempt(one_more)])
    assert max(len(request.prompt_ids), len(solving.prompt_ids)) > limit


def test_what_the_context_leaves_is_the_bound_where_nothing_is_set(runs, tokenizer):
    template = template_named("nano", "nano")
    config = runs.config("rollout.max_completion_length=448")
    bound = Prompts(config, template, tokenizer, 512)
    assert bound.why_too_long(listing(10)) == ""
    reason = bound.why_too_long(listing(60))
    assert "at most 64 fit (what the longest completion leaves of the context of 512)" in reason
    assert Prompts(config, template, tokenizer, None).why_too_long(listing(400)) == ""
    tighter = replace(config, rollout=replace(config.rollout, max_prompt_length=50))
    assert "at most 50 fit (rollout.max_prompt_length)" in (
        Prompts(tighter, template, tokenizer, 512).why_too_long(listing(60))
    )


def test_a_bound_that_nothing_fits_is_refused(runs, tmp_path):
    config = runs.config("rollout.max_prompt_length=5")
    line = r"not even the shortest task fits into a prompt: .* at most 5 fit"
    with pytest.raises(ConfigError, match=line):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_valid_task_that_is_too_long_is_refused_by_name(runs, tmp_path):
    config = runs.config("rollout.max_prompt_length=80", "eval.eval_every=0")
    with new_run(config, tmp_path / "run") as run:
        proposals = [Proposal("code_o", ECHO, str(list(range(count)))) for count in (3, 200)]
        written = [draft("code_o", (), proposal, i) for i, proposal in enumerate(proposals)]
        short, long = validated(written, run.sandbox, run.population.prompts)
    assert (short.status, short.metrics is None) == ("ok", False)
    assert (long.status, long.task, long.metrics) == ("too_long", None, None)
    assert "a prompt that shows it has" in long.reason


def test_a_held_out_task_that_is_too_long_ends_the_run_before_it_begins(runs, tmp_path):
    rows = [
        {"kind": t.kind, "program": t.program, "input": t.input, "output": t.output}
        for t in (listing(3), listing(200))
    ]
    held_out = write_rows(tmp_path / "tasks.jsonl", rows)
    settings = ("rollout.max_prompt_length=80", f"eval.held_out=[{held_out}]")
    with pytest.raises(ConfigError, match=r"eval.held_out: tasks.jsonl/2: a prompt that"):
        train(runs.config(*settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


RIGHT = "add one</think>\n<answer>```output\n4\n```"


@pytest.mark.parametrize(
    ("template", "text", "why", "answer"),
    [
        ("azr", f"{RIGHT}</answer>", "stop", "4"),
        ("azr", f"{RIGHT}</answer>\nUser: And then?\nAssistant: <think>hm</think>", "length", "4"),
        ("azr", f"{RIGHT}</answer><answer>5</answer>", "stop", "4"),
        ("azr", f"{RIGHT}\nUser:", "stop", "4"),
        ("azr", RIGHT, "stop", "4"),
        ("azr", RIGHT, "length", None),
        ("nano", "<|answer|>4", "stop", "4"),
        ("nano", "<|answer|>4", "length", None),
    ],
)
def test_an_answer_counts_once_it_is_closed_whatever_follows(
    runs, tokenizer, template, text, why, answer
):
    prompts = Prompts(runs.config(), template_named(template, "nano"), tokenizer, None)
    task = Task("code_o", "def f(a):\n    return a + 1", "3", "4")
    (asked,) = prompts.requests([attempt(task)])
    assert asked.stop == (("</answer>", "\nUser:") if template == "azr" else ())
    read = prompts.read(attempt(task), replace(NOT_SAMPLED, finish_reason=why, text=text))
    assert read == answer
    if template == "azr":
        mine = text.replace("```output\n4\n```", f"```python\n{ECHO}\n```\n\n```input\n[1]\n```")
        completion = replace(NOT_SAMPLED, finish_reason=why, text=mine.partition("<answer>5")[0])
        assert (prompts.read(draft("code_o"), completion) is not None) == (answer is not None)
