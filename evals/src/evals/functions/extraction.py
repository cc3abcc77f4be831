"""The program in a model's answer: a fenced block, or the longest stretch of lines that parses."""

import ast
import re

from code_verifier.literals.syntax import parse_module

MAX_CHARS = 1_000_000
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*$", re.M)
_START = re.compile(r"(?:import|from|def|class|async def|@|if|try)\b|@|[A-Za-z_]\w*\s*[:=]")
_CUTS = 60
_BEGINNINGS = 40


def extract_program(answer: str, entry_point: str) -> str:
    """The part of an answer that defines `entry_point`, as it stands there.

    Of several blocks the last one that parses and defines it; without such a block, the first
    stretch of lines outside of fences that does; else the first block, or the answer.
    """
    if len(answer) > MAX_CHARS:
        return ""
    blocks = fenced_blocks(answer)
    for block in reversed(blocks):
        tree = parse(block)
        if tree is not None and defines(tree, entry_point):
            return block
    for text in (*reversed(blocks), answer):
        stretch = _stretch(text, entry_point)
        if stretch is not None:
            return stretch
    return blocks[0] if blocks else answer


def fenced_blocks(text: str) -> list[str]:
    """Texts between fences; a last fence that is not closed reaches to the end."""
    blocks = []
    start, opened = 0, ""
    for match in _FENCE.finditer(text):
        fence = match[1]
        if not opened:
            start, opened = match.end() + 1, fence
        elif fence[0] == opened[0] and len(fence) >= len(opened) and not match[2]:
            blocks.append(text[start : match.start()])
            opened = ""
    if opened:
        blocks.append(text[start:])
    return [_dedented(block) for block in blocks]


def parse(text: str) -> ast.Module | None:
    """The syntax tree, or None."""
    try:
        tree = parse_module(text)
    except SyntaxError:
        return None
    return tree if isinstance(tree, ast.Module) else None


def defines(tree: ast.Module, name: str) -> bool:
    """Whether the module binds the name at its top level, if blocks and try blocks included."""
    return any(name in bound_names(node) for node in tree.body)


def bound_names(node: ast.AST) -> set[str]:
    """Names that a statement binds in the scope where it stands."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(item.asname or item.name).partition(".")[0] for item in node.names}
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store | ast.Del) else set()
    if isinstance(node, ast.Lambda):
        return set()
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        names |= bound_names(child)
    return names


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
                tree = parse_module(piece)
            except SyntaxError as error:
                stop = min(stop - 1, _line(error, piece) + start)
                while stop > start and not _at_margin(lines, stop):
                    stop -= 1
                if stop <= start:
                    break
                continue
            if isinstance(tree, ast.Module) and defines(tree, entry_point):
                return piece
            break
    return None


def _line(error: SyntaxError, piece: str) -> int:
    """Lines before the one where the parser stumbled."""
    found = re.search(r"\(line (\d+)\)", str(error.msg))
    return int(found[1]) - 1 if found else piece.count("\n")


def _at_margin(lines: list[str], stop: int) -> bool:
    """Whether a statement can end before line `stop`: what follows starts at the margin."""
    return stop >= len(lines) or not lines[stop][:1].isspace()


def _dedented(block: str) -> str:
    """A block in a list item is indented as a whole."""
    lines = [line for line in block.split("\n") if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return "\n".join(line[margin:] for line in block.split("\n")) if margin else block
