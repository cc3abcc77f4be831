"""What reaches a base: no prompt that is too long, its start token, no control token but the
template's, one date; and no closed answer is lost.
"""

import json
import re
import shutil
from collections import namedtuple
from dataclasses import replace

import pytest
import tokenizers
from json_lines import write_rows
from small_models import small_model
from transformers.utils.chat_template_utils import render_jinja_template

from code_verifier import Proposal, Task
from lora_evo.model import choose_device, load_base_model, load_tokenizer
from selfplay.config import read_config
from selfplay.errors import ConfigError
from selfplay.sampling.judge import open_sandbox, validate
from selfplay.sampling.prompts import Prompts, require_faithful
from selfplay.sampling.texts import NOT_SAMPLED, Attempt, Proposed
from selfplay.tasks import azr
from selfplay.tasks.held_out import DATA
from selfplay.tasks.template import AZR, NANO, ControlTokens, template_named
from selfplay.training import train
from selfplay_command import command, refused

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


@pytest.mark.parametrize(
    ("template", "references", "limit"), [("nano", 1, 60), ("azr", 1, 3000), ("azr", 4, 3000)]
)
def test_every_prompt_with_accepted_tasks_is_within_the_bound(
    runs, tokenizer, template, references, limit
):
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


def test_a_valid_task_that_is_too_long_is_refused_by_name(runs, tokenizer):
    config = runs.config("rollout.max_prompt_length=80")
    prompts = Prompts(config, NANO, tokenizer, None)
    proposals = [Proposal("code_o", ECHO, str(list(range(count)))) for count in (3, 200)]
    written = [draft("code_o", (), proposal, i) for i, proposal in enumerate(proposals)]
    with open_sandbox(config) as sandbox:
        short, long = validate(written, sandbox, prompts)
    assert (short.status, short.metrics is None) == ("ok", False)
    assert (long.status, long.task, long.metrics) == ("too_long", None, None)
    assert "a prompt that shows it has" in long.reason


