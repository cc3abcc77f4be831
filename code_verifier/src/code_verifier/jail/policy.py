"""Examine a program before it runs: its imports and names, and whether it can reach chance.

This is not the security boundary, which the kernel is. It gives a clear reason early, and finds
programs that need more executions.
"""

import ast
from collections import defaultdict
from typing import Any

from code_verifier.jail import wire
from code_verifier.jail.chance import MEMBERS, Program, makes_texts
from code_verifier.jail.imports import ALLOWED, COMMON, words
from code_verifier.syntax import Nodes, bound_names

_OF_SYS = words("""
    maxsize maxunicode float_info int_info hash_info byteorder version version_info
    implementation platform intern getsizeof getrecursionlimit setrecursionlimit exit
    set_int_max_str_digits get_int_max_str_digits getrefcount exc_info exception flags hexversion
    api_version float_repr_style displayhook getdefaultencoding stdin stdout stderr argv path
""")
"""The members of sys that strict programs may use: they reveal nothing about this machine."""
_BANNED = words(
    "eval exec compile open input breakpoint help __import__ __builtins__ __loader__ __spec__"
)
_SPECIAL = frozenset(name for name in _BANNED if name[0] == "_")


def examine(tree: ast.Module) -> tuple[str | None, int]:
    """Return why a program is banned, or None; and its flags, of `wire`."""
    guards = [node for node in tree.body if _is_main_guard(node)]
    if guards and "__name__" in bound_names(tree, everywhere=True):
        guards = []
    nodes: defaultdict[type[ast.AST], list[Any]] = defaultdict(list)
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if node in guards:
            stack += node.orelse  # the body never runs: a program's __name__ is another
            continue
        nodes[type(node)].append(node)
        for field in node._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                stack += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and type(value) not in _MARKS:
                stack.append(value)
    refusal = _refusal(nodes, tree)
    imported = {alias.name.partition(".")[0] for n in nodes[ast.Import] for alias in n.names}
    imported |= {str(node.module).partition(".")[0] for node in nodes[ast.ImportFrom]}
    flags = wire.MORE * (not imported <= COMMON) | wire.TEXTS * makes_texts(nodes)
    return refusal, flags | wire.CHANCE * (refusal is None and _has_chance(nodes, imported))


_MARKS = frozenset({ast.Load, ast.Store, ast.Del, *ast.operator.__subclasses__()})


def _is_main_guard(node: ast.stmt) -> bool:
    match node:
        case ast.If(ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")])):
            return True
    return False


def _refusal(nodes: Nodes, tree: ast.Module) -> str | None:
    """Why a program of these nodes is banned, or None."""
    refused: list[tuple[int, str]] = []
    for node in nodes[ast.Import]:
        refused += [(node.lineno, reason(x.name)) for x in node.names if not may_import(x.name)]
    for node in nodes[ast.ImportFrom]:
        module = node.module or ""
        names = [alias.name for alias in node.names]
        if node.level or not module:
            refused.append((node.lineno, "relative import"))
        elif not may_import(module) or (module == "urllib" and names != ["parse"] * len(names)):
            refused.append((node.lineno, reason(module)))
        elif module == "sys":
            refused += [(node.lineno, f"use of 'sys.{x}'") for x in names if x not in _OF_SYS]
    if banned := [node for node in nodes[ast.Name] if node.id in _BANNED]:
        bound = bound_names(tree, everywhere=True) - _SPECIAL
        refused += [(n.lineno, f"use of {n.id!r}") for n in banned if n.id not in bound]
    imported = {x.asname or x.name for n in nodes[ast.Import] for x in n.names if x.name == "sys"}
    for node in nodes[ast.Attribute] if imported else ():
        if getattr(node.value, "id", "") in imported and node.attr not in _OF_SYS:
            refused.append((node.lineno, f"use of 'sys.{node.attr}'"))
    return "{1} (line {0})".format(*min(refused)) if refused else None


def may_import(name: str) -> bool:
    """Return whether programs may import the module of this dotted name."""
    if name.partition(".")[0] == "urllib":
        return name in ("urllib", "urllib.parse")  # urllib.request opens connections
    return name.partition(".")[0] in ALLOWED


def reason(name: str) -> str:
    return f"import of {name!r} is not allowed: only pure standard-library modules are"


def _has_chance(nodes: Nodes, imported: set[str]) -> bool:
    """Whether a program of these nodes may reach entropy, clocks, hashes or the order of sets."""
    if nodes[ast.Set] or nodes[ast.SetComp] or nodes[ast.MatchClass] or imported - MEMBERS.keys():
        return True
    program = Program(nodes)
    is_quiet = program.has_quiet_members() and program.has_quiet_names()
    return not is_quiet or program.may_make_a_set()
