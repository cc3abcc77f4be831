"""Control tokens: a frame may hold them, and no text that is put into the frame.

`<|im_end|>` in a program, or in the output of one, would end the prompt of the student who is shown
it. What counts is what the base's own tokenizer reads in the text, whoever wrote it: so a token
that it finds after normalising is found, and one that it takes only as a whole word is not found in
other words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from code_verifier import Task

_MARK = re.compile(
    r"<\S*\w\S*>"  # <think>, <|im_end|>, <<SYS>>
    r"|\[/?[A-Za-z_@]{2}\w*@?\]"  # [/INST], [UNUSED_TOKEN_3]
    r"|([^\w\s])\1+\w[\w ]*[^\w\s]{2,}"  # |||EMAIL|||, >>TITLE<<
)


@dataclass(frozen=True)
class ControlTokens:
    """Those of a tokenizer of transformers: special ones, and added ones that look like marks.

    Tokenizers also have ordinary vocabulary among their added tokens: runs of blanks in models of
    code, words, operators, pieces of programs such as `range(`. Of what is not special, only names
    in brackets or between doubled signs are control tokens; the rest is text like any other, and so
    is a special token of blanks alone.
    """

    tokenizer: Any
    texts: Mapping[int, str]
    """By id."""

    def first_in(self, text: str) -> str:
        """Return the first control token that the tokenizer reads in a text; empty for none."""
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        for number in self.tokenizer.encode(text, add_special_tokens=False):
            token = self.texts.get(number, "")
            if token and (number != unknown or token in text):
                return token
        return ""


def control_tokens(tokenizer: Any) -> ControlTokens:
    """Return the control tokens of a tokenizer."""
    names = ("all_special_ids", "all_special_tokens")
    texts = dict(zip(*(getattr(tokenizer, name, ()) for name in names), strict=True))
    for number, token in getattr(tokenizer, "added_tokens_decoder", {}).items():
        if token.special or _MARK.fullmatch(token.content):
            texts[number] = token.content
    return ControlTokens(tokenizer, {n: text for n, text in texts.items() if text.strip()})


def control_token_in(
    task: Task, tokens: ControlTokens, marks: re.Pattern[str] | None = None
) -> str:
    """Say which text of a task holds a control token; empty where none does.

    tokens: of the base's tokenizer; marks: of the template's own frame.
    """
    texts = {
        "program": (task.program,),
        "input": (task.input or "", *task.inputs),
        "output": (task.output or "", *task.outputs),
        "message": (task.message,),
    }
    for name, text in ((name, text) for name, parts in texts.items() for text in parts):
        mark = marks.search(text) if marks else None
        if token := tokens.first_in(text) or (mark and mark[0]):
            return f"its {name} holds {token.strip()!r}, which prompts are made of"
    return ""
