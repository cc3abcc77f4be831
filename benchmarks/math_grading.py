"""Math grading: agreement with labels by hand, and processor time.

    python benchmarks/math_grading.py [--pairs FILE]

FILE: rows {"benchmark", "gold", "response", "correct", "question"?}; by default the responses of
tests/evals/data. Prints processor seconds per 1,000 responses.
"""

import json
import time
from pathlib import Path
from typing import Any

from benchmarking import Row, parser, show

from evals.math.answers import canonical_gold, extract
from evals.math.grader import grade

PAIRS = Path(__file__).parents[1] / "tests" / "evals" / "data" / "math_pairs.jsonl"


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
    pairs = [(found, row["correct"]) for found, row in zip(verdicts, rows, strict=True)]
    return {
        "responses": name,
        "rows": len(rows),
        "agree": f"{sum(found == label for found, label in pairs) / len(rows):.4f}",
        "wrong accepted": pairs.count((True, False)),
        "right refused": pairs.count((False, True)),
        "s per 1,000": 1000 * seconds / len(rows),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--pairs", type=Path, default=PAIRS)
    rows = [json.loads(line) for line in options.parse_args().pairs.read_text().splitlines()]
    marked = [row for row in rows if extract(row["response"]).rule != "whole text"]
    show([measure("that mark their answer", marked), measure("all", rows)])


if __name__ == "__main__":
    main()
