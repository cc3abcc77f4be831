"""Assertions of tests, and `check(candidate)`: the program's process computes the values of its
calls, and another process, which never runs the program, judges the assertions by these values.
"""

import ast
import builtins
import symtable
from collections.abc import Sequence
from functools import cache
from typing import Any

from code_verifier.errors import CodeVerifierError, ProgramError
from code_verifier.scripts.runner import CONTEST_MODULES, ScriptRunner
from code_verifier.syntax import bound_names, parse_program

SHOWN = 80
NUMPY = ("np", "numpy")
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
ASK = """

def _ask_(expression):
    return eval(expression, globals())
"""
CHECK = """
def _check_(expression, values):
    return bool(eval(expression, globals() | {f"_{n}_": value for n, value in enumerate(values)}))
"""
_NO_DATA = frozenset(
    str.split("Decimal Fraction date datetime timedelta isinstance callable type next iter hasattr")
)
"""Names in assertions that test more than data."""


def assertion(text: str) -> ast.expr:
    """Return the condition of one assert statement. Raises CodeVerifierError."""
    match _statements(text.strip()):
        case [ast.Assert(condition)]:
            return condition
    raise CodeVerifierError(f"a test is {text[:SHOWN]!r}; expected one assert statement")


def _statements(text: str) -> list[ast.stmt]:
    try:
        return parse_program(text).body
    except ProgramError as error:
        raise CodeVerifierError(f"'test' is {text[:SHOWN]!r}: {error}") from None


def check_of(test: str, entry: str) -> tuple[str, tuple[str, ...]]:
    """Return the imports of a module that defines `check`, and its assertions with `entry` for the
    candidate; or, if it holds other statements, the module and no assertions. Raises
    CodeVerifierError if there is no `check`."""
    body = _statements(test)
    checks = [n for n in body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    if not checks or not checks[-1].args.args:
        raise CodeVerifierError(f"'test' is {test[:SHOWN]!r}; expected def check(candidate)")
    name = checks[-1].args.args[0].arg
    nodes = [n for n in (*body, *checks[-1].body) if n not in checks and not _is_empty(n)]
    if len(checks) > 1 or not all(isinstance(node, _SIMPLE) for node in nodes):
        return test, ()
    for node in (x for item in nodes for x in _names(item) if x.id == name):
        node.id = entry
    imports = [node for node in nodes if not isinstance(node, ast.Assert)]
    asserts = [n for n in nodes if isinstance(n, ast.Assert) and _uses(n, {entry})]
    return _unparse(ast.Module(imports, [])), tuple(map(_unparse, asserts))


_SIMPLE = (ast.Assert, ast.Import, ast.ImportFrom)


def _is_empty(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Expr(ast.Constant() | ast.Name()):
            return True
        case ast.Assign([ast.Name("METADATA")]):  # of HumanEval
            return True
    return False


def as_check(asserts: Sequence[str], setup: str) -> str:
    """Return a module that defines `check` of assertions about names of the program."""
    lines = [line for text in asserts for line in ast.unparse(ast.parse(text)).splitlines()]
    return "\n".join([setup, "def check(candidate):", *(f"    {line}" for line in lines)])


def _unparse(tree: ast.AST) -> str:
    try:
        return ast.unparse(tree)
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        raise CodeVerifierError(f"a test cannot be written down: {error}") from None


def split_condition(condition: ast.expr, variables: set[str]) -> tuple[str, list[str]] | None:
    """Return a condition with `_0_`, `_1_` ... in place of the expressions that the program
    computes, and these expressions; None if one may use a variable of the condition itself, or the
    condition tests more than data.

    Names that are neither built in nor of the setup are the program's; if there are none, the names
    of called functions are.
    """
    names = {node.id for node in _names(condition) if isinstance(node.ctx, ast.Load)}
    if names & _NO_DATA:
        return None
    unknown = names - variables - bound_names(condition, everywhere=True) - modules_in(condition)
    unknown = unknown - contest_names() or unknown
    called = [node.func for node in ast.walk(condition) if isinstance(node, ast.Call)]
    unknown = unknown or {node.id for node in called if isinstance(node, ast.Name)}
    if any(isinstance(node, _SCOPES) and _uses(node, unknown) for node in ast.walk(condition)):
        return None
    places = _Places(unknown)
    judged = _unparse(places.visit(condition))
    if judged in ("_0_", "not _0_"):  # only its truth matters
        places.texts = [f"bool({text})" for text in places.texts]
    return judged, places.texts


def modules_in(condition: ast.expr) -> set[str]:
    """Return the usual modules that a condition uses only by attributes: there they are the real
    modules, even if the program binds these names."""
    bases = [node.value for node in ast.walk(condition) if isinstance(node, ast.Attribute)]
    modules = [node.id for node in bases if isinstance(node, ast.Name)]
    names = [node.id for node in _names(condition)]
    usual = (*CONTEST_MODULES, *NUMPY)
    return {name for name in usual if names.count(name) == modules.count(name) > 0}


@cache
def contest_names() -> frozenset[str]:
    """The names that contest programs find defined; in a condition they have this meaning."""
    names: dict[str, Any] = {}
    exec(ScriptRunner.CONTEST_NAMES, names)
    return frozenset(names)


class _Places(ast.NodeTransformer):
    """Replaces each part of an expression that only the program can compute."""

    def __init__(self, unknown: set[str]) -> None:
        self.unknown = unknown
        self.texts: list[str] = []

    def visit(self, node: ast.AST) -> ast.AST:
        match node:
            case ast.Call(func=head) | ast.Attribute(value=head) | (ast.Name() as head):
                if _uses(head, self.unknown):
                    self.texts.append(_unparse(node))
                    return ast.Name(f"_{len(self.texts) - 1}_", ast.Load())
        return self.generic_visit(node)


def _names(tree: ast.AST) -> list[ast.Name]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _uses(tree: ast.AST, names: set[str]) -> bool:
    return any(node.id in names for node in _names(tree))


def bound_in(code: str) -> set[str]:
    """Return the names that a trusted module binds, and the built-in ones."""
    try:
        symbols = symtable.symtable(code, "<setup>", "exec").get_symbols()
    except SyntaxError as error:
        raise CodeVerifierError(f"the set-up of a test is no Python: {error}") from None
    names = {name.get_name() for name in symbols if name.is_assigned() or name.is_imported()}
    return names.union(dir(builtins))
