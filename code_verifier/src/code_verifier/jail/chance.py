"""Which programs can reach a source of chance: entropy, clocks, the order of sets, addresses.

Two executions seldom tell such a program from a deterministic one, so that it gets sixteen. What is
looked for are names, attributes and imports; the rest of the odds are in `docs/threat-model.md`.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

Nodes = Mapping[type[ast.AST], Sequence[Any]]
"""The nodes of a program by their type."""

_CHANCE_MODULES = frozenset(
    str.split("contextvars datetime pprint queue random secrets sys time timeit uuid weakref")
)
_CHANCE_NAMES = frozenset(str.split("dir frozenset globals hash id locals object set vars"))
_CHANCE_ATTRIBUTES = frozenset({"__dict__", "__hash__", "__repr__", "samples"})
_TEXT_NAMES = frozenset({"ascii", "format", "repr", "str"})
_ITERATOR_NAMES = frozenset(
    str.split("enumerate filter iter map memoryview property reversed super zip")
)
_SHOWN_NAMES = frozenset(str.split("dataclass Enum Flag IntEnum NamedTuple StrEnum"))
_TEXT_METHODS = frozenset({"__format__", "__repr__", "__str__"})


def has_chance(nodes: Nodes, imported: set[str]) -> bool:
    """Whether a program of these nodes and imports can reach entropy, clocks, the order of sets, or
    hashes and addresses of objects: by a function that gives one, or in the text of an object."""
    names = {node.id for node in nodes[ast.Name] if type(node.ctx) is ast.Load}
    attributes = {node.attr for node in nodes[ast.Attribute]}
    return not (
        imported.isdisjoint(_CHANCE_MODULES)
        and names.isdisjoint(_CHANCE_NAMES)
        and attributes.isdisjoint(_CHANCE_ATTRIBUTES)
        and not nodes[ast.Set]
        and not nodes[ast.SetComp]
        and not any(map(_makes_set, nodes[ast.BinOp]))
        and not any(
            node.value in _CHANCE_ATTRIBUTES
            for node in nodes[ast.Constant]
            if type(node.value) is str
        )  # getattr(x, "__hash__")
        and not _has_text_of_object(nodes)
    )


def _makes_set(node: ast.BinOp) -> bool:
    """`a.keys() & b.keys()`."""
    operators = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
    return isinstance(node.op, operators) and (_is_view(node.left) or _is_view(node.right))


def _is_view(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in ("keys", "items")


def _has_text_of_object(nodes: Nodes) -> bool:
    hiding = any(map(_shows_address, nodes[ast.ClassDef]))
    defined = {node.name for kind in (ast.FunctionDef, ast.ClassDef) for node in nodes[kind]}
    texts = [node.value for node in nodes[ast.FormattedValue]]
    for node in nodes[ast.Call]:
        match node:
            case ast.Call(ast.Name(name), args) if name in _TEXT_NAMES:
                texts += args
            case ast.Call(ast.Name("map"), [ast.Name(name), *rest]) if name in _TEXT_NAMES:
                texts += rest
            case ast.Call(ast.Attribute(attr="format" | "format_map"), args, keywords):
                texts += [*args, *(item.value for item in keywords)]
            case ast.Call(ast.Attribute(attr="dump" | "dumps"), _, keywords):
                if any(item.arg == "default" for item in keywords):  # JSON of any object
                    return True
    for node in nodes[ast.BinOp]:
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            texts.append(node.right)
    return any(_is_object(item, defined, hiding) for item in texts)


def _is_object(node: ast.expr, defined: set[str], hiding: bool) -> bool:
    """Whether this is, or holds, a function, a class or an iterator, as far as one can see; with
    classes whose instances hide what they hold, any name may be an instance."""
    match node:
        case ast.Lambda() | ast.GeneratorExp():
            return True
        case ast.Name(name):
            return hiding or name in defined
        case ast.Call(ast.Name(name)):
            return name in _ITERATOR_NAMES or (hiding and name in defined)
        case ast.List(parts) | ast.Tuple(parts):
            return any(_is_object(part, defined, hiding) for part in parts)
    return False


def _shows_address(node: ast.ClassDef) -> bool:
    """Whether the text of an instance shows its address, as far as one can see."""
    methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    parts = [part for item in (*node.decorator_list, *node.bases) for part in ast.walk(item)]
    used = {getattr(part, "id", getattr(part, "attr", "")) for part in parts}
    shown = any(name in _SHOWN_NAMES or name.endswith(("Error", "Exception")) for name in used)
    return not shown and methods.isdisjoint(_TEXT_METHODS)
