"""Assertions as tests have them, and `check(candidate)`: judged without the program, in a process
that holds what is expected, by values that the program gave in its own.
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
"""Names in an assertion that looks at more than data."""


def assertion(text: str) -> ast.expr:
    """The condition of one assert statement."""
    match _statements("test", text.strip()):
        case [ast.Assert(condition)]:
            return condition
    raise CodeVerifierError(f"a test is {text[:SHOWN]!r}; expected one assert statement")


def _statements(name: str, text: str) -> list[ast.stmt]:
    try:
        return parse_program(text).tree.body
    except ProgramError as error:
        raise CodeVerifierError(f"{name!r} is {text[:SHOWN]!r}: {error}") from None


def check_of(test: str, entry: str) -> tuple[str, tuple[str, ...]]:
    """The imports of a module that defines `check`, and its assertions, about `entry`; or the
    module and no assertions, where it holds more. Raises CodeVerifierError where there is no
    `check`."""
    body = _statements("test", test)
    checks = [n for n in body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    if not checks or not checks[-1].args.args:
        raise CodeVerifierError(f"'test' is {test[:SHOWN]!r}; expected def check(candidate)")
    name = checks[-1].args.args[0].arg
    nodes = [node for node in (*body, *checks[-1].body) if node not in checks]
    nodes = [node for node in nodes if not _says_nothing(node)]
    if len(checks) > 1 or not all(isinstance(node, _SIMPLE) for node in nodes):
        return test, ()
    for node in (x for item in nodes for x in ast.walk(item)):
        if isinstance(node, ast.Name) and node.id == name:
            node.id = entry
    imports = [node for node in nodes if not isinstance(node, ast.Assert)]
    asserts = [n for n in nodes if isinstance(n, ast.Assert) and _uses(n, {entry})]
    return _written(ast.Module(imports, [])), tuple(map(_written, asserts))


_SIMPLE = (ast.Assert, ast.Import, ast.ImportFrom)


def _says_nothing(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Expr(ast.Constant() | ast.Name()):
            return True
        case ast.Assign([ast.Name("METADATA")]):  # of HumanEval
            return True
    return False


def as_check(asserts: Sequence[str], setup: str) -> str:
    """A module that defines `check`, of assertions about names of the program."""
    lines = [line for text in asserts for line in ast.unparse(ast.parse(text)).splitlines()]
    return "\n".join([setup, "def check(candidate):", *(f"    {line}" for line in lines)])


def _written(tree: ast.AST) -> str:
    try:
        return ast.unparse(tree)
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        raise CodeVerifierError(f"a test cannot be written down: {error}") from None


def split_condition(condition: ast.expr, known: set[str]) -> tuple[str, list[str]] | None:
    """A condition with `_0_`, `_1_` ... for what it asks of the program, and what that is; None
    where a call may depend on a variable of the condition itself, or it looks at more than data.

    Names that are neither built in nor of the setup are the program's; where there are none, those
    of the functions that are called are.
    """
    used = {node.id for node in _names(condition) if isinstance(node.ctx, ast.Load)}
    if used & _NO_DATA:
        return None
    unknown = used - known - bound_names(condition, everywhere=True) - modules_in(condition)
    unknown = unknown - _contest_names() or unknown
    called = [node.func for node in ast.walk(condition) if isinstance(node, ast.Call)]
    unknown = unknown or {node.id for node in called if isinstance(node, ast.Name)}
    if any(isinstance(node, _SCOPES) and _uses(node, unknown) for node in ast.walk(condition)):
        return None
    places = _Places(unknown)
    judged = _written(places.visit(condition))
    if judged in ("_0_", "not _0_"):  # whatever it is, only its truth is asked for
        places.texts = [f"bool({text})" for text in places.texts]
    return judged, places.texts


def modules_in(condition: ast.expr) -> set[str]:
    """The usual modules that a condition uses as such: they are the real ones, and not what the
    program calls so."""
    bases = [node.value for node in ast.walk(condition) if isinstance(node, ast.Attribute)]
    modules = [node.id for node in bases if isinstance(node, ast.Name)]
    names = [node.id for node in _names(condition)]
    usual = (*CONTEST_MODULES, *NUMPY)
    return {name for name in usual if names.count(name) == modules.count(name) > 0}


@cache
def _contest_names() -> frozenset[str]:
    """What contest programs find defined. Around what a program is asked for it is the real one."""
    names: dict[str, Any] = {}
    exec(ScriptRunner.CONTEST_NAMES, names)
    return frozenset(names)


class _Places(ast.NodeTransformer):
    """Puts a place for each part of an expression whose value only the program knows."""

    def __init__(self, unknown: set[str]) -> None:
        self.unknown = unknown
        self.texts: list[str] = []

    def visit(self, node: ast.AST) -> ast.AST:
        match node:
            case ast.Call(func=head) | ast.Attribute(value=head) | (ast.Name() as head):
                if _uses(head, self.unknown):
                    self.texts.append(_written(node))
                    return ast.Name(f"_{len(self.texts) - 1}_", ast.Load())
        return self.generic_visit(node)


def _names(tree: ast.AST) -> list[ast.Name]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _uses(tree: ast.AST, names: set[str]) -> bool:
    return any(node.id in names for node in _names(tree))


def bound_in(code: str) -> set[str]:
    """The names that a trusted module binds, and those that are built in."""
    try:
        symbols = symtable.symtable(code, "<setup>", "exec").get_symbols()
    except SyntaxError as error:
        raise CodeVerifierError(f"the set-up of a test is no Python: {error}") from None
    names = {name.get_name() for name in symbols if name.is_assigned() or name.is_imported()}
    return names.union(dir(builtins))
