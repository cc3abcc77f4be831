"""Where a response ends: before a turn that the model makes up itself."""

import re
from collections.abc import Callable

from evals.recipes import Template

_OPEN, _CLOSE = "<think>", "</think>"
_FENCED = re.compile(r"```\w*[ \t]*\n[^`]*(?:`(?!``)[^`]*)*```(?!\w)")
_TURN = re.compile(
    r"(?=[\n<\[])(?:(?:\n|</answer>)(?P<turn>(?P<space>[ \t]*)(?:\#{2,6}[ ]?)?"
    r"(?P<who>Q|Question|Problem|Task|Human|User|Assistant)[ \t]*\d*[ \t]*:)"
    r"|(?P<token><(?:\|(?:im_start|im_end|endoftext|endofmask|eot_id|start_header_id|end|user"
    r"|assistant|system)\|>|(?:start|end)_of_turn>|/s>)|\[INST\]))"
)
"""What begins or ends a turn, in our prompts, in other usual ones, and in chat templates."""


def own_turn(
    response: str,
    template: Template | None,
    answered: Callable[[str], object],
    *,
    code: bool = False,
) -> str:
    """Return a response up to where it goes on with a turn that the model made up itself.

    A chat template's token ends it, and so does "User:" at a line's start where the prompt is made
    of such turns. Any other marker ("Question:", "Problem:", ...) does once the text since the
    last one is an answer: `answered` is true of it. Thoughts are passed over, and in code fenced
    blocks and what is indented; what a template `continues` ends at any marker.
    """
    text, thoughts = _without_thoughts(response)
    searched = _FENCED.sub(lambda fence: "`" * len(fence[0]), text) if code else text
    start, first = thoughts, len(response) - len(response.lstrip())
    for match in _TURN.finditer(searched):
        token = match["token"] is not None
        end = match.start("token" if token else "turn")
        if end <= first or (not token and (end < thoughts or (code and match["space"]))):
            continue
        certain = template is not None and (
            template.continues or (match["who"] == "User" and "User:" in template.text)
        )
        if token or certain or answered(text[start:end]):
            return response[:end]
        start = end
    return response


def _without_thoughts(response: str) -> tuple[str, int]:
    """A response with zeros for each thought that it opens and closes, and the length of a thought
    before them that the prompt opened."""
    parts: list[str] = []
    end = opened = 0
    while (close := response.find(_CLOSE, end)) >= 0:
        begin, after = response.rfind(_OPEN, end, close), close + len(_CLOSE)
        if begin < 0:
            begin, opened = after, opened if end else after
        parts += [response[end:begin], "\0" * (after - begin)]
        end = after
    return "".join((*parts, response[end:])), opened
