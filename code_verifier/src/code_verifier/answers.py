"""Read answers in completions: outside thoughts, fenced blocks, and which of them is the program.

A block opens with at least three backticks or tildes, at the start of a line, or behind prose if a
language follows, and closes with a line of as many. A fence inside a string of the program does not
close it: a Python block ends at the first fence up to which it parses, if there is one. Lines end
at line feed, carriage return, or both. Reading takes time linear in the length of the text.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from code_verifier.errors import ProgramError
from code_verifier.syntax import DEFINITIONS, bound_names, parse_program

_OPEN, _CLOSE = "<answer>", "</answer>"
_MARKS = str.split(
    "<think> </think> <thinking> </thinking> <thought> </thought> <reasoning> </reasoning> "
    "<seed:think> </seed:think> [THINK] [/THINK] ◁think▷ ◁/think▷ <|inner_prefix|> "
    "<|inner_suffix|> <|begin_of_thought|> <|end_of_thought|> <|START_THINKING|> <|END_THINKING|> "
    "<|channel>thought <channel|> <|channel|>analysis<|message|> <|channel|>final<|message|>"
)
"""Marks before and after the thoughts of model families, by turns."""
_OPENS, _CLOSES = ([re.escape(mark) for mark in _MARKS[side::2]] for side in (0, 1))
_CLOSE_ANY = f"(?:{'|'.join(_CLOSES)})"
_QUOTED = "(?:" + "|".join(f"{q}(?:{'|'.join(_OPENS)}|{_CLOSE_ANY}){q}" for q in "\"'`") + ")"
_UNTIL_CLOSED = "|".join(
    rf"{mark}(?:[^\"'`<\[◁]++|{_QUOTED}|.)*?(?={close}|{mark}|\Z)"
    for mark, close in zip(_OPENS, _CLOSES, strict=True)
)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_LANGUAGE = re.compile(r"\{?\s*\.?([\w+#-]*)")
_PYTHON = re.compile(r"(?:python|py|ipython|sage|cython)[\d.]*", re.I)
_SHELL = str.split(
    "bash sh shell zsh fish console terminal cmd bat powershell ps1 shell-session makefile"
)
_OTHER = _SHELL + str.split(
    "output out stdout stderr stdin input text txt plain plaintext result results log pycon "
    "traceback json jsonl yaml yml toml ini xml html css csv markdown md latex tex math diff "
    "pseudocode c c++ cpp java javascript js typescript ts rust go kotlin ruby php sql r scala"
)
_PROGRAM = (*DEFINITIONS, ast.Import, ast.ImportFrom, ast.Call)
_TRIES, _PER_PARSE = 8, 64
_MOST_PARSED = 1 << 17
"""Most characters of one answer that are parsed to find the program among its blocks."""


@cache  # compiled at its first use: it takes 50 ms
def thought_pattern() -> re.Pattern[str]:
    """Return the pattern of a thought, with its `close` or to the end; of the `end` of one that
    began in the prompt; or of `text` that is no thought: a fenced block, or a mark in quotes."""
    return re.compile(
        rf"(?s)(?=[\"'`<\[◁])(?:(?P<text>```\w*[ \t]*\n[^`]*(?:`(?!``)[^`]*)*```(?!\w)|{_QUOTED})"
        rf"|(?P<end>{_CLOSE_ANY})|(?:{_UNTIL_CLOSED})(?P<close>{_CLOSE_ANY})?)"
    )


@dataclass(frozen=True)
class Block:
    """A fenced block. language: in lower case, "" for none. closed: whether it has an end."""

    language: str
    text: str
    closed: bool

    @property
    def is_python(self) -> bool:
        """Whether its language is Python."""
        return _PYTHON.fullmatch(self.language) is not None


class _Reader:
    """Reads the blocks of one text, and parses at most `_MOST_PARSED` characters of it."""

    def __init__(self, text: str) -> None:
        self.lines = _LINE.findall(text)
        self.budget = _MOST_PARSED

    def tree(self, text: str) -> ast.Module | None:
        """The tree of a text; None if it does not parse, or the budget is used up."""
        if len(text) > self.budget:
            return None
        self.budget -= len(text) + _PER_PARSE
        try:
            return parse_program(text)
        except ProgramError:
            return None

    def blocks(self) -> Iterator[Block]:
        number = 0
        while number < len(self.lines):
            fence, info, behind_prose = _opening(self.lines[number])
            number += 1
            if fence:
                if behind_prose and self._reopens(number, fence):
                    continue  # a fence that is only mentioned
                match = _LANGUAGE.match(info)
                block, end = self._block(number, fence, match[1].lower() if match else "")
                yield block
                number = end + 1

    def _block(self, start: int, fence: str, language: str) -> tuple[Block, int]:
        """The block that begins with line `start`, and the number of the line that closes it."""
        first: tuple[Block, int] | None = None
        size = tries = 0
        for end in range(start, len(self.lines)):
            if _is_end(self.lines[end], fence):
                block = Block(language, _dedent(self.lines[start:end]), closed=True)
                first = first or (block, end)
                affordable = size <= self.budget
                if language in _OTHER or (affordable and self.tree(block.text) is not None):
                    return block, end
                tries += 1
            size += len(self.lines[end])
            if first and (tries == _TRIES or size > self.budget):
                break
        text = "" if first else _dedent(self.lines[start:])
        return first or (Block(language, text, closed=False), len(self.lines))

    def _reopens(self, start: int, fence: str) -> bool:
        """Whether a line opens a block of a language before one closes this."""
        for number in range(start, len(self.lines)):
            line = self.lines[number]
            if _is_end(line, fence) or _opening(line)[1]:
                return not _is_end(line, fence)
        return False


def _opening(line: str) -> tuple[str, str, bool]:
    """The fence that the line opens ("" for none), the text behind it, and whether there is text
    before it."""
    line = line.strip()
    for tick in "`~":
        end = line.rfind(tick) + 1
        start = len(line[:end].rstrip(tick))
        info = line[end:].strip()
        if end - start >= 3 and (start == 0 or (tick == "`" and info and " " not in info)):
            return line[start:end], info, start > 0
    return "", "", False


def _is_end(line: str, fence: str) -> bool:
    line = line.strip()
    return len(line) >= len(fence) and not line.strip(fence[0])


def _dedent(lines: list[str]) -> str:
    """The lines of a block without common indentation, as in a list item, and the last line end."""
    margins = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    margin = min(margins, default=0)
    text = "".join(line[margin:] if line.strip() else line for line in lines) if margin else ""
    return re.sub(r"(?:\r\n|\r|\n)\Z", "", text or "".join(lines))


def code_blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a text, in order; the last one may have no end."""
    return list(_Reader(text).blocks())


