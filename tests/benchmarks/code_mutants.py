"""Mutants of the reference solutions of HumanEval+ and MBPP+, judged here and by evalplus.

    python tests/benchmarks/code_mutants.py DATA --peer-python PATH [--each 3] [--seed 1]
        [--benchmark humaneval_plus] [--workers 1] [--cache DIR] [--limit N] [--out FILE]

DATA: a folder with humaneval_plus/HumanEvalPlus.jsonl.gz and mbpp_plus/MbppPlus.jsonl.gz.
A mutant has one change: a comparison, an operator, a constant, a condition, an argument or a
statement. Which ones a task gets depends on the seed and the task's name alone. --peer-python: an
interpreter that has evalplus, whose `evalplus.evaluate` judges the same file. Prints each mutant
whose verdicts differ, base or plus, with our reason. --out: all mutants with both verdicts.
"""

import argparse
import ast
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from code_grading import FILES

from evals.functions.grader import FunctionGrader
from evals.functions.problem import FunctionProblem
from evals.functions.reading import read_functions, read_rows
from evals.functions.reference import cache_folder

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
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
        self._left = place

    def generic_visit(self, node: ast.AST) -> ast.AST:
        self._left -= 1
        if self._left == -1:
            return changed(node) or node
        return super().generic_visit(node)


def mutants(task: FunctionProblem, each: int, seed: int) -> list[str]:
    """So many different programs, each one change away from the reference, that still parse."""
    tree = ast.parse(task.reference)
    original = ast.unparse(tree)
    places = list(range(sum(1 for _ in ast.walk(tree))))
    random.Random(f"{seed} {task.task_id}").shuffle(places)
    found: list[str] = []
    for place in places:
        program = ast.unparse(
            ast.fix_missing_locations(_Exchange(place).visit(ast.parse(original)))
        )
        if program != original and program not in found:
            found.append(program)
        if len(found) == each:
            break
    return found


def ours(
    samples: list[tuple[FunctionProblem, str]], options: argparse.Namespace
) -> Iterator[tuple[tuple[str | None, str | None], str]]:
    """Verdicts of this package, as evalplus 0.3.1 has them, and their reasons."""
    with FunctionGrader(options.workers, compat="0.3.1", cache=options.cache) as grader:
        for verdict in grader.grade_many(samples):
            yield (verdict.base, verdict.plus), verdict.reason


def theirs(
    name: str, samples: list[tuple[FunctionProblem, str]], options: argparse.Namespace
) -> list[tuple[str, str]]:
    """Verdicts of `evalplus.evaluate`, in the order of the samples. Raises CalledProcessError."""
    source, dataset, override = FILES[name]
    tasks = {task.task_id for task, _ in samples}
    with tempfile.TemporaryDirectory() as folder:
        data, path = Path(folder) / "data.jsonl", Path(folder) / "samples.jsonl"
        rows = [row for row in read_rows(options.data / source) if row["task_id"] in tasks]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        lines = ({"task_id": task.task_id, "solution": program} for task, program in samples)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [options.peer_python, "-m", "evalplus.evaluate", "--dataset", dataset]
        command += ["--samples", str(path), "--parallel", str(options.workers)]
        subprocess.run(
            command, env=os.environ | {override: str(data)}, check=True, capture_output=True
        )
        judged = json.loads((Path(folder) / "samples_eval_results.json").read_text())["eval"]
    places: Counter[str] = Counter()
    found = []
    for task, _ in samples:
        row = judged[task.task_id][places[task.task_id]]
        places[task.task_id] += 1
        found.append((row["base_status"], row["plus_status"]))
    return found


def compared(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each mutant of a benchmark, with the verdicts of both."""
    tasks = read_functions(options.data / FILES[name][0], name)[: options.limit]
    samples = [
        (task, program) for task in tasks for program in mutants(task, options.each, options.seed)
    ]
    peers = theirs(name, samples, options)
    return [
        {
            "task_id": task.task_id,
            "program": program,
            "ours": found,
            "evalplus": peer,
            "reason": reason,
        }
        for (task, program), peer, (found, reason) in zip(
            samples, peers, ours(samples, options), strict=True
        )
    ]


def main() -> int:
    """Judge the mutants twice, print the differences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--benchmark", choices=FILES)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=cache_folder())
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in FILES:
        if options.benchmark in (None, name):
            some = compared(name, options)
            rows += some
            equal = sum(row["ours"] == row["evalplus"] for row in some)
            passed = sum(row["evalplus"] == ("pass", "pass") for row in some)
            print(f"{name}: {equal} of {len(some)} mutants judged alike; {passed} pass at evalplus")
            for row in some:
                if row["ours"] != row["evalplus"]:
                    verdicts = (
                        f"{'/'.join(map(str, row['ours']))}, evalplus {'/'.join(row['evalplus'])}"
                    )
                    print(f"  {row['task_id']}: {verdicts}; {row['reason']}")
    if options.out is not None:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
