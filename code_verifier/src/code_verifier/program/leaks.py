"""Whether a hint gives the program away."""

import builtins
import keyword
import re

from code_verifier.errors import ProgramError
from code_verifier.program.disguises import readings
from code_verifier.program.source import ParsedProgram, strip_comments

_MIN_LINE = 10
_SHARE = 0.5
_MIN_TOKENS = 12
_MIN_SIGNS = 4
_TOKEN = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|\w+|[^\w\s]")
_KNOWN = frozenset(keyword.kwlist) | frozenset(dir(builtins))
_DEFINES = re.compile(r"\bdef\s+f\s*\(|\bf\s*=\s*lambda\b")


def leaks(message: str, program: str | ParsedProgram) -> str | None:
    """Why the message leaks the program, or None.

    It leaks when, in any of its `readings`, it defines a function `f`, holds the program, quotes
    at least half of the program's lines of 10 characters or more (white space and comments never
    count), or holds the body of one of its functions under other names of variables.
    """
    if not message.strip():
        return None
    text = program if isinstance(program, str) else program.text
    try:
        clean = strip_comments(program)
    except ProgramError:
        clean = text
    wholes = {squeezed for source in (text, clean) if (squeezed := _squeeze(source))}
    lines = {
        squeezed
        for line in [*clean.splitlines(), *text.splitlines()]
        if len(squeezed := _squeeze(line)) >= _MIN_LINE and not squeezed.startswith(("def", "#"))
    }
    bodies = _bodies(clean)
    for number, reading in enumerate(readings(message)):
        disguised = "in disguise, " if number else ""
        if _DEFINES.search(reading):
            return f"{disguised}the message defines a function f"
        squeezed = _squeeze(reading)
        if any(whole in squeezed for whole in wholes):
            return f"{disguised}the message contains the program"
        quoted = sum(line in squeezed for line in lines)
        if lines and quoted >= max(1.0, _SHARE * len(lines)):
            of = f"{quoted} of the program's {len(lines)} longer lines"
            return f"{disguised}the message quotes {of}"
        tokens = _tokens(reading) if bodies else []
        if any(_renamed_within(body, tokens) for body in bodies):
            return f"{disguised}the message holds the program under other names"
    return None


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _bodies(clean: str) -> list[list[str]]:
    """The tokens of each function's body, where it is long enough to be told from prose."""
    bodies = []
    for part in re.split(r"(?m)^\s*(?:async )?def .*:$", clean)[1:]:
        tokens = _tokens(part)
        signs = sum(not token[0].isalnum() and token[0] != "_" for token in tokens)
        if len(tokens) >= _MIN_TOKENS and signs >= _MIN_SIGNS:
            bodies.append(tokens)
    return bodies


def _tokens(text: str) -> list[str]:
    """Words, signs and quoted texts. Round brackets go: their number is a matter of taste."""
    tokens = [token for token in _TOKEN.findall(text) if token not in "()"]
    return [f"'{token[1:-1]}'" if token[0] == '"' and token[1:] else token for token in tokens]


def _renamed_within(body: list[str], tokens: list[str]) -> bool:
    """Whether the body stands in the tokens, up to a one-to-one change of variables' names."""
    before = ["", *body]
    free = [_is_name(token) and before[i] != "." for i, token in enumerate(body)]
    for start in range(len(tokens) - len(body) + 1):
        there: dict[str, str] = {}
        back: dict[str, str] = {}
        window = tokens[start : start + len(body)]
        for token, is_free, other in zip(body, free, window, strict=True):
            if not is_free:
                if other != token:
                    break
            elif (
                not _is_name(other)
                or there.setdefault(token, other) != other
                or back.setdefault(other, token) != token
            ):
                break
        else:
            return True
    return False


def _is_name(token: str) -> bool:
    return token.isidentifier() and token not in _KNOWN