def without_thoughts(text: str) -> str:
    """Return a completion without its thoughts; all before a closing mark alone is a thought."""
    ends = [m.end() for m in thought_pattern().finditer(text) if m["end"]]
    return thought_pattern().sub(lambda m: m["text"] or "\n", text[ends[-1] if ends else 0 :])


def opened_thought(prompt: object) -> str:
    """Return the mark with which a prompt ends if that opens a thought, else ""."""
    end = prompt.rstrip() if isinstance(prompt, str) else ""
    return next((mark for mark in _MARKS[::2] if end.endswith(mark)), "")


def find_program(text: str, entry: str = "") -> str | None:
    """Return the program in a completion's text, or None.

    It is searched where `find_answer` searches. The program is the last Python block: marked as
    Python, or unmarked and with a program's statements. entry: a name; a block that defines it is
    preferred. A block of a shell, of output or of another language is never the program.
    """
    text, tagged, blocks = _answer_part(text)
    reader = _Reader("")
    candidates = [block for block in blocks if block.language not in _OTHER]
    trees = [(block, tree) for block in candidates if (tree := reader.tree(block.text)) is not None]
    python = [(block, tree) for block, tree in trees if block.is_python or _is_program(tree)]
    ranks = (
        [block for block, tree in python if entry and entry in bound_names(tree)],
        [block for block, _ in python],
        [block for block in candidates if block.is_python],
        candidates,
    )
    best = next((rank[-1].text for rank in ranks if rank), text if tagged and not blocks else "")
    return best.strip() or None


def _is_program(tree: ast.Module) -> bool:
    return any(isinstance(node, _PROGRAM) for node in ast.walk(tree))


def find_answer(text: str, value: bool = False) -> str | None:
    """Return the answer in a completion's text, or None.

    It is searched outside thoughts, inside the last `<answer>...</answer>` if there is one: the
    program in the blocks (`find_program`), else the last block that is not of a shell; without a
    block the whole content of the tag. value: a value is wanted, not a program.
    """
    if not value and (program := find_program(text)) is not None:
        return program
    text, tagged, blocks = _answer_part(text)
    texts = [block.text for block in blocks if block.language not in _SHELL]
    if not blocks and tagged:
        texts = [text]
    return (texts[-1].strip() or None) if texts else None


def _answer_part(text: str) -> tuple[str, bool, list[Block]]:
    """The text that holds the answer, whether it was in an answer tag, and its blocks."""
    text = without_thoughts(text)
    end = text.rfind(_CLOSE)
    start = text.rfind(_OPEN, 0, end) if end >= 0 else -1
    tagged = start >= 0
    text = text[start + len(_OPEN) : end] if tagged else text
    return text, tagged, [block for block in code_blocks(text) if block.closed or tagged]
