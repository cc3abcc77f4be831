"""Prompt templates, and the control tokens that no task may contain.

`<|im_end|>` in a program, or in its output, would end the prompt of the student. Control tokens are
found by the base's own tokenizer, so that its normalisation and its rules for whole words count.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from code_verifier import Task
from selfplay.errors import ConfigError
from selfplay.tasks import azr, nano
from selfplay.tasks.kind import BUILT_IN, TASKSET, TaskKind, kinds_in_play


@dataclass(frozen=True)
class Template:
    """Task kinds in a frame: writes the prompts of both roles, and reads completions."""

    kinds: tuple[TaskKind, ...]
    """Those in play, and the template's others; each name once."""
    in_play: tuple[TaskKind, ...]
    """The kinds that a run's teachers write."""
    stops: tuple[str, ...] = ()
    """Texts that end a completion, as the end token does."""
    frame: Callable[[str], str] = str
    """Returns the prompt of a request."""
    chat: Callable[[str, str], str] = azr.plain_prompt
    """Returns the prompt of a taskset's system prompt, which may be empty, and the user's text."""
    marks: re.Pattern[str] | None = None
    """Marks of the frame that are no control tokens; no text of a task may contain one."""
    start_token: bool = False
    """Whether prompts begin with the tokenizer's start token, if it has one."""

    def kind(self, name: str) -> TaskKind:
        """Return the kind of this name. Raises ConfigError if there is none."""
        by_name = {kind.name: kind for kind in self.kinds}
        if name in by_name:
            return by_name[name]
        raise ConfigError(
            f"unknown kind {name[:60]!r}; expected one of {', '.join(by_name)}, or one of your own "
            "in rollout.kinds"
        )

    def stops_of(self, kind: str) -> tuple[str, ...]:
        """Return the texts that end a completion for this kind; a taskset's has no form of ours."""
        return tuple(s for s in self.stops if kind != TASKSET or s != azr.ANSWERED)

    def propose_prompt(self, kind: str, references: Sequence[Task]) -> str:
        """Return the prompt that asks for a task of this kind."""
        return self.frame(self.kind(kind).propose_prompt(references))

    def solve_prompt(self, task: Task) -> str:
        """Return the prompt that asks for a solution."""
        if task.kind == TASKSET:
            return self.chat(task.message, task.input or "")
        return self.frame(self.kind(task.kind).solve_prompt(task))


class _Taskset:
    """A reply to a taskset's prompt; `Tasksets.KIND` says what the fields of a task hold."""

    name, words = TASKSET, "reply to a prompt of a taskset"
    shows: tuple[str, ...] = ()
    answer_text = TaskKind.answer_text  # which refuses


class _NanoReply(_Taskset, nano.Output):
    """The prompt takes the place of a program, and the reply that of an output."""


class _Reply(_Taskset, azr.Output):
    def parse_answer(self, task: Task, text: str) -> str | None:
        return text


NANO = Template(
    (*nano.KINDS, _NanoReply()),
    nano.KINDS,
    chat=lambda system, text: f"<|solve_o|>{system}{text}<|think|>",
)
AZR = Template(
    (*azr.KINDS, _Reply()),
    azr.KINDS,
    stops=(azr.ANSWERED, azr.NEXT_TURN),
    frame=azr.plain_frame,
    marks=azr.OF_THE_FRAME,
    start_token=True,
)


def template_named(
    name: str, base: str, kinds: Sequence[str] = BUILT_IN, handed: Sequence[TaskKind] = ()
) -> Template:
    """Return the template of this name.

    base: the model whose tokenizer has the chat template. kinds: `rollout.kinds`. handed: kinds of
    them that a program passed. Raises ConfigError for a chat template that is missing or does not
    work, and for unknown kinds.
    """
    template = NANO if name == "nano" else AZR
    in_play = kinds_in_play(kinds, handed, template.kinds)
    by_name = {kind.name: kind for kind in (*template.kinds, *in_play)}
    template = replace(template, kinds=tuple(by_name.values()), in_play=in_play)
    if name == "azr-chat":
        from lora_evo.model import load_tokenizer

        tokenizer = load_tokenizer(base)
        frame, chat = azr.chat_frame(tokenizer, base), partial(azr.chat_prompt, tokenizer, base)
        return replace(template, stops=(azr.ANSWERED,), frame=frame, chat=chat, start_token=False)
    return template


_MARK = re.compile(
    r"<\S*\w\S*>"  # <think>, <|im_end|>, <<SYS>>
    r"|\[/?[A-Za-z_@]{2}\w*@?\]"  # [/INST], [UNUSED_TOKEN_3]
    r"|([^\w\s])\1+\w[\w ]*[^\w\s]{2,}"  # |||EMAIL|||, >>TITLE<<
)
HALF = re.compile(r"[\ud800-\udfff]")  # half a character, as JSON may hold: it has no tokens


class ControlTokens:
    """Control tokens of a transformers tokenizer: special tokens, and added ones like `[/INST]`.

    Added tokens are also ordinary vocabulary: blanks, words, operators, pieces of programs such as
    `range(`. Of those that are not special, only names in brackets or between doubled signs are
    control tokens. A special token of blanks only is none. marks: of a template's frame.
    """

    def __init__(self, tokenizer: Any, marks: re.Pattern[str] | None = None) -> None:
        self.tokenizer, self._marks = tokenizer, marks
        names = ("all_special_ids", "all_special_tokens")
        texts = dict(zip(*(getattr(tokenizer, name, ()) for name in names), strict=True))
        for number, token in getattr(tokenizer, "added_tokens_decoder", {}).items():
            if token.special or _MARK.fullmatch(token.content):
                texts[number] = token.content
        self.texts: dict[int, str] = {n: text for n, text in texts.items() if text.strip()}
        """By token id."""

    def why_not(self, task: Task) -> str:
        """Return which text of a task holds half a character or, unless it is of a taskset, a
        control token or a mark; '' if none does."""
        texts = {
            "program": (task.program,),
            "input": (task.input or "", *task.inputs),
            "output": (task.output or "", *task.outputs),
            "message": (task.message,),
        }
        for name, text in ((name, text) for name, parts in texts.items() for text in parts):
            if half := HALF.search(text):
                return f"its {name} holds {half[0]!r}, half a character, which has no tokens"
            if task.kind == TASKSET:
                continue
            mark = self._marks.search(text) if self._marks else None
            if token := self.first_in(text) or (mark and mark[0]):
                return f"its {name} holds {token.strip()!r}, a control token of prompts"
        return ""

    def first_in(self, text: str) -> str:
        """Return the first control token that the tokenizer reads in a text; '' without any."""
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        for number in self.tokenizer.encode(text, add_special_tokens=False):
            token = self.texts.get(number, "")
            if token and (number != unknown or token in text):
                return token
        return ""
