"""The answer inside a model's completion.

A completion is a text, or a list of chat messages of which the last by the assistant counts.
Its answer is looked for after the last `</think>`, inside the last `<answer>...</answer>` if
there is one. There, the last fenced block (three backticks or more) is the answer; without a
fence the whole content of the answer tag is. With neither tag nor fence there is no answer.

Every step takes time linear in the length of the text, whatever a model writes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_OPEN, _CLOSE = "<answer>", "</answer>"
_TICKS = "```"


def completion_text(completion: Any) -> str:
    """The text of a completion: a text itself, or the assistant's last message.

    A message is a mapping or an object with `role` and `content`; content is a text or a list
    of parts with `text`. What has no text is the empty text: no answer, never an error.
    """
    if isinstance(completion, str):
        return completion
    if not isinstance(completion, Sequence):
        return ""
    for message in reversed(completion):
        if _field(message, "role") == "assistant":
            return _content(_field(message, "content"))
    return ""


def find_answer(text: str) -> str | None:
    """The answer in a completion's text, or None when it has none. See the module's text."""
    text = text.rpartition("</think>")[2]
    end = text.rfind(_CLOSE)
    start = text.rfind(_OPEN, 0, end) if end >= 0 else -1
    tagged = start >= 0
    if tagged:
        text = text[start + len(_OPEN) : end]
    block = _last_fence(text)
    if block is None and tagged:
        block = text
    return (block.strip() or None) if block is not None else None


def _last_fence(text: str) -> str | None:
    """Content of the last closed fence; an open one at the end of the text does not count."""
    found: str | None = None
    ticks, first = 0, 0
    lines = text.splitlines()
    for number, line in enumerate(lines):
        stripped = line.strip()
        width = len(stripped) - len(stripped.lstrip("`"))
        if width < len(_TICKS):
            continue
        if not ticks:
            if "`" not in stripped[width:]:
                ticks, first = width, number + 1
        elif width >= ticks and width == len(stripped):
            found, ticks = "\n".join(lines[first:number]), 0
    return found


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = (_field(part, "text") for part in content)
    return "".join(text for text in texts if isinstance(text, str))


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
