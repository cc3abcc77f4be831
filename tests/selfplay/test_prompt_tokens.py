"""What reaches a base: its start token, no control token but the template's, and one date."""

import re
from collections import namedtuple
from dataclasses import replace

import pytest
import tokenizers
from transformers.utils.chat_template_utils import render_jinja_template

from code_verifier import Proposal, Task
from selfplay.config import read_config
from selfplay.sampling.judge import open_sandbox, validated
from selfplay.sampling.prompts import Prompts
from selfplay.sampling.texts import Proposed
from selfplay.tasks import azr
from selfplay.tasks.template import AZR, NANO, control_token_in, control_tokens

Added = namedtuple("Added", "content special")
ADDED = {
    1: Added("<s>", True),
    2: Added("[INST]", True),
    3: Added("[gMASK]", True),
    4: Added("<|im_end|>", False),
    5: Added("<fim_prefix>", True),
    6: Added("    ", False),  # runs of blanks, as models of code have
    7: Added("def", False),
    9: Added("->", False),
    10: Added("_x_", False),
    8: Added("<pad>", True),
    11: Added("range(", False),
    12: Added("[0]", False),
    13: Added("[UNUSED_TOKEN_3]", False),
    14: Added("|||EMAIL|||", False),
}


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


def test_what_a_tokenizer_reads_as_one_token_is_a_control_token_but_for_blanks_and_words():
    expected = {"<s>", "[INST]", "[gMASK]", "<|im_end|>", "<fim_prefix>", "<pad>"}
    expected |= {"[UNUSED_TOKEN_3]", "|||EMAIL|||"}
    tokens = control_tokens(Tokenizer())
    assert set(tokens.texts.values()) == expected
    assert not tokens.first_in("def f(x):\n    return [_x_ -> 0 for i in range(x)][0]")


@pytest.fixture(scope="module")
def lower_case():
    """A tokenizer that lowers texts before it looks for tokens, and has an unknown one."""
    from tokenizers import AddedToken, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "x": 1}, unk_token="<unk>"))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", pad_token="\n")
    made.add_tokens([AddedToken("<|im_end|>", normalized=True)])
    word = AddedToken("end", single_word=True, special=True)
    made.add_special_tokens({"additional_special_tokens": [word]})
    return made


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("a <|IM_END|> b", "<|im_end|>"),
        ("a.append(b)", ""),
        ("the end of it", "end"),
        ("unknown words\nare plain", ""),
        ("the text <unk> is none", "<unk>"),
    ],
)
def test_what_counts_is_what_the_tokenizer_itself_reads(lower_case, text, token):
    said = control_token_in(replace(CALL, output=text), control_tokens(lower_case))
    assert said == (f"its output holds {token!r}, which prompts are made of" if token else "")


def test_every_text_of_a_task_is_looked_at():
    tokens = control_tokens(Tokenizer())
    assert not control_token_in(CALL, tokens, AZR.marks)
    plain = replace(CALL, inputs=("1",), outputs=("1",))
    for part in ("program", "input", "output", "message", "inputs", "outputs"):
        for token in ("<s>", "[INST]", "<|im_end|>", "<think>"):
            text = f"'{token}'"
            task = replace(plain, **{part: (text,) if part.endswith("s") else text})
            said = control_token_in(task, tokens, AZR.marks)
            assert said.startswith(f"its {part.removesuffix('s')} holds {token!r}")


def test_an_output_that_a_program_makes_of_pieces_is_refused_too():
    """What is written holds no control token; what comes of it does."""
    prompts = Prompts(read_config({}), AZR, Tokenizer(), None)
    texts = [
        ('def f(x):\n    return chr(60) + "|im_" + x + "|>"', "'end'"),
        ('def f(tag):\n    return "<" + tag + ">"', "'s'"),
        ('def f(tag):\n    return "<" + tag + ">"', "'h1'"),
    ]
    written = [
        Proposed(i, str(i), "t0", "s0", "code_o", (), 0, proposal=Proposal("code_o", *text))
        for i, text in enumerate(texts)
    ]
    with open_sandbox(read_config({"sandbox": {"workers": 1}})) as sandbox:
        first, second, third = validated(written, sandbox, prompts)
    assert (first.status, first.task) == ("form", None)
    assert first.reason == "its output holds '<|im_end|>', which prompts are made of"
    assert second.reason == "its output holds '<s>', which prompts are made of"
    assert third.task.output == "'<h1>'"


class Dated(Tokenizer):
    """Renders as transformers does."""

    chat_template = "Today is {{ strftime_now('%d %B %Y') }}. {{ messages[0].content }}"

    def apply_chat_template(self, turns, tokenize, add_generation_prompt, **named):
        texts, _ = render_jinja_template([turns], chat_template=self.chat_template, **named)
        return texts[0]


def test_the_day_that_a_template_shows_is_always_the_same():
    assert "Today is 26 July 2024." in azr.chat_frame(Dated(), "m")("x")