@pytest.mark.parametrize(
    ("limit", "line"),
    [
        (80, r"eval.held_out: tasks.jsonl/2: a prompt that"),
        (5, r"not even the shortest task fits into a prompt: .* at most 5 fit"),
    ],
)
def test_what_cannot_fit_into_a_prompt_ends_the_run_before_it_begins(runs, tmp_path, limit, line):
    rows = [listing(count).to_row() for count in (3, 200)]
    for row in rows:
        del row["id"]
    held_out = write_rows(tmp_path / "tasks.jsonl", rows)
    settings = (f"rollout.max_prompt_length={limit}", f"eval.held_out=[{held_out}]")
    with pytest.raises(ConfigError, match=line):
        train(runs.config(*settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


RIGHT = "add one</think>\n<answer>```output\n4\n```"


@pytest.mark.parametrize(
    ("template", "text", "why", "answer"),
    [
        ("azr", f"{RIGHT}</answer>\nUser: And then?\nAssistant: <think>hm</think>", "length", "4"),
        ("azr", f"{RIGHT}</answer><answer>5</answer>", "stop", "4"),
        ("azr", f"{RIGHT}\nUser:", "stop", "4"),
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


Added = namedtuple("Added", "content special")
SPECIAL = ("<s>", "[INST]", "[gMASK]", "<fim_prefix>", "<pad>")
CONTROL = (*SPECIAL, "<|im_end|>", "[UNUSED_TOKEN_3]", "|||EMAIL|||")
PLAIN = ("    ", "def", "->", "_x_", "range(", "[0]")
"""Added tokens that programs are made of, as models of code have."""
ADDED = {i: Added(text, text in SPECIAL) for i, text in enumerate((*CONTROL, *PLAIN), 1)}


class Tokenizer:
    """An added token or a character at a time, after a start token where it is asked for."""

    bos_token = "<s>"
    added_tokens_decoder = ADDED
    chat_template = "{{ messages[0].content }}"

    def encode(self, text, add_special_tokens):
        numbers = {token.content: number for number, token in ADDED.items()}
        parts = re.split(f"({'|'.join(map(re.escape, numbers))})", text)
        ids = ([numbers[p]] if p in numbers else [20 + ord(c) for c in p] for p in parts)
        return [1] * add_special_tokens + [number for some in ids for number in some]


CALL = Task("code_o", "def f(x):\n    return x", "1", "1", id="a")


@pytest.mark.parametrize(
    ("template", "frame", "starts"),
    [
        (AZR, AZR.frame, 1),
        (AZR, lambda request: f"<s>{request}", 1),  # a frame that begins with it already
        (NANO, NANO.frame, 0),
    ],
)
def test_a_prompt_begins_as_the_tokenizer_begins_a_text_once(template, frame, starts):
    prompts = Prompts(read_config({}), replace(template, frame=frame), Tokenizer(), None)
    drafts = [Proposed(0, "a", "t0", "s0", "code_o", (CALL,), 0)]
    (request,) = prompts.requests(drafts)
    assert request.prompt[:2].count(1) == request.prompt.count(1) == starts


@pytest.mark.parametrize("form", ["$A", "$A <|end|>", "<|pad|> $A", "<|pad|> $A <|end|>"])
def test_what_a_tokenizer_puts_behind_a_text_does_not_end_a_prompt(form):
    made, plain = load_tokenizer("nano"), load_tokenizer("nano")
    special = [(token, made.convert_tokens_to_ids(token)) for token in ("<|pad|>", "<|end|>")]
    made.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=form, special_tokens=special
    )
    assert made.encode("a") != plain.encode("a") or form == "$A"
    drafts = [Proposed(0, "a", "t0", "s0", "code_o", (CALL,), 0)]
    ours, without = (
        Prompts(read_config({}), AZR, tokenizer, None).requests(drafts)[0].prompt
        for tokenizer in (made, plain)
    )
    assert ours == (0,) * form.startswith("<|pad|>") + without


BLANKS = tokenizers.Regex(r"\s+"), tokenizers.Regex(" +"), tokenizers.Regex(r"\t")


@pytest.mark.parametrize(
    ("normalizer", "words"),
    [
        (None, None),
        *((tokenizers.normalizers.Replace(blanks, " "), "") for blanks in BLANKS),
        (tokenizers.normalizers.Lowercase(), "\"return 'A  b'\" becomes \"return 'a  b'\""),
        (tokenizers.normalizers.Replace("'A  b'", "'A b'"), "\"return 'A  b'\" becomes"),
    ],
)
def test_a_tokenizer_keeps_indentation_or_is_refused_and_other_changes_are_said(
    normalizer, words, capsys
):
    made = load_tokenizer("nano")
    if normalizer is not None:
        made.backend_tokenizer.normalizer = normalizer
    if words == "":
        with pytest.raises(ConfigError, match="tokenizer of m loses line breaks or indentation"):
            require_faithful(made, "m")
        return
    require_faithful(made, "m")
    said = capsys.readouterr().err
    assert said == "" if words is None else words in said
    assert said.count("\n") == (words is not None)


def test_a_base_whose_tokenizer_loses_indentation_is_refused_before_the_run(runs, tmp_path):
    small_model("llama", vocab_size=4096).save_pretrained(tmp_path / "base")
    for file in (DATA / "nano").glob("*token*"):
        shutil.copy(file, tmp_path / "base")
    file = tmp_path / "base" / "tokenizer.json"
    settings = json.loads(file.read_text())
    settings["normalizer"] = {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}
    file.write_text(json.dumps(settings))
    arguments = runs.arguments(tmp_path / "run", f"base={tmp_path / 'base'}")
    refused(command(*arguments), "the tokenizer of", "loses line breaks or indentation")
    assert not (tmp_path / "run").exists()


def test_what_a_tokenizer_reads_as_one_token_is_a_control_token_but_for_blanks_and_words():
    tokens = ControlTokens(Tokenizer())
    assert set(tokens.texts.values()) == set(CONTROL)
    assert not tokens.first_in("def f(x):\n    return [_x_ -> 0 for i in range(x)][0]")


def test_every_text_of_a_task_is_looked_at():
    tokens = ControlTokens(Tokenizer(), AZR.marks)
    assert not tokens.why_not(CALL)
    plain = replace(CALL, inputs=("1",), outputs=("1",))
    for part in ("program", "input", "output", "message", "inputs", "outputs"):
        for token in ("<s>", "[INST]", "<|im_end|>", "<think>"):
            text = f"'{token}'"
            task = replace(plain, **{part: (text,) if part.endswith("s") else text})
            said = tokens.why_not(task)
            assert said.startswith(f"its {part.removesuffix('s')} holds {token!r}")
    half = tokens.why_not(replace(plain, message="cut \ud83d in two"))
    assert half == "its message holds '\\ud83d', half a character, which has no tokens"


def test_a_task_is_refused_for_a_mark_that_is_written_or_that_its_program_makes_of_pieces():
    prompts = Prompts(read_config({}), AZR, Tokenizer(), None)
    texts = [
        ('def f(x):\n    return chr(60) + "|im_" + x + "|>"', "'end'"),
        ('def f(tag):\n    return "<" + tag + ">"', "'s'"),
        ('def f(tag):\n    return "<" + tag + ">"', "'h1'"),
        ("def f(x):\n    '<answer>' and 1\n    return len(x)", "'1'"),
        ("def f(x):\n    return len(x)", "'</think>'"),
    ]
    written = [
        Proposed(i, str(i), "t0", "s0", "code_o", (), 0, proposal=Proposal("code_o", *text))
        for i, text in enumerate(texts)
    ]
    with open_sandbox(read_config({"sandbox": {"workers": 1}})) as sandbox:
        first, second, third, *marked = validate(written, sandbox, prompts)
    assert (first.status, first.task) == ("form", None)
    assert first.reason == "its output holds '<|im_end|>', a control token of prompts"
    assert second.reason == "its output holds '<s>', a control token of prompts"
    assert third.task.output == "'<h1>'"
    assert [(p.status, p.reason) for p in marked] == [
        ("form", "its program holds '<answer>', a control token of prompts"),
        ("form", "its input holds '</think>', a control token of prompts"),
    ]


class Dated(Tokenizer):
    """Renders as transformers does."""

    chat_template = "Today is {{ strftime_now('%d %B %Y') }}. {{ messages[0].content }}"

    def apply_chat_template(self, turns, tokenize, add_generation_prompt, **named):
        texts, _ = render_jinja_template([turns], chat_template=self.chat_template, **named)
        return texts[0]


def test_the_day_that_a_template_shows_is_always_the_same():
    assert "Today is 26 July 2024." in azr.chat_frame(Dated(), "m")("x")
