"""Which part of a completion is its answer.

A completion starts inside the <think> that ends its prompt. What a model should write is a thought,
</think>, and one <answer> block. Of what models do write instead, this takes what can be read in
one way only:

- the last </think> ends the thought; without one, or with nothing after it, the whole text is read,
  since fences name what they hold and no prompt shows the fence that its answer needs;
- the last <answer> block with something in it counts, closed or not: a model that ended its text
  there had no more to say (texts cut at the length limit never come here);
- without any <answer>, the fences of that text are the answer.
"""

import re
from dataclasses import dataclass

from selfplay.prompts.fence import Fence, fences

_THOUGHT_ENDS = re.compile(r"<\s*/\s*think(?:ing)?\s*>", re.IGNORECASE)
_TAG = re.compile(r"<\s*(/?)\s*answer\s*>", re.IGNORECASE)


@dataclass(frozen=True)
class AnswerText:
    """The answer of a completion, not yet read."""

    text: str
    fences: tuple[Fence, ...]
    marked: bool
    """It stands in an <answer> block, or at least after a closed thought."""


def answer_text(completion: str) -> AnswerText:
    """Return the part of a completion that is its answer."""
    whole = completion.replace("\r\n", "\n").replace("\r", "\n")
    *_, rest = _THOUGHT_ENDS.split(whole)
    thought_closed = len(rest) < len(whole) and bool(rest.strip())
    text = rest if thought_closed else _THOUGHT_ENDS.sub("\n", whole)
    blocks = [block for block in _blocks(text) if block.strip()]
    if blocks:
        return AnswerText(blocks[-1], tuple(fences(blocks[-1])), True)
    plain = _TAG.sub("\n", text)
    return AnswerText(plain, tuple(fences(plain)), thought_closed)


def _blocks(text: str) -> list[str]:
    """What follows each opening tag, up to the next tag or the end."""
    tags = list(_TAG.finditer(text))
    ends = [*(tag.start() for tag in tags), len(text)][1:]
    return [text[t.end() : end] for t, end in zip(tags, ends, strict=True) if not t[1]]
