"""Parsing of a model's text: the answer, its fences, its programs and literals."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from code_verifier import (
    CodeVerifierError,
    LiteralError,
    parse_arguments,
    parse_literal,
    parse_program,
)

_RUN = re.compile(r"`{3,}")
_OPENING = re.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)")
_BEHIND_TEXT = re.compile(r"[^`]*\S[ \t]+(?P<fence>`{3,})(?P<info>\w+)[ \t]*")
_INNER = re.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^`~\s].*)?(?:[ \t].*)?")
_BEHIND_CONTENT = re.compile(r"(?P<content>[^`]*\S)[ \t]*(?P<fence>`{3,})[ \t]*")
_ONE_LINE = re.compile(r"[ \t]*(`{3,})(\w+)[ \t:]+(\S.*?)[ \t]*\1[ \t]*")
_WRAPPERS = ("", "markdown", "md")
_PYTHON = re.compile(r"i?py(thon)?[23]?(\.\d+)?")
_NUMBERED = re.compile(r"(input|output)s?(_?\d+)?")


@dataclass(frozen=True)
class Fence:
    """A block: its name in lower case, and the text between its fences."""

    name: str
    """`python` for every spelling of it, `input` for `inputs` and `input_1`; "" for none."""
    content: str


def fenced(name: str, content: str) -> str:
    """Return a block whose fences are longer than any in its content."""
    longest = max((len(run) for run in _RUN.findall(content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{name}\n{content}\n{fence}"


def fences(text: str) -> list[Fence]:
    """Return the blocks of a text in order; blocks inside a wrapper replace it."""
    return list(_fences(text.split("\n")))


def _fences(lines: list[str]) -> Iterator[Fence]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not _has_fence(line):
            continue
        if whole := _ONE_LINE.fullmatch(line):
            yield Fence(_name(whole[2]), whole[3])
        elif opening := _OPENING.fullmatch(line) or _BEHIND_TEXT.fullmatch(line):
            indent = _indent(line) if line.lstrip()[:1] in ("`", "~") else 0
            end = _end(lines, at, opening["fence"], indent)
            if end is None:
                continue
            content = [*lines[at : end[0]], *end[1]]
            at = end[0] + 1
            name = _name(opening["info"])
            inner = list(_fences(content)) if name in _WRAPPERS or _doubled(content, name) else []
            dedented = (line[min(indent, _indent(line)) :] if indent else line for line in content)
            yield from inner or [Fence(name, "\n".join(dedented))]


def _has_fence(line: str) -> bool:
    """Return whether a line can open or close a block; most lines then need no pattern."""
    return "```" in line or "~~~" in line


def _doubled(content: list[str], name: str) -> bool:
    """Return whether a block begins with an opening fence of its own name."""
    first = _OPENING.fullmatch(content[0]) if content else None
    return first is not None and _name(first["info"]) == name


def _end(lines: list[str], start: int, fence: str, indent: int) -> tuple[int, list[str]] | None:
    """Return the number of the line that ends a block, and its content; None without an end."""
    depth = 0
    for at in range(start, len(lines)):
        line = lines[at]
        if not _has_fence(line):
            continue
        if end := _INNER.fullmatch(line):
            if not end["fence"].startswith(fence) or _indent(line) > indent + 3:
                continue
            if not end["info"] and depth == 0:
                return at, []
            depth += 1 if end["info"] else -1
            continue
        behind = _BEHIND_CONTENT.fullmatch(line)
        if depth == 0 and behind and behind["fence"].startswith(fence):
            return at, [behind["content"]]
    return None


def _name(info: str) -> str:
    """Return the first word, normalised."""
    word = (re.findall(r"[\w.+#-]+", info.lower()) or [""])[0]
    if _PYTHON.fullmatch(word):
        return "python"
    numbered = _NUMBERED.fullmatch(word)
    return numbered[1] if numbered else word


def _indent(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())


_THOUGHT_ENDS = re.compile(r"<\s*/\s*think(?:ing)?\s*>", re.IGNORECASE)
_TAG = re.compile(r"<\s*(/?)\s*answer\s*>", re.IGNORECASE)


@dataclass(frozen=True)
class AnswerText:
    """The part of a completion that is its answer, and its fences."""

    text: str
    fences: tuple[Fence, ...]
    marked: bool
    """Whether it is in an <answer> block, or after a closed thought."""


def answer_text(completion: str) -> AnswerText:
    """Return the part of a completion that is its answer."""
    whole = completion.replace("\r\n", "\n").replace("\r", "\n")
    *_, answer = _THOUGHT_ENDS.split(whole)
    thought_closed = len(answer) < len(whole) and bool(answer.strip())
    text = answer if thought_closed else _THOUGHT_ENDS.sub("\n", whole)
    _, *parts = _TAG.split(text)  # by turns the slash of a tag, and the text up to the next tag
    pairs = zip(parts[::2], parts[1::2], strict=True)
    blocks = [block for slash, block in pairs if not slash and block.strip()]
    answer = blocks[-1] if blocks else _TAG.sub("\n", text)
    return AnswerText(answer, tuple(fences(answer)), bool(blocks) or thought_closed)


_LABEL = {
    "input": re.compile(r"#?\s*(?:test )?(?:inputs?|arguments?)\s*:\s*", re.IGNORECASE),
    "output": re.compile(r"#?\s*(?:outputs?|results?|returns?)\s*:\s*", re.IGNORECASE),
}


def without_label(name: str, text: str) -> str:
    """Return the text without `input:` or `output:` before the value.

    `input=` is not removed: it could be a keyword argument.
    """
    text = text.strip()
    label = _LABEL[name].match(text)
    return text[label.end() :].strip() if label else text


def argument_text(text: str, program: str) -> str:
    """Return the text between the parentheses of the call of f.

    Of a whole call `f(1, 2)` these are the arguments. A tuple `(1, 2)` is unpacked if f needs two
    arguments, since a single one would raise.
    """
    text = without_label("input", text)
    match _statements(text):
        case [ast.Expr(ast.Call(ast.Name("f"), positional, named))]:
            return _joined(text, [*positional, *named])
        case [ast.Expr(ast.Tuple(items))] if text.startswith("(") and 2 <= required_arguments(
            program
        ) <= len(items):
            return _joined(text, items)
    return text


def required_arguments(program: str) -> int:
    """Return the number of positional arguments of f without a default; 0 if unknown."""
    required = 0
    for node in _statements(program):
        if isinstance(node, ast.FunctionDef) and node.name == "f":
            required = len(node.args.posonlyargs + node.args.args) - len(node.args.defaults)
    return required


def defines_f(text: str) -> bool:
    """Return whether a text is a program with a function f."""
    return any(isinstance(node, ast.FunctionDef) and node.name == "f" for node in _statements(text))


def is_output(text: str) -> bool:
    """Return whether a text is one literal, as for the sandbox."""
    try:
        parse_literal(without_label("output", text))
    except LiteralError:
        return False
    return True


def is_input(text: str) -> bool:
    """Return whether a text is literals separated by commas, or a call of f with such."""
    try:
        return parse_arguments(argument_text(text, "")) != ((), {})
    except LiteralError:
        return False


def _statements(text: str) -> list[ast.stmt]:
    try:
        return parse_program(text).body
    except CodeVerifierError:
        return []


def _joined(text: str, parts: Sequence[ast.expr | ast.keyword]) -> str:
    return ", ".join(ast.get_source_segment(text, part) or "" for part in parts)
