"""Mutants of the reference solutions of HumanEval+ and MBPP+, graded here and by evalplus.

    python benchmarks/code_mutants.py DATA --peer-python PATH [--each 3] [--seed 1]
        [--workers 1] [--limit N]

DATA: a folder with humaneval_plus/HumanEvalPlus.jsonl.gz and mbpp_plus/MbppPlus.jsonl.gz.
A mutant has one change: a comparison, an operator, a constant, a condition, an argument or a
statement. Which ones a task gets depends on the seed and the task's name alone. --peer-python: an
interpreter that has evalplus, whose `evalplus.evaluate` grades the same file. Prints each mutant
whose verdicts differ, base or plus, with our reason.
"""

import argparse
import ast
import copy
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

from benchmarking import parser
from code_grading import FILES, evalplus_command, problems

from evals.code.evalplus_grader import FunctionGrader
from evals.code.evalplus_problems import FunctionProblem

_PAIRS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn))
_COMPARISONS = {
    a: b for one, two in (*_PAIRS, (ast.Is, ast.IsNot)) for a, b in ((one, two), (two, one))
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.FloorDiv,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}


def changed(node: ast.AST) -> ast.AST | None:
    """The node with one change, or None where there is none to make."""
    node = copy.deepcopy(node)
    match node:
        case ast.Compare(ops=[first, *_]):
            node.ops[0] = _COMPARISONS[type(first)]()
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _OPERATORS:
            node.op = _OPERATORS[type(op)]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return node.operand
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value)):
            node.value = value + 1
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Call(args=[_, _, *_]):
            node.args[0], node.args[1] = node.args[1], node.args[0]
        case ast.Assign() | ast.Expr(value=ast.Call()):
            return ast.Pass()
        case _:
            return None
    return node


class _Exchange(ast.NodeTransformer):
    """Puts the changed node in the place of the one at a given place of the walk."""

    def __init__(self, place: int) -> None:
        self._countdown = place

    def generic_visit(self, node: ast.AST) -> ast.AST:
        self._countdown -= 1
        if self._countdown == -1:
            return changed(node) or node
        return super().generic_visit(node)


def mutants(task: FunctionProblem, each: int, seed: int) -> list[str]:
    """So many different programs, each one change away from the reference, that still parse."""
    tree = ast.parse(task.reference)
    original = ast.unparse(tree)
    places = list(range(sum(1 for _ in ast.walk(tree))))
    random.Random(f"{seed} {task.task_id}").shuffle(places)
    programs: list[str] = []
    for place in places:
        program = ast.unparse(
            ast.fix_missing_locations(_Exchange(place).visit(ast.parse(original)))
        )
        if program != original and program not in programs:
            programs.append(program)
        if len(programs) == each:
            break
    return programs


def theirs(
    name: str, samples: list[tuple[FunctionProblem, str]], options: argparse.Namespace
) -> list[tuple[str, str]]:
    """Verdicts of `evalplus.evaluate`, in the order of the samples. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        command, environment = evalplus_command(name, samples, options, Path(folder))
        words = [str(word) for word in command]
        subprocess.run(words, env=os.environ | environment, check=True, capture_output=True)
        judged = json.loads((Path(folder) / "samples_eval_results.json").read_text())["eval"]
    rows = {task: iter(results) for task, results in judged.items()}
    verdicts = (next(rows[task.task_id]) for task, _ in samples)
    return [(row["base_status"], row["plus_status"]) for row in verdicts]


def compare(name: str, options: argparse.Namespace) -> None:
    """Judge the mutants of a benchmark twice, print the differences."""
    samples = [
        (task, program)
        for task in problems(options.data, name, options.limit)
        for program in mutants(task, options.each, options.seed)
    ]
    peers = theirs(name, samples, options)
    differ = []
    with FunctionGrader(options.workers) as grader:
        for (task, _), peer, (base, plus) in zip(
            samples, peers, grader.grade_many(samples), strict=True
        ):
            if (base.status, plus.status) != peer:
                ours = f"{base.status}/{plus.status}"
                why = base.reason or plus.reason
                differ.append(f"  {task.task_id}: {ours}, evalplus {'/'.join(peer)}; {why}")
    passed, total = peers.count(("pass", "pass")), len(samples)
    print(f"{name}: {total - len(differ)} of {total} judged alike; {passed} pass at evalplus")
    print(*differ, sep="\n")


def main() -> None:
    options = parser(__doc__, each=3, seed=1, workers=1)
    options.add_argument("data", type=Path)
    options.add_argument("--peer-python", required=True)
    options.add_argument("--limit", type=int)
    args = options.parse_args()
    for name in FILES:
        compare(name, args)


if __name__ == "__main__":
    main()
