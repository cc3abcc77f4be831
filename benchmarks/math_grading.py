"""Math grading: agreement with labels by hand or by construction, and processor time.

    python benchmarks/math_grading.py [--pairs FILE | --families]

FILE: rows {"benchmark", "gold", "response", "correct", "question"?}; by default the responses of
tests/evals/data. --families: pairs made by program, by kind. Prints processor seconds per 1,000
responses.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarking import Row, parser, show

from evals.math.final_answers import canonical_gold, extract
from evals.math.grader import grade

TESTS = Path(__file__).parents[1] / "tests" / "evals"
PAIRS = TESTS / "data" / "math_pairs.jsonl"


def measure(name: str, rows: list[dict[str, Any]]) -> Row:
    """Grade the rows and compare the verdicts with the labels."""
    golds = [
        canonical_gold(
            row["gold"], row.get("question", ""), measured=row["benchmark"] == "minerva_math"
        )
        for row in rows
    ]
    begin = time.process_time()
    verdicts = [grade(gold, row["response"]).correct for gold, row in zip(golds, rows, strict=True)]
    seconds = time.process_time() - begin
    return counted(
        name, list(zip(verdicts, (row["correct"] for row in rows), strict=True)), seconds
    )


def families() -> list[Row]:
    """Grade the pairs of each family."""
    sys.path.append(str(TESTS / "support"))
    from math_families import FAMILIES, graded

    rows = []
    for name in FAMILIES:
        begin = time.process_time()
        pairs = [(pair.accepted, pair.right) for pair in graded(name)]
        rows.append(counted(name.replace("_", " "), pairs, time.process_time() - begin))
    return rows


def counted(name: str, pairs: list[tuple[bool, bool]], seconds: float) -> Row:
    """A row of the table, of verdicts and labels."""
    return {
        "responses": name,
        "rows": len(pairs),
        "agree": f"{sum(answer == label for answer, label in pairs) / len(pairs):.4f}",
        "wrong accepted": pairs.count((True, False)),
        "right refused": pairs.count((False, True)),
        "s per 1,000": 1000 * seconds / len(pairs),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--pairs", type=Path, default=PAIRS)
    options.add_argument("--families", action="store_true")
    chosen = options.parse_args()
    if chosen.families:
        show(families())
        return
    rows = [json.loads(line) for line in chosen.pairs.read_text().splitlines()]
    marked = [row for row in rows if extract(row["response"]).rule != "whole text"]
    show([measure("that mark their answer", marked), measure("all", rows)])


if __name__ == "__main__":
    main()
