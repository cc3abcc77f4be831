"""The cheap first look at a program: imports, and names that only an escape needs.

This is no boundary (the kernel is); it gives a clear reason early. A name that the program binds
itself, such as a parameter called `input`, is not the built-in and passes.
"""

import ast

from code_verifier.jail.modules import ALLOWED, reason

_NAMES = "eval exec compile open input breakpoint help __import__ __builtins__ __loader__ __spec__"
_ATTRIBUTES = """
    __subclasses__ __globals__ __builtins__ __code__ __closure__ __import__ __loader__ __spec__
    __reduce__ __reduce_ex__ f_back f_globals f_locals f_builtins f_code tb_frame tb_next
    gi_frame gi_code cr_frame cr_code ag_frame ag_code
"""
BANNED_NAMES = frozenset(_NAMES.split())
BANNED_ATTRIBUTES = frozenset(_ATTRIBUTES.split())
_LOOKUPS = frozenset({"getattr", "setattr", "delattr", "hasattr", "attrgetter", "methodcaller"})
_UNSTABLE_NAMES = frozenset({"set", "frozenset", "hash", "id", "object"})
_UNSTABLE_MODULES = frozenset({"random", "time", "datetime", "uuid", "weakref"})


def refusal(tree: ast.Module) -> str | None:
    """Why the program is banned, or None."""
    bound = _bound_names(tree)
    for node in ast.walk(tree):
        found = _refused(node, bound)
        if found is not None:
            line = getattr(node, "lineno", 0)
            return f"{found} (line {line})"
    return None


def unstable(tree: ast.Module) -> bool:
    """Whether the result could hang on hash order, addresses, clocks or entropy.

    Two executions agree by chance on one bit half of the time: such programs get more of them.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Name) and node.id in _UNSTABLE_NAMES:
            return True
        if isinstance(node, ast.Attribute) and node.attr == "__hash__":
            return True
        if isinstance(node, ast.BinOp) and (_is_view(node.left) or _is_view(node.right)):
            return True  # keys() & keys() is a set
        if isinstance(node, ast.Import):
            if any(alias.name.partition(".")[0] in _UNSTABLE_MODULES for alias in node.names):
                return True
        elif isinstance(node, ast.ImportFrom) and node.module in _UNSTABLE_MODULES:
            return True
    return False


def _is_view(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in ("keys", "items")


def _bound_names(tree: ast.Module) -> set[str]:
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
    return bound


def _refused(node: ast.AST, bound: set[str]) -> str | None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] not in ALLOWED:
                return reason(alias.name)
    elif isinstance(node, ast.ImportFrom):
        if node.level or node.module is None:
            return "relative import"
        if node.module.partition(".")[0] not in ALLOWED:
            return reason(node.module)
    elif isinstance(node, ast.Name):
        if node.id in BANNED_NAMES and node.id not in bound:
            return f"use of {node.id!r}"
    elif isinstance(node, ast.Attribute):
        if node.attr in BANNED_ATTRIBUTES:
            return f"use of attribute {node.attr!r}"
    elif isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        name = function.id if isinstance(function, ast.Name) else name
        if name in _LOOKUPS:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and argument.value in BANNED_ATTRIBUTES:
                    return f"use of attribute {argument.value!r}"
    return None
