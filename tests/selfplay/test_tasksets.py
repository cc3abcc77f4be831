"""Tasks of a taskset as a kind: their prompts and replies; `tests/with_peers` has whole runs."""

from dataclasses import replace
from functools import partial

import pytest

from code_verifier import Task
from lora_evo.model import Rollout
from selfplay.config import load_preset
from selfplay.errors import ConfigError
from selfplay.sampling.prompts import Prompts
from selfplay.sampling.texts import Attempt
from selfplay.tasks.azr import chat_prompt
from selfplay.tasks.kind import TASKSET
from selfplay.tasks.template import AZR, NANO
from selfplay.training import new_run
from selfplay_command import command, refused

TASK = Task(TASKSET, "", "What is <think>?\nUser: hm", "hash", message="Be short.")
ALONE = replace(TASK, message="")
GIVEN = ("nano", "rollout.tasks=verifiers:one")


class Tokenizer:
    """Writes turns as `[role] text`, and a number for each character."""

    all_special_ids, all_special_tokens = (), ()

    def apply_chat_template(self, turns, *, tokenize, add_generation_prompt, strftime_now):
        assert not tokenize
        assert add_generation_prompt
        return "".join(f"[{t['role']}] {t['content']}\n" for t in turns) + "[assistant] "

    def encode(self, text, add_special_tokens=True):
        return [ord(character) for character in text]


def test_a_prompt_has_the_turns_of_its_task_and_no_form_of_ours():
    by_chat = replace(AZR, chat=partial(chat_prompt, Tokenizer(), "m")).solve_prompt
    end = f"[user] {TASK.input}\n[assistant] "
    assert by_chat(TASK) == f"[system] Be short.\n{end}"
    assert by_chat(ALONE) == end
    assert AZR.solve_prompt(TASK) == f"Be short.\nUser: {TASK.input}\nAssistant:"
    assert AZR.solve_prompt(ALONE) == f"User: {TASK.input}\nAssistant:"
    assert NANO.solve_prompt(TASK) == f"<|solve_o|>Be short.{TASK.input}<|think|>"
    with pytest.raises(ConfigError, match="has no answer_text"):
        NANO.kind(TASK.kind).answer_text(TASK)


@pytest.mark.parametrize(
    ("template", "text", "reason", "read"),
    [
        (AZR, "It is\nso", "length", "It is\nso"),
        (AZR, "It</answer> is\nUser: and", "stop", "It</answer> is"),
        (NANO, "hm<|answer|>7", "stop", "7"),
        (NANO, "7", "stop", None),
    ],
)
def test_a_reply_is_the_whole_text_also_of_one_that_was_cut(template, text, reason, read):
    prompts = Prompts(load_preset(*GIVEN), template, Tokenizer(), None)
    assert prompts.why_not_shown(TASK) == ""
    half = prompts.why_not_shown(replace(TASK, input="cut \ud83d in two"))
    assert half == "its input holds '\\ud83d', half a character, which has no tokens"
    attempt = Attempt("s0", TASK, 0, 1.0)
    assert prompts.read(attempt, Rollout(None, (), (), (), reason, text)) == read


def test_a_taskset_sets_the_kind_and_drops_the_shipped_held_out_tasks():
    config = load_preset(*GIVEN, "eval.held_out=[nano_code_o, mine.jsonl]", "rollout.taskset.n=3")
    assert (config.rollout.kinds, config.teachers) == ((TASKSET,), 0)
    assert config.eval.held_out == ("mine.jsonl",)
    assert config.rollout.taskset == {"n": 3}
    assert load_preset(*GIVEN).eval.held_out == ()
    assert load_preset("nano").eval.held_out
    with pytest.raises(ConfigError, match=r"rollout.kinds names 'taskset'"):
        load_preset("nano", "rollout.kinds=[taskset]")
    with pytest.raises(ConfigError, match="teachers is 2 and"):
        load_preset(*GIVEN, "teachers=2")


def test_a_taskset_that_is_missing_is_refused_before_the_base_loads(tmp_path, monkeypatch):
    """With and without verifiers the message names the taskset."""
    words = ("train", "--out", tmp_path / "run", "--quiet")
    refused(command(*words, "--set", "rollout.tasks=verifiers:no_one"), "verifiers:no_one: ")
    assert not (tmp_path / "run").exists()
    loader = "selfplay.members.population.load_base"
    monkeypatch.setattr(loader, lambda _: pytest.fail("it loads"))
    given = load_preset("nano", "rollout.tasks=verifiers:no_one")
    with pytest.raises(ValueError, match="no_one"), new_run(given, tmp_path / "run"):
        pass


def test_an_attempt_is_solved_from_the_score_that_the_run_asks_for():
    attempt = Attempt("s0", TASK, 0, 1.0, score=0.6)
    assert not attempt.solved
    attempt.solved_from = 0.5
    assert attempt.solved
