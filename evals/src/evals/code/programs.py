"""Extract the program or the value of a completion, by the rule of each benchmark.

HumanEval+ and MBPP+: a fenced block, or the longest run of lines that parses. LiveCodeBench: the
rules of the official harness and of Absolute Zero. CRUXEval: an assertion, or one side of it.
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
    """Return the part of an answer that defines `entry_point`, unchanged: the last block that
    parses and defines it, else the first run of lines that does, else the first block, or all."""
    if len(answer) > MAX_CHARS:
        return ""
    blocks = [block.text for block in code_blocks(answer)]
    for block in reversed(blocks):
        if defines(block, entry_point):
            return block
    for text in (*reversed(blocks), answer):
        if (program := _longest_program(text, entry_point)) is not None:
            return program
    return blocks[0] if blocks else answer


def parse(text: str) -> ast.Module | None:
    """Return the syntax tree; None for text that does not parse."""
    try:
        return parse_program(text)
    except ProgramError:
        return None


def defines(program: str, name: str) -> bool:
    """Return whether a program binds the name at its top level, `if` and `try` included."""
    tree = parse(program)
    return tree is not None and name in bound_names(tree)


def _longest_program(text: str, entry_point: str) -> str | None:
    """The first run of lines that parses and defines the entry point, as long as it can be. It is
    cut at the parser's errors: the work grows with the cuts, not with the square of the lines."""
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
                error_line = int(match[1]) - 1 if match else piece.count("\n")
                stop = min(stop - 1, start + error_line)
                while stop > start and lines[stop][:1].isspace():  # inside a statement
                    stop -= 1
            else:
                if defines(piece, entry_point):
                    return piece
                break
    return None


def official_program(answer: str) -> str:
    """Return the lines between the last two lines with three backticks; "" without two. By this
    rule of LiveCodeBench's harness, not of code_verifier's rewards, a last block of output counts
    as the program."""
    lines = answer.split("\n")
    fences = [number for number, line in enumerate(lines) if "```" in line]
    return "\n".join(lines[fences[-2] + 1 : fences[-1]]) if len(fences) > 1 else ""


def azr_program(answer: str) -> str:
    """Return the last Python block in the last answer tag, as Absolute Zero does; without a block
    the tag's text, without a tag of the whole answer."""
    text = [answer, *_ANSWER.findall(answer)][-1]
    return str([text, *_BLOCK.findall(text)][-1]).strip()


def find_answer(kind: str, response: str, template: Template) -> str | None:
    """Return the value (code_o) or the call `f(...)` (code_i) that a response gives, after the last
    opening tag, if there is one, and before the template's stop text; or None."""
    for stop in template.stop:
        response = response.partition(stop)[0]
    text = own_turn(response, template, _OPENING.search)
    text = _FENCE.sub("", _CLOSING.split(_OPENING.split(text)[-1])[0]).strip()
    for part in (text, *reversed(_ASSERTION.findall(text))):
        try:
            return _side(kind, part)
        except (ProgramError, LookupError, RecursionError, ValueError):  # the last: huge integers
            continue
    return None


def _side(kind: str, text: str) -> str:
    """The side of an assertion that is the answer. Raises LookupError if there is none."""
    statement = parse_program(text).body[-1]
    if not isinstance(statement, ast.Assert | ast.Expr):
        raise LookupError
    condition = statement.test if isinstance(statement, ast.Assert) else statement.value
    sides = [condition]
    if isinstance(condition, ast.Compare) and isinstance(condition.ops[0], ast.Eq | ast.Is):
        sides = [condition.left, *condition.comparators]
    return [ast.unparse(side) for side in sides if _is_call(side) == (kind == "code_i")][-1]


def _is_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "f"
