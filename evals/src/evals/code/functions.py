"""HumanEval+ and MBPP+ as benchmarks: functions to write, graded by evalplus' rules.

A program is a fenced block of an answer, or the longest stretch of lines that parses. `sanitize`
is evalplus' `sanitize` without its faults: it keeps functions without a return statement, async
and decorated ones, `if`, `try` and loop statements that bind or change a name in use, calls on a
module or on data in use (such as `sys.setrecursionlimit`), and the last definition of a name as
well as the first. It drops what runs when the module does without serving the entry point: prints,
assertions, examples, a `main` block.
"""

import ast
import re
from collections.abc import Iterator

from code_verifier import ProgramError, code_blocks, parse_program
from evals.code.cases import FunctionProblem, read_problems
from evals.code.grader import FunctionGrader
from evals.data import OFFICIAL, compared, load_source
from evals.question import MAX_CHARS, Benchmark, Data, Grading, Outcome, Question, Sample, Verdict
from evals.recipes import CHAT, Template, own_turn

_FUNCTION, _IMPORT = ast.FunctionDef | ast.AsyncFunctionDef, ast.Import | ast.ImportFrom
_START = re.compile(r"(?:import|from|def|class|async def|@|if|try)\b|@|[A-Za-z_]\w*\s*[:=]")
_CUTS = 60
_BEGINNINGS = 40
_SHOWING = frozenset({"print", "input", "exit", "quit", "help", "unittest", "doctest", "pytest"})
_RUNNING = frozenset({"main", "exit", "write", "read", "readline", "readlines", "run"})


def load(name: str, data: Data) -> Benchmark:
    """Load one of them. Raises EvalsError."""
    source = load_source(name, data.whole(name))
    questions = tuple(
        Question(problem.task_id, {"prompt": problem.prompt}, problem)
        for problem in read_problems(source.rows, name)
    )
    notes = (*source.notes, *compared(name, source.rows))
    return Benchmark(
        name, OFFICIAL[name].description, questions, grade, CHAT, source.content_hash, notes
    )


def grade(pairs: list[tuple[Question, Sample]], how: Grading) -> Iterator[Verdict]:
    """Grade programs; right is what passes the base tests and the plus tests.

    details: `base` and `plus`, each pass, fail or timeout, and the input that a program failed.
    """
    programs = [program_of(question.problem, sample, how.template) for question, sample in pairs]
    with FunctionGrader(
        how.workers,
        min_time_s=how.limits.min_time_s,
        time_factor=how.limits.time_factor,
        allow_weak=how.allow_weak,
    ) as grader:
        outcomes = grader.grade_many(
            (question.problem, program)
            for (question, _), program in zip(pairs, programs, strict=True)
        )
        for (question, sample), program, (base, plus) in zip(
            pairs, programs, outcomes, strict=True
        ):
            graded = base.status is not None and plus.status is not None
            worse = base if base.status != Outcome.PASS else plus
            yield Verdict.on(
                question,
                sample,
                base.status == plus.status == Outcome.PASS if graded else None,
                worse.reason,
                program if defines(parse(program), question.problem.entry_point) else None,
                task_id=question.id,
                base=base.status,
                plus=plus.status,
                failed_test=worse.failed_test,
            )


def program_of(problem: FunctionProblem, sample: Sample, template: Template) -> str:
    """Return the program that a sample is graded by."""
    if sample.solution is not None:
        return sample.solution
    name = problem.entry_point
    text = own_turn(
        sample.response,
        template,
        lambda part: defines(parse(extract_program(part, name)), name),
        code=True,
    )
    if template.tabs is not None:
        text = text.replace("\t", " " * template.tabs)
    return sanitize(problem.prompt + text if template.continues else text, name)


def sanitize(answer: str, entry_point: str) -> str:
    """Return the program in an answer, without what the entry point does not reach.

    An answer in which no program is found comes back as it is.
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


def extract_program(answer: str, entry_point: str) -> str:
    """Return the part of an answer that defines `entry_point`, as it stands there.

    Of several blocks the last one that parses and defines it; without such a block, the first
    stretch of lines outside of fences that does; else the first block, or the answer.
    """
    if len(answer) > MAX_CHARS:
        return ""
    blocks = [block.text for block in code_blocks(answer)]
    for block in reversed(blocks):
        if defines(parse(block), entry_point):
            return block
    for text in (*reversed(blocks), answer):
        stretch = _stretch(text, entry_point)
        if stretch is not None:
            return stretch
    return blocks[0] if blocks else answer


def parse(text: str) -> ast.Module | None:
    """Return the syntax tree; None for text that does not parse."""
    try:
        return parse_program(text).tree
    except ProgramError:
        return None


def defines(tree: ast.Module | None, name: str) -> bool:
    """Return whether a module binds the name at its top level, `if` and `try` included."""
    return tree is not None and any(name in bound_names(node) for node in tree.body)


def bound_names(node: ast.AST) -> set[str]:
    """Return the names that a statement binds in the scope where it stands."""
    if isinstance(node, _FUNCTION | ast.ClassDef):
        return {node.name}
    if isinstance(node, _IMPORT):
        return {(item.asname or item.name).partition(".")[0] for item in node.names}
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store | ast.Del) else set()
    if isinstance(node, ast.Lambda):
        return set()
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        names |= bound_names(child)
    return names


def _stretch(text: str, entry_point: str) -> str | None:
    """The longest parsing lines from the first line on from where the entry point is defined.

    A text that does not parse is cut where the parser stumbles, so that the work grows with the
    number of cuts and not with the square of the lines.
    """
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _START.match(line)]
    for start in starts[:_BEGINNINGS]:
        stop = len(lines)
        for _ in range(_CUTS):
            piece = "\n".join(lines[start:stop])
            try:
                tree = parse_program(piece).tree
            except ProgramError as error:
                match = re.search(r"\(line (\d+)\)", str(error))
                stumbled = int(match[1]) - 1 if match else piece.count("\n")
                stop = min(stop - 1, start + stumbled)
                while stop > start and lines[stop][:1].isspace():  # inside a statement
                    stop -= 1
                if stop <= start:
                    break
                continue
            if defines(tree, entry_point):
                return piece
            break
    return None


def _reached(body: list[ast.stmt], entry_point: str) -> list[ast.stmt]:
    """Statements that the entry point needs, in their order; none when it is not defined."""
    binds = [bound_names(node) for node in body]
    uses = [_used(node) for node in body]
    imported = set().union(*(bound_names(node) for node in body if isinstance(node, _IMPORT)))
    defined = set().union(*binds)
    functions = {node.name for node in body if isinstance(node, _FUNCTION)}
    if entry_point not in defined:
        return []
    reached, kept = {entry_point}, set[int]()
    while True:
        fresh = {
            place
            for place, node in enumerate(body)
            if place not in kept
            and not (isinstance(node, ast.If) and "__name__" in _used(node.test))
            and (
                isinstance(node, _IMPORT)
                or binds[place] & reached
                or _changes(node, (reached - functions) | imported)
            )
        }
        if not fresh:
            return [body[place] for place in sorted(kept)]
        kept |= fresh
        reached = reached.union(*(uses[place] & defined for place in fresh))


def _used(node: ast.AST) -> set[str]:
    """Every name in it, whoever binds it."""
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def _changes(node: ast.stmt, names: set[str]) -> bool:
    """Whether a statement calls a method of one of the names, or assigns into it, unseen."""
    if isinstance(node, ast.Assert | _FUNCTION | ast.ClassDef):
        return False
    attributes = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
    if _used(node) & _SHOWING or attributes & _RUNNING:
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
