"""Structural metrics of a program, without executing it.

The cyclomatic number and Halstead's measures are radon's, computed by its visitors on a tree that
is parsed already. radon's line counts are not used: they take time that grows with the square of
the lines of a statement, and refuse some valid programs.
"""

import ast
import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radon.metrics import h_visit_ast
from radon.visitors import ComplexityVisitor

from code_verifier.errors import ProgramError
from code_verifier.syntax import DOCUMENTED, Nodes, docstring_of, parse_program

_DEEPEST = 200
"""Levels of the deepest tree that is measured. radon needs three or four Python frames for each;
the caller has the others."""
_NESTING: tuple[type[ast.AST], ...] = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With)
_NESTING += (ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Structure of one program. MEANINGS has every number in short.

    - ast_depth: nodes on the longest path from the module to a leaf.
    - ast_nodes: nodes, as `ast.walk` gives them.
    - cyclomatic: McCabe's number (1976) of the whole text, as radon's `total_complexity` (below).
    - loc: lines that hold code, neither blank, comment nor docstring.
    - variables: distinct names bound by assignment, as parameters, by `except ... as` or in a
      pattern.
    - halstead_volume: V = N log2 n with the length N and the vocabulary n, in bits.
    - halstead_effort: E = D V with the difficulty D = n1 N2 / (2 n2); both Halstead (1977), as
      radon counts.
    - structure: the program's `fingerprint`.

    `cyclomatic` equals `radon.visitors.ComplexityVisitor.from_code(text).total_complexity`, which
    radon's maintainability index uses too: 1, and 1 for each decision, and for each method. Of a
    program that is one function it is that function's number in `radon cc`. As radon, it leaves out
    functions and classes inside functions, and classes inside classes.
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


MEANINGS = {
    "ast_depth": ("levels", "levels of the syntax tree"),
    "ast_nodes": ("nodes", "nodes of the syntax tree"),
    "cyclomatic": ("ways", "ways through the program: 1 + its decisions (as radon)"),
    "loc": ("lines", "lines of code without blank lines, comments, docstrings"),
    "variables": ("names", "different names that the program binds"),
    "halstead_volume": ("bits", "size by operators and operands, in bits (Halstead)"),
    "halstead_effort": ("effort", "effort to write it: volume x difficulty (Halstead)"),
    "max_nesting": ("levels", "most compound statements inside each other"),
    "functions": ("functions", "def statements"),
    "imports": ("modules", "different modules that it imports"),
}
"""The unit and the meaning of every number of Metrics, in short."""


def measure(program: str) -> Metrics:
    r"""Return the metrics of a program, which is not executed. Raises ProgramError when it does not
    parse, is too long, or has a tree of more than 200 levels, as a chain of 200 operators has.

        >>> metrics = measure("def f(x):\n    return x if x > 0 else -x")
        >>> metrics.cyclomatic, metrics.loc, metrics.variables
        (2, 2, 1)
    """
    tree = parse_program(program)
    depth = nesting = 0
    nodes: defaultdict[type[ast.AST], list[Any]] = defaultdict(list)
    stack: list[tuple[ast.AST, int, int]] = [(tree, 1, 0)]
    while stack:  # without recursion, so that depth costs nothing
        node, level, inside = stack.pop()
        kind = node.__class__
        nodes[kind].append(node)
        depth = max(depth, level)
        inside += kind in _NESTING
        nesting = max(nesting, inside)
        # `elif` is an If in the else branch of an If, and counts as the same level.
        branch = node.orelse if isinstance(node, ast.If) and len(node.orelse) == 1 else ()
        for child in ast.iter_child_nodes(node):
            chained = child.__class__ is ast.If and child in branch
            stack.append((child, level + 1, inside - chained))
    try:
        if depth > _DEEPEST:
            raise RecursionError
        cyclomatic = ComplexityVisitor.from_ast(tree).total_complexity
        total = h_visit_ast(tree).total
    except RecursionError:
        raise ProgramError("the program is nested too deeply to be measured") from None
    modules = {alias.name for node in nodes[ast.Import] for alias in node.names}
    modules |= {"." * node.level + (node.module or "") for node in nodes[ast.ImportFrom]}
    return Metrics(
        ast_depth=depth,
        ast_nodes=sum(map(len, nodes.values())),
        cyclomatic=int(cyclomatic),
        loc=_code_lines(program.removeprefix("\ufeff"), nodes),
        variables=len(_bound_names(nodes)),
        halstead_volume=float(total.volume),
        halstead_effort=float(total.effort),
        max_nesting=nesting,
        functions=len(nodes[ast.FunctionDef]) + len(nodes[ast.AsyncFunctionDef]),
        imports=len(modules),
        structure=fingerprint(program),
    )


def _bound_names(nodes: Nodes) -> set[str]:
    names = {node.id for node in nodes[ast.Name] if isinstance(node.ctx, ast.Store)}
    names |= {node.arg for node in nodes[ast.arg]}
    for kind in (ast.ExceptHandler, ast.MatchAs, ast.MatchStar):
        names |= {node.name for node in nodes[kind]}
    return (names | {node.rest for node in nodes[ast.MatchMapping]}) - {None}


_NEWLINE = re.compile(r"\r\n|\r|\n")
_EMPTY = " \t\f\\"


def _code_lines(program: str, nodes: Nodes) -> int:
    """The number of lines that are neither blank, nor a comment, nor of a docstring; every line of
    another string counts."""
    lines = _NEWLINE.split(program)
    is_code = [bool(text := line.strip(_EMPTY)) and text[0] != "#" for line in lines]
    for node in (*nodes[ast.Constant], *nodes[ast.JoinedStr]):
        if node.end_lineno > node.lineno:
            _mark(is_code, node, True)
    for node in (node for kind in DOCUMENTED for node in nodes[kind]):
        docstring = docstring_of(node)
        if docstring is not None:
            _mark(is_code, docstring, False)
            first, last = docstring.lineno - 1, (docstring.end_lineno or docstring.lineno) - 1
            before = lines[first].encode()[: docstring.col_offset]  # offsets are in UTF-8 bytes
            after = lines[last].encode()[docstring.end_col_offset :].strip(b" \t\f;\\")
            is_code[first] |= bool(before.strip())
            is_code[last] |= bool(after) and not after.startswith(b"#")
    return sum(is_code)


def _mark(is_code: list[bool], node: ast.expr | ast.stmt, value: bool) -> None:
    last = node.end_lineno or node.lineno
    is_code[node.lineno - 1 : last] = [value] * (last - node.lineno + 1)


_SKIPPED = str.split("ctx annotation returns type_comment kind type_params simple str")
_NAMES = frozenset(("arg", "asname", "rest", "name"))
_FIELDS = {
    kind: tuple(name for name in kind._fields if name not in _SKIPPED)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""The fields of each type of node that count."""
_Token = tuple[str, str]
"""A name that the program may give, or "", and the text of the token."""


def fingerprint(program: str) -> str:
    """Return the structure of a program as 16 hexadecimal digits. Raises ProgramError.

    Two programs have the same structure when they differ only in layout, comments, docstrings,
    annotations, the values of constants (not their types; a minus sign belongs to the value), or
    the names of their own variables, parameters, functions, classes and `as`. The names of built-in
    functions, attributes and imported modules count.
    """
    tokens: list[_Token] = []
    bound: set[str] = set()
    stack: list[Any] = [parse_program(program)]
    while stack:
        item = stack.pop()
        token, parts = (item, ()) if item.__class__ is tuple else _open_node(item, bound)
        tokens.append(token)
        stack.extend(reversed(parts))
    numbers: dict[str, str] = {}
    data = "".join(
        numbers.setdefault(name, f" {len(numbers)}") if name in bound else text
        for name, text in tokens
    )
    coded = data.encode("utf-8", "backslashreplace")
    return hashlib.blake2b(coded, digest_size=8).hexdigest()


def _open_node(item: Any, bound: set[str]) -> tuple[_Token, Sequence[Any]]:
    """The first token of a node, a list or a value, and the parts after it."""
    kind = item.__class__
    if kind is list:
        return ("", "["), [*item, ("", "]")]
    if kind not in _FIELDS:
        return ("", f" {item!r}"), ()
    signed = kind is ast.UnaryOp and item.op.__class__ in (ast.USub, ast.UAdd)
    if signed and type(getattr(item.operand, "value", None)) in (int, float, complex):
        item, kind = item.operand, ast.Constant  # `-1` is a constant to the reader
    if kind is ast.Constant or kind is ast.MatchSingleton:
        return ("", f"({type(item.value).__name__})"), ()
    if kind is ast.Name:
        if item.ctx.__class__ is not ast.Load:
            bound.add(item.id)
        return (item.id, f" {item.id}"), ()
    if kind is ast.AnnAssign and item.value is not None:
        return ("", "(Assign"), [[item.target], item.value, ("", ")")]
    parts = [_part(item, kind, field, bound) for field in _FIELDS[kind]]
    return ("", f"({kind.__name__}"), [*parts, ("", ")")]


def _part(node: Any, kind: type[ast.AST], field: str, bound: set[str]) -> Any:
    """The parts of a node's field; names that it binds are added to `bound`."""
    value = getattr(node, field, None)
    imported = kind is ast.alias and field == "name"
    if value.__class__ is str and field in _NAMES and not imported:
        if kind is not ast.keyword:
            bound.add(value)
        return value, f" {value}"
    if kind is ast.Global or kind is ast.Nonlocal:
        return [(name, f" {name}") for name in node.names]
    if field == "body" and kind in DOCUMENTED and docstring_of(node) is not None:
        return node.body[1:] or [ast.Pass()]
    return value


_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, interpolated linearly (type 7, Hyndman and Fan 1996)."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def summarise(metrics: Sequence[Metrics]) -> dict[str, dict[str, float]]:
    """Return mean and quantiles of every number of Metrics, named `mean`, `p0` to `p100`."""
    table: dict[str, dict[str, float]] = {}
    for name in MEANINGS if metrics else ():
        values = sorted(float(getattr(item, name)) for item in metrics)
        table[name] = {"mean": sum(values) / len(values)}
        table[name] |= {f"p{round(100 * q)}": quantile(values, q) for q in _QUANTILES}
    return table
