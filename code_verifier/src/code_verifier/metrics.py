"""Structural metrics of a program, without executing it."""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from radon.complexity import cc_visit_ast
from radon.metrics import h_visit_ast

from code_verifier.errors import ProgramError
from code_verifier.source import program_tree, without_docstrings

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NESTING = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar),
    ast.Match,
)


@dataclass(frozen=True)
class Metrics:
    """Structure of one program.

    ast_depth: nodes on the longest path from the module to a leaf. ast_nodes: nodes, as
    `ast.walk` gives them. cyclomatic: McCabe's number summed over radon's blocks. loc: lines
    that hold code. variables: distinct names bound by assignment or as parameters.
    halstead_volume = N log2 n and halstead_effort = D V (Halstead 1977, as radon counts them).
    max_nesting: compound statements inside each other. functions: def statements. imports:
    modules imported. structure: hash of the tree with names and constants normalised.
    """

    ast_depth: int
    ast_nodes: int
    cyclomatic: int
    loc: int
    variables: int
    halstead_volume: float
    halstead_effort: float
    max_nesting: int
    functions: int
    imports: int
    structure: str


def measure(program: str) -> Metrics:
    """Metrics of a program. Raises ProgramError when it does not parse."""
    tree = program_tree(program)
    try:
        cyclomatic = sum(int(block.complexity) for block in cc_visit_ast(tree))
        halstead = h_visit_ast(tree).total
    except RecursionError:
        raise ProgramError("the program is nested too deeply to be measured") from None
    depth, nodes, nesting = _shape(tree)
    everything = list(ast.walk(tree))
    lines = _code_lines(tree)
    return Metrics(
        ast_depth=depth,
        ast_nodes=nodes,
        cyclomatic=cyclomatic,
        loc=lines,
        variables=len(set(_bound(everything))),
        halstead_volume=float(halstead.volume),
        halstead_effort=float(halstead.effort),
        max_nesting=nesting,
        functions=sum(isinstance(node, _FUNCTIONS) for node in everything),
        imports=len(set(_imported(everything))),
        structure=_fingerprint(without_docstrings(tree)),
    )


def _shape(tree: ast.AST) -> tuple[int, int, int]:
    """Depth, node count and statement nesting, without recursion."""
    depth = nodes = nesting = 0
    stack: list[tuple[ast.AST, int, int]] = [(tree, 1, 0)]
    while stack:
        node, level, inside = stack.pop()
        inside += isinstance(node, _NESTING)
        depth, nodes, nesting = max(depth, level), nodes + 1, max(nesting, inside)
        for child in ast.iter_child_nodes(node):
            # `elif` is an If in the else branch of an If, and no deeper to the reader.
            chained = isinstance(node, ast.If) and node.orelse == [child]
            flat = chained and isinstance(child, ast.If)
            stack.append((child, level + 1, inside - flat))
    return depth, nodes, nesting


def _code_lines(tree: ast.Module) -> int:
    """Lines on which a statement, or a part of one, stands; docstrings do not count."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        line = getattr(node, "lineno", None)
        if isinstance(node, ast.stmt) and line is not None:
            lines.add(line)
            simple = not hasattr(node, "body")
            if simple and node.end_lineno is not None:
                lines.update(range(line, node.end_lineno + 1))
    return len(lines)


def _bound(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _imported(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def _fingerprint(tree: ast.Module) -> str:
    """Hash of the tree with names numbered by first use and constants replaced by their type.

    Attribute and import names stay: they say what the program does.
    """
    numbers: dict[str, int] = {}
    digest = hashlib.blake2b(digest_size=8)
    stack: list[object] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.expr_context):
            continue
        if isinstance(item, ast.AST):
            digest.update(f"({type(item).__name__}".encode())
            stack.append(")")
            for field, value in reversed(list(ast.iter_fields(item))):
                if field in ("annotation", "returns", "type_comment", "kind", "type_params"):
                    continue
                if isinstance(item, ast.Constant) and field == "value":
                    value = type(value).__name__
                elif isinstance(value, str) and field in ("id", "arg", "name", "asname"):
                    stack.append(("name", value))
                    continue
                stack.append(value)
        elif isinstance(item, list):
            stack.append("]")
            stack.extend(reversed(item))
            stack.append("[")
        elif isinstance(item, tuple):
            number = numbers.setdefault(item[1], len(numbers))
            digest.update(f" {number}".encode())
        else:
            digest.update(f" {item}".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()
