"""The cheap look at a program before it runs: imports, names that only an escape needs, and more.

This is no boundary (the kernel is). It gives a clear reason early, and tells which programs deserve
more executions.
"""

import ast
import symtable
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from code_verifier.jail import modules, protocol
from code_verifier.jail.chance import MEMBERS, Nodes, Program
from code_verifier.jail.instances import keeps_an_instance

_LOOKUPS = frozenset({"getattr", "setattr", "delattr", "hasattr", "attrgetter", "methodcaller"})
_OUTSIDE = frozenset(
    str.split("os sys posix builtins subprocess socket threading importlib inspect signal shutil")
)
_SYS_READABLE = modules.SYS_NAMES | {"stdin", "stdout", "stderr", "argv", "path"}
_BINDING = ("name", "asname", "arg", "rest")
_SPECIAL = frozenset(name for name in modules.BANNED_NAMES if name.startswith("__"))


def examine(tree: ast.Module) -> tuple[str | None, int]:
    """Look at a program: why it is banned, and its flags, as `protocol` has them."""
    guards = _main_guards(tree)
    nodes = list(walk(tree, guards))
    by_type: defaultdict[type[ast.AST], list[Any]] = defaultdict(list)
    for node in nodes:
        by_type[type(node)].append(node)
    for node in nodes:
        if type(node) not in _QUIET and (refusal := _refused(node)):
            return f"{refusal} (line {getattr(node, 'lineno', 0)})", 0
    for node, refusal in chain(_banned_names(tree, guards, by_type), _outside_uses(by_type)):
        return f"{refusal} (line {node.lineno})", 0
    names = {alias.name for node in by_type[ast.Import] for alias in node.names}
    names |= {node.module for node in by_type[ast.ImportFrom]}
    imported = {name.partition(".")[0] for name in names}
    flags = _tier(nodes, imported) << protocol.TIER_SHIFT
    return None, flags | protocol.CHANCE * _has_chance(by_type, imported)


def _has_chance(nodes: Nodes, imported: set[str]) -> bool:
    """Whether a program of these nodes and imports may reach entropy, clocks, the order of sets, or
    hashes and addresses of objects."""
    if not imported <= MEMBERS.keys():
        return True
    if nodes[ast.Set] or nodes[ast.SetComp] or nodes[ast.MatchClass]:
        return True
    program = Program(nodes)
    if not program.has_quiet_members() or not program.has_quiet_names():
        return True
    if program.has_algebra() and program.keeps_a_view():
        return True
    return program.makes_texts() and (program.keeps_an_address() or keeps_an_instance(program))


def _banned_names(
    tree: ast.Module, guards: frozenset[int], nodes: Nodes
) -> Iterator[tuple[ast.Name, str]]:
    """The names that only an escape needs, where they mean the built-in ones, and why not."""
    banned = [
        node
        for node in nodes[ast.Name]
        if node.id in modules.BANNED_NAMES and (node.id in _SPECIAL or type(node.ctx) is ast.Load)
    ]
    free = _SPECIAL | _built_in_names(tree, guards) if banned else _SPECIAL
    for node in banned:
        if node.id in free:
            yield node, f"use of {node.id!r}"


def _outside_uses(nodes: Nodes) -> Iterator[tuple[ast.Attribute, str]]:
    """The attributes of imported modules that a program may not use, and why not."""
    imported = {
        alias.asname or alias.name.partition(".")[0]: alias.name
        for node in nodes[ast.Import]
        for alias in node.names
    }
    for node in nodes[ast.Attribute]:
        name = getattr(node.value, "id", "")
        if name in imported and (refusal := _outside(imported[name], node.attr)):
            yield node, refusal


