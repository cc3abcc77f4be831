"""Whether a hint gives the program away."""

import re

from code_verifier.errors import ProgramError
from code_verifier.source import strip_comments

_MIN_LINE = 10
_SHARE = 0.5


def leaks(message: str, program: str) -> str | None:
    """Why the message leaks the program, or None.

    It leaks when it defines a function `f`, holds the program, or quotes at least half of the
    program's lines of 10 characters or more (white space and comments never count).
    """
    if re.search(r"\bdef\s+f\s*\(", message):
        return "the message defines a function f"
    text = _squeeze(message)
    if not text:
        return None
    try:
        clean = strip_comments(program)
    except ProgramError:
        clean = program
    for source in (program, clean):
        squeezed = _squeeze(source)
        if squeezed and squeezed in text:
            return "the message contains the program"
    lines = {
        squeezed
        for line in [*clean.splitlines(), *program.splitlines()]
        if len(squeezed := _squeeze(line)) >= _MIN_LINE and not squeezed.startswith(("def", "#"))
    }
    quoted = sum(line in text for line in lines)
    if lines and quoted >= max(1.0, _SHARE * len(lines)):
        return f"the message quotes {quoted} of the program's {len(lines)} longer lines"
    return None


def _squeeze(text: str) -> str:
    return "".join(text.split())
