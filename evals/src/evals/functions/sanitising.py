"""Reducing a model's answer to what its entry point needs, as evalplus' `sanitize`, but for faults.

Unlike it, this keeps functions without a return statement, async and decorated ones, `if`, `try`
and loop statements that bind or change a name in use, calls on a module or on data in use (such as
`sys.setrecursionlimit`), and the last definition of a name as well as the first. It drops what runs
when the module does without serving the entry point: prints, assertions, examples, a `main` block.
"""

import ast

from evals.functions.extraction import bound_names, extract_program, parse

_SHOWING = frozenset({"print", "input", "exit", "quit", "help", "unittest", "doctest", "pytest"})
_RUNNING = frozenset({"main", "exit", "write", "read", "readline", "readlines", "run"})


def sanitise(answer: str, entry_point: str) -> str:
    """The program in an answer, without what the entry point does not reach.

    An answer in which no program is found is given back as it is, to be graded as it is.
    """
    program = extract_program(answer, entry_point)
    tree = parse(program)
    if tree is None:
        return program
    kept = _reached(tree.body, entry_point)
    if not kept:
        return program
    lines = program.removeprefix("\ufeff").split("\n")
    return "\n".join(_source(lines, kept))


def _reached(body: list[ast.stmt], entry_point: str) -> list[ast.stmt]:
    """Statements that the entry point needs, in their order; none when it is not defined."""
    binds = [bound_names(node) for node in body]
    uses = [_used(node) for node in body]
    imported = set().union(
        *(names for names, node in zip(binds, body, strict=True) if _is_import(node))
    )
    defined = set().union(*binds)
    functions = {
        node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    if entry_point not in defined:
        return []
    reached, kept = {entry_point}, set[int]()
    while True:
        fresh = {
            place
            for place, node in enumerate(body)
            if place not in kept
            and not _is_main_block(node)
            and (
                _is_import(node)
                or binds[place] & reached
                or _changes(node, (reached - functions) | imported)
            )
        }
        if not fresh:
            return [body[place] for place in sorted(kept)]
        kept |= fresh
        reached = reached.union(*(uses[place] & defined for place in fresh))


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_main_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in _used(node.test)


def _used(node: ast.AST) -> set[str]:
    """Every name in it, whoever binds it."""
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def _attributes(node: ast.AST) -> set[str]:
    return {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}


def _changes(node: ast.stmt, names: set[str]) -> bool:
    """Whether a statement calls a method of one of the names, or assigns into it, unseen."""
    if isinstance(node, ast.Assert) or _used(node) & _SHOWING or _attributes(node) & _RUNNING:
        return False
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    for item in ast.walk(node):
        target: ast.expr
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute):
            if isinstance(node, ast.Assign | ast.AnnAssign):
                continue  # for the sake of what it binds, which is not in use
            target = item.func
        elif isinstance(item, ast.Attribute | ast.Subscript) and isinstance(item.ctx, ast.Store):
            target = item
        else:
            continue
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name) and target.id in names:
            return True
    return False


def _source(lines: list[str], kept: list[ast.stmt]) -> list[str]:
    """The lines of the statements, decorators included, each line once."""
    result: list[str] = []
    last = 0
    for node in kept:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(item.lineno for item in decorators)])
        end = node.end_lineno or first
        result += lines[max(first - 1, last) : end]
        last = max(last, end)
    return result
