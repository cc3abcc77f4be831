"""Control tokens: a frame may hold them, and no text that is put into the frame.

`<|im_end|>` in a program, or in the output of one, would end the prompt of the student who is shown
it. What counts is what the base's own tokenizer reads as a token of its own, whoever wrote it.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from code_verifier import Task

_MARK = re.compile(r"<\S*\w\S*>|\[/?[A-Z_]{2,}\]")


def control_tokens(tokenizer: Any) -> frozenset[str]:
    """Return the special and added tokens of a tokenizer of transformers, as texts.

    Of what was added as an ordinary token, only what looks like a mark, as `<think>`; words,
    operators and blanks, as of models of code, are plain text.
    """
    texts = set(getattr(tokenizer, "all_special_tokens", ()))
    for token in getattr(tokenizer, "added_tokens_decoder", {}).values():
        if token.special or _MARK.fullmatch(token.content):
            texts.add(token.content)
    return frozenset(text for text in texts if text.strip())


def control_token_in(
    task: Task, tokens: Collection[str], marks: re.Pattern[str] | None = None
) -> str:
    """Say which text of a task holds a control token; empty where none does.

    tokens: of the base's tokenizer; marks: of the template's own frame.
    """
    for name, text in _texts(task):
        mark = marks.search(text) if marks else None
        token = next((token for token in sorted(tokens) if token in text), mark and mark[0])
        if token:
            return f"its {name} holds {token.strip()!r}, which prompts are made of"
    return ""


def _texts(task: Task) -> Iterator[tuple[str, str]]:
    """Yield all of a task that a prompt may show, by what it is."""
    yield "program", task.program
    for name, texts in (
        ("input", (task.input or "", *task.inputs)),
        ("output", (task.output or "", *task.outputs)),
        ("message", (task.message,)),
    ):
        for text in texts:
            yield name, text
