"""Write docs/math-golds.md: which golds of the math benchmarks needed which rule.

    python tests/benchmarks/math_golds.py FOLDER > docs/math-golds.md

FOLDER holds `<benchmark>/test.jsonl`. Names rows by id and rule; copies no problem and no solution.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

from evals.math.problems import SCHEMAS, MathProblem, load_math

MOST_IDS = 60

HEAD = """# Golds of the math benchmarks

The right answer of a row is brought into one form once, when a benchmark is loaded, so that every
answer meets the same gold. This table names every row whose text was changed or whose kind, unit or
percentage was noted, by the rule. It is made by `tests/benchmarks/math_golds.py`.

| Benchmark | Rows | Changed | Rule | Count | Ids |
|---|---|---|---|---|---|"""

TAIL = """
What the rules do: `leading zeros` 025 is 25; `float of a whole number` 27.0 is 27;
`thousands separators` 2,125 is 2125; `currency sign` the sign goes; `e-notation` 4.5e33 is
4.5 · 10^33 (Math-Verify alone reads a product with the letter e); `point without decimals`
-1./3 is -1/3; `point without a whole number` .5 is 0.5; `numpy function` np.arcsin is arcsin;
`braces of a function` exp{x} is exp(x); `mathematics signs` dollar signs around or inside go;
`full stop`, `plus sign`, `letter before an interval` and `side remark` drop what is not the answer;
`percent sign` is written as LaTeX; `words` and `letter of a choice` are compared as such;
`unit in the gold` and `unit of the row` are kept beside the value, and another unit in the answer
is wrong; `percentage asked for` lets 8 and 8% both pass; `unit asked for` is a unit of money or
time in the question, into which an answer in another one is converted.

OlympiadBench has 675 rows in the file that most evaluations use, 674 on the hub; the counts of a
result say which. In golds with several values every value must be there, in any order, and no
other.
"""


def row_ids(ids: list[str]) -> str:
    """All ids of a rule, or the first and how many more."""
    shown = ", ".join(ids[:MOST_IDS])
    return shown + (f" and {len(ids) - MOST_IDS} more" if len(ids) > MOST_IDS else "")


def changed(problems: list[MathProblem]) -> dict[str, list[str]]:
    """Rule -> the ids of the problems whose gold needed it."""
    found: dict[str, list[str]] = defaultdict(list)
    for problem in problems:
        for rule in problem.gold.rules:
            found[rule].append(problem.id)
    return found


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} FOLDER; it holds <benchmark>/test.jsonl")
    print(HEAD)
    for name in SCHEMAS:
        lines = (Path(sys.argv[1]) / name / "test.jsonl").read_text(encoding="utf-8").splitlines()
        problems = load_math(name, [json.loads(line) for line in lines])
        rules = changed(problems)
        total = sum(bool(problem.gold.rules) for problem in problems)
        for rule, ids in sorted(rules.items(), key=lambda item: -len(item[1])):
            print(f"| {name} | {len(problems)} | {total} | {rule} | {len(ids)} | {row_ids(ids)} |")
        if not rules:
            print(f"| {name} | {len(problems)} | 0 | | | |")
    print(TAIL, end="")


if __name__ == "__main__":
    main()
