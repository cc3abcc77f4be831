"""The program or the value in a completion, by the rule of each benchmark.

HumanEval+ and MBPP+: a fenced block, or the longest stretch of lines that parses. LiveCodeBench:
the official harness' rule and Absolute Zero's. CRUXEval: an assertion, or the part that was asked
for.
"""

import ast
import re

from code_verifier import ProgramError, bound_names, code_blocks, parse_program
from evals.question import MAX_CHARS
from evals.recipes import Template, own_turn

_START = re.compile(r"(?:import|from|def|class|async def|@|if|try)\b|@|[A-Za-z_]\w*\s*[:=]")
_CUTS = 60
_BEGINNINGS = 40
_BLOCK = re.compile(r"```python\s*(.*?)```", re.S)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.S)
_OPENING = re.compile(r"\[ANSWER\]|<answer>")
_CLOSING = re.compile(r"\[/ANSWER\]|</answer>")
_FENCE = re.compile(r"^[ \t]*```.*$", re.M)
_ASSERTION = re.compile(r"\bassert\b.*")


def extract_program(answer: str, entry_point: str) -> str:
    """Return the part of an answer that defines `entry_point`, as it stands there.

    Of several blocks the last one that parses and defines it; without such a block, the first
    stretch of lines outside of fences that does; else the first block, or the answer.
    """
    if len(answer) > MAX_CHARS:
        return ""
    blocks = [block.text for block in code_blocks(answer)]
    for block in reversed(blocks):
        if defines(block, entry_point):
            return block
    for text in (*reversed(blocks), answer):
        stretch = _stretch(text, entry_point)
        if stretch is not None:
            return stretch
    return blocks[0] if blocks else answer


def parse(text: str) -> ast.Module | None:
    """Return the syntax tree; None for text that does not parse."""
    try:
        return parse_program(text).tree
    except ProgramError:
        return None


def defines(program: str, name: str) -> bool:
    """Return whether a program binds the name at its top level, `if` and `try` included."""
    tree = parse(program)
    return tree is not None and name in bound_names(tree)


def _stretch(text: str, entry_point: str) -> str | None:
    """The longest parsing lines from the first line on from where the entry point is defined.

    A text that does not parse is cut where the parser stumbles, so that the work grows with the
    number of cuts and not with the square of the lines.
    """
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _START.match(line)]
    for start in starts[:_BEGINNINGS]:
        stop = len(lines)
        for _ in range(_CUTS):
            piece = "\n".join(lines[start:stop])
            try:
                parse_program(piece)
            except ProgramError as error:
                match = re.search(r"\(line (\d+)\)", str(error))
                stumbled = int(match[1]) - 1 if match else piece.count("\n")
                stop = min(stop - 1, start + stumbled)
                while stop > start and lines[stop][:1].isspace():  # inside a statement
                    stop -= 1
                if stop <= start:
                    break
                continue
            if defines(piece, entry_point):
                return piece
            break
    return None


def official_program(answer: str) -> str:
    """Return the lines between the last two that hold three backticks; "" for fewer.

    It is the rule of LiveCodeBench's own harness, and not that of code_verifier's rewards: a
    block of output behind the program is taken for it.
    """
    lines = answer.split("\n")
    fences = [number for number, line in enumerate(lines) if "```" in line]
    if len(fences) < 2:
        return ""
    return "\n".join(lines[fences[-2] + 1 : fences[-1]])


def azr_program(answer: str) -> str:
    """Return the last python block in the last answer tag; without one, the tag's or all text.

    It is Absolute Zero's own rule.
    """
    tagged = _ANSWER.findall(answer)
    text = tagged[-1] if tagged else answer
    blocks = _BLOCK.findall(text)
    return str(blocks[-1] if blocks else text).strip()


def find_answer(kind: str, response: str, template: Template) -> str | None:
    """Return the value (code_o) or the call `f(...)` (code_i) that a response gives, or None.

    It stands behind the last opening tag, where there is one, and before the template's stop text.
    """
    for stop in template.stop:
        response = response.partition(stop)[0]
    text = own_turn(response, template, _OPENING.search)
    text = _FENCE.sub("", _CLOSING.split(_OPENING.split(text)[-1])[0]).strip()
    for part in (text, *reversed(_ASSERTION.findall(text))):
        try:
            return _asked_part(kind, part)
        except (ProgramError, LookupError, RecursionError, ValueError):  # the last: huge integers
            continue
    return None


def _asked_part(kind: str, text: str) -> str:
    """The part of an assertion that was asked for. Raises LookupError where it lacks that."""
    last = parse_program(text).tree.body[-1]
    if not isinstance(last, ast.Assert | ast.Expr):
        raise LookupError
    whole = last.test if isinstance(last, ast.Assert) else last.value
    sides = [whole]
    if isinstance(whole, ast.Compare) and isinstance(whole.ops[0], ast.Eq | ast.Is):
        sides = [whole.left, *whole.comparators]
    return [ast.unparse(side) for side in sides if _is_call(side) == (kind == "code_i")][-1]


def _is_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "f"
