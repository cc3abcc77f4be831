"""HumanEval+ and MBPP+ as benchmarks: functions to write, graded by evalplus' rules.

`sanitize` does what evalplus' function of that name does, without its faults: it keeps functions
without a return statement, async and decorated ones, `if`, `try` and loop statements that bind or
change a name in use, calls on a module or on data in use (such as `sys.setrecursionlimit`), and all
definitions of a name. It drops what the entry point does not need: prints, assertions, examples, a
`main` block.
"""

import ast
from collections.abc import Iterator
from typing import Any

from code_verifier import bound_names
from evals.code.evalplus_grader import FunctionGrader
from evals.code.evalplus_problems import FunctionProblem, read_problem
from evals.code.programs import defines, extract_program, parse
from evals.data import Record
from evals.question import Grading, Pairs, ProgramOutcome, Question, Sample, SampleVerdict
from evals.recipes import Template, own_turn

_FUNCTION, _IMPORT = ast.FunctionDef | ast.AsyncFunctionDef, ast.Import | ast.ImportFrom
_SHOWING = frozenset({"print", "input", "exit", "quit", "help", "unittest", "doctest", "pytest"})
_RUNNING = frozenset({"main", "exit", "write", "read", "readline", "readlines", "run"})


def question(name: str, row: Record, number: int) -> Question:
    """Return the question of a row. number: of the row, from 1. Raises EvalsError."""
    problem = read_problem(row, name, number)
    return Question(problem.task_id, {"prompt": problem.prompt}, problem)


def grade(pairs: Pairs, how: Grading) -> Iterator[SampleVerdict]:
    """Grade programs; right are those that pass the base tests and the plus tests. details: `base`
    and `plus`, each pass, fail or timeout, and the index of the failed input."""
    programs = [program_of(question.problem, sample, how.template) for question, sample in pairs]
    with FunctionGrader(how.workers, None, how.limits, how.allow_weak) as grader:
        problems = (question.problem for question, _ in pairs)
        outcomes = grader.grade_many(zip(problems, programs, strict=True))
        for (question, sample), program, both in zip(pairs, programs, outcomes, strict=True):
            base, plus = both
            worse = base if base.status != ProgramOutcome.PASS else plus
            right = None if None in (base.status, plus.status) else worse.passed
            answer = program if defines(program, question.problem.entry_point) else None
            details: dict[str, Any] = {"task_id": question.id, "base": base.status}
            details |= {"plus": plus.status, "failed_test": worse.failed_test}
            yield SampleVerdict.on(question, sample, right, worse.reason, answer, **details)


def program_of(problem: FunctionProblem, sample: Sample, template: Template) -> str:
    """Return the program of a sample, as it is graded."""
    if sample.solution is not None:
        return sample.solution
    name = problem.entry_point

    def answered(part: str) -> bool:
        return defines(extract_program(part, name), name)

    text = own_turn(sample.response, template, answered, code=True)
    if template.tabs is not None:
        text = text.replace("\t", " " * template.tabs)
    return sanitize(problem.prompt + text if template.continues else text, name)


def sanitize(answer: str, entry_point: str) -> str:
    """Return the program in an answer, without statements that the entry point does not need. An
    answer without a program is returned unchanged."""
    program = extract_program(answer, entry_point)
    tree = parse(program)
    statements = _find_reached(tree.body, entry_point) if tree is not None else []
    lines = program.removeprefix("\ufeff").split("\n")
    return "\n".join(_source(lines, statements)) if statements else program


def _find_reached(body: list[ast.stmt], entry_point: str) -> list[ast.stmt]:
    """The statements that the entry point needs, in their order; none if it is not defined."""
    binds, uses = list(map(bound_names, body)), list(map(_names_in, body))
    imported = set().union(*(bound_names(node) for node in body if isinstance(node, _IMPORT)))
    defined = set().union(*binds)
    functions = {node.name for node in body if isinstance(node, _FUNCTION)}
    if entry_point not in defined:
        return []
    reached, places = {entry_point}, set[int]()
    while True:
        fresh = {
            place
            for place, node in enumerate(body)
            if place not in places
            and not (isinstance(node, ast.If) and "__name__" in _names_in(node.test))
            and (
                isinstance(node, _IMPORT)
                or binds[place] & reached
                or _changes(node, (reached - functions) | imported)
            )
        }
        if not fresh:
            return [body[place] for place in sorted(places)]
        places |= fresh
        reached = reached.union(*(uses[place] & defined for place in fresh))


def _names_in(node: ast.AST) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def _changes(node: ast.stmt, names: set[str]) -> bool:
    """Whether a statement, without output or exit, calls a method of a name, or assigns into it."""
    if isinstance(node, ast.Assert | _FUNCTION | ast.ClassDef):
        return False
    attributes = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
    if _names_in(node) & _SHOWING or attributes & _RUNNING:
        return False
    for item in ast.walk(node):
        target: ast.expr
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute):
            if isinstance(node, ast.Assign | ast.AnnAssign):
                continue  # it serves the name that it binds, which is not in use
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


def _source(lines: list[str], statements: list[ast.stmt]) -> list[str]:
    """The lines of the statements, decorators included, each line once."""
    kept = set[int]()
    for node in statements:
        first = min(part.lineno for part in (node, *getattr(node, "decorator_list", ())))
        kept.update(range(first, (node.end_lineno or first) + 1))
    return [line for number, line in enumerate(lines, 1) if number in kept]