def _built_in_names(tree: ast.Module, guards: frozenset[int]) -> set[str]:
    """The names that a scope of the program reads without it, or a scope around it, binding them,
    as the compiler sees it. What the guards hide does not count."""
    for node in tree.body:
        if id(node) in guards:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
    top = symtable.symtable(ast.unparse(tree), "<program>", "exec")
    bound = {x.get_name() for x in top.get_symbols() if x.is_assigned() or x.is_imported()}
    free: set[str] = set()
    tables = [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            outside = table is top or symbol.is_global()
            if symbol.is_referenced() and outside:
                free.add(symbol.get_name())
            if symbol.is_declared_global() and symbol.is_assigned():
                bound.add(symbol.get_name())
    return free - bound


def _outside(module: str, attribute: str) -> str | None:
    """Why a program may not use this attribute of an imported module."""
    if module == "sys" and attribute not in _SYS_READABLE and not attribute.startswith("__"):
        return f"use of 'sys.{attribute}'"
    private = attribute.startswith("_") and not attribute.startswith("__")
    if private or attribute in _OUTSIDE:
        return f"use of {module + '.' + attribute!r}, which is not part of that module"
    return None


def walk(tree: ast.AST, guards: frozenset[int] = frozenset()) -> Iterator[ast.AST]:
    """All nodes that can run, parents before their children. guards: the `id` of every If whose
    body never runs."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if id(node) in guards:
            stack.extend(node.orelse)  # type: ignore[attr-defined]
            continue
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                stack.extend(item for item in value if isinstance(item, ast.AST))
            elif isinstance(value, ast.AST) and type(value) not in _MARKS:
                stack.append(value)


_MARKS = frozenset({ast.Load, ast.Store, ast.Del, *ast.operator.__subclasses__()})
_QUIET = frozenset({ast.Constant, ast.Expr, ast.Assign, ast.Compare, ast.Return, ast.Subscript})


def _main_guards(tree: ast.Module) -> frozenset[int]:
    """The `if __name__ == "__main__"` of the module: a program has another name. None when the
    program could give itself that name."""
    guards = [node for node in tree.body if isinstance(node, ast.If) and _is_main_guard(node.test)]
    for node in walk(tree) if guards else ():
        if isinstance(node, ast.Name):
            renamed = node.id in ("globals", "vars", "locals", "setattr")
            if renamed or (node.id == "__name__" and not isinstance(node.ctx, ast.Load)):
                return frozenset()
        else:
            fields = (
                getattr(node, name, None) for name in ("name", "asname", "arg", "rest", "attr")
            )
            if "__name__" in (*getattr(node, "names", ()), *fields):
                return frozenset()
    return frozenset(map(id, guards))


def _is_main_guard(test: ast.expr) -> bool:
    match test:
        case ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")]):
            return True
    return False


def _tier(nodes: list[ast.AST], imported: set[str]) -> int:
    """The least tier that has what a program imports; codecs are in the last one alone."""
    for node in nodes:
        match node:
            case ast.Attribute(attr="encode" | "decode") | ast.Name("bytes" | "bytearray"):
                return modules.ALL
    some = modules.SOME if imported else modules.NONE
    return some if imported <= modules.COMMON else modules.ALL


def _refused(node: ast.AST) -> str | None:
    """Why a program may not have this node, by itself."""
    for field in _BINDING:
        if getattr(node, field, None) in _SPECIAL:
            return f"use of {getattr(node, field)!r}"
    match node:
        case ast.Import(names):
            others = (alias.name for alias in names if not modules.may_import(alias.name))
            return next(map(modules.reason, others), None)
        case ast.ImportFrom():
            return _refused_import(node)
        case ast.Attribute(attr=name):
            return _banned_attribute([name])
        case ast.MatchClass(kwd_attrs=names):
            return _banned_attribute(names)
        case ast.Call(ast.Attribute(attr=name) | ast.Name(name), args) if name in _LOOKUPS:
            return _banned_attribute(x.value for x in args if isinstance(x, ast.Constant))
    return None


def _refused_import(node: ast.ImportFrom) -> str | None:
    if node.level or node.module is None:
        return "relative import"
    names = [alias.name for alias in node.names]
    refusals = (_outside(node.module, name) for name in names if name != "*")
    if refusal := next(filter(None, refusals), None):
        return refusal
    if not modules.may_import(node.module):
        return modules.reason(node.module)
    if node.module == "urllib" and names != ["parse"] * len(names):
        return modules.reason(f"urllib.{names[0]}")
    return None


def _banned_attribute(names: Iterable[object]) -> str | None:
    banned = (name for name in names if name in modules.BANNED_ATTRIBUTES)
    return next((f"use of attribute {name!r}" for name in banned), None)
