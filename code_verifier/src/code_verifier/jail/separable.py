"""Which programs can take several inputs in one process, because nothing is carried over.

Every input starts with names and values of its own: the module is executed again, and the
arguments are read again. What is left is what lies outside of the program: imported modules and
classes. A program is separable when it imports only modules without state of their own, and has
no means of changing one: no attribute is set while anything is imported, and none of the names
below occurs. Everything else gets a process per input.
"""

from __future__ import annotations

import ast

_PURE_MODULES = """
    __future__ bisect cmath collections fractions functools heapq itertools math re string typing
"""
_CHANGING_NAMES = """
    setattr delattr getattr vars globals locals dir id attrgetter methodcaller register wraps
    update_wrapper total_ordering overload get_overloads clear_overloads final no_type_check
    no_type_check_decorator runtime_checkable dataclass_transform override purge __import__
    Formatter get_field get_type_hints ForwardRef
"""
_PURE = frozenset(_PURE_MODULES.split())
_CHANGING = frozenset(_CHANGING_NAMES.split())
_HARMLESS = frozenset({"__init__", "__name__"})


def is_separable(nodes: list[ast.AST], imported: set[str]) -> bool:
    """Whether the program of these nodes cannot carry anything from one input to the next."""
    if not imported <= _PURE:
        return False
    for node in nodes:
        kind = type(node)
        if kind is ast.Name:
            if node.id in _CHANGING:  # type: ignore[attr-defined]
                return False
        elif kind is ast.Attribute:
            name: str = node.attr  # type: ignore[attr-defined]
            if name in _CHANGING or (name.startswith("_") and name not in _HARMLESS and imported):
                return False
            if name.startswith("__") and name not in _HARMLESS:
                return False
            if imported and type(node.ctx) is not ast.Load:  # type: ignore[attr-defined]
                return False
        elif kind is ast.MatchClass:
            return False  # a pattern reads attributes by names of the program's choice
        elif kind is ast.alias:
            parts = node.name.split(".")  # type: ignore[attr-defined]
            if not _CHANGING.isdisjoint(parts) or any(part[:1] == "_" for part in parts[1:]):
                return False
    return True
