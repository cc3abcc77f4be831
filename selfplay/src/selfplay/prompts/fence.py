"""Fenced blocks: how programs and values stand in a prompt, and how models write them back.

Blocks are those of CommonMark (section 4.5), with what models do beside it:

- a block may be indented as deep as a list wants, or begin behind text if it has a name;
- fences more than three columns deeper than the block's own are content, so that those in the
  docstring of a program do not end the program;
- inside a block, a fence with a name opens an inner block, which the next bare fence closes: all of
  it is content. Outer blocks named markdown, or nothing, or like the block that they begin with,
  are wrappers and what is in them counts;
- the end may stand behind the last line of content or before text, and a value and both fences on
  one line;
- a block that never ends is none, for its text was cut; what follows its first line is read on.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
    """Write a block whose fences are longer than any in its content."""
    longest = max((len(run) for run in _RUN.findall(content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{name}\n{content}\n{fence}"


def fences(text: str) -> list[Fence]:
    """Return the blocks of a text in their order; those of a wrapper stand in its place."""
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
            yield from inner or [Fence(name, "\n".join(_dedented(content, indent)))]


def _has_fence(line: str) -> bool:
    """Whether anything here can open or close a block; spares most lines the patterns."""
    return "```" in line or "~~~" in line


def _doubled(content: list[str], name: str) -> bool:
    """Whether a block begins with an opening of its own name."""
    first = _OPENING.fullmatch(content[0]) if content else None
    return first is not None and _name(first["info"]) == name


def _end(lines: list[str], start: int, fence: str, indent: int) -> tuple[int, list[str]] | None:
    """Return the line that ends a block, and content on it; None where nothing does."""
    depth = 0
    for at in range(start, len(lines)):
        line = lines[at]
        if not _has_fence(line):
            continue
        if found := _INNER.fullmatch(line):
            if not found["fence"].startswith(fence) or _indent(line) > indent + 3:
                continue
            if found["info"]:
                depth += 1
            elif depth == 0:
                return at, []
            else:
                depth -= 1
            continue
        behind = _BEHIND_CONTENT.fullmatch(line)
        if depth == 0 and behind and behind["fence"].startswith(fence):
            return at, [behind["content"]]
    return None


def _name(info: str) -> str:
    """The first word, in one spelling."""
    word = (re.findall(r"[\w.+#-]+", info.lower()) or [""])[0]
    if _PYTHON.fullmatch(word):
        return "python"
    numbered = _NUMBERED.fullmatch(word)
    return numbered[1] if numbered else word


def _indent(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())


def _dedented(lines: list[str], indent: int) -> list[str]:
    """Without the indentation that the opening fence had, where a line has it."""
    return [line[min(indent, _indent(line)) :] if indent else line for line in lines]
