"""Math grading: agreement with labels, with and without each rule, and processor time.

    python tests/benchmarks/math_grading.py [--data FOLDER] [--pairs FILE]

Answers are the hand-labelled responses of tests/evals/data. With --data (a folder with one
`<benchmark>/test.jsonl` each) every gold is also given as an answer, boxed, to its own problem and
to the next one. Prints processor seconds per 1,000 responses.
"""

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from benchmarking import parser

from evals.math import grader
from evals.math.benchmark import DESCRIPTIONS, questions
from evals.math.golds import Gold, canonical_gold
from evals.math.grader import grade

PAIRS = Path(__file__).parents[1] / "evals" / "data" / "math_pairs.jsonl"

WITHOUT: dict[str, dict[str, object]] = {
    "all rules": {},
    "intervals of inequalities": {"shapes._interval": lambda *_: None},
    "labels before the answer": {"shapes._is_label": lambda *_: False},
    "factors of vectors": {"shapes._scaled": lambda *_: None},
    "numbers in words": {"shapes.spelled_number": lambda _: None},
    "points of equations": {"grader._point": lambda _: None},
    "other constants": {"grader._respelled": lambda *_: iter(())},
    "conversion of units": {"grader.converted": lambda *_: None},
    "rounding of measured golds": {"grader._Comparison.rounds_to_gold": lambda *_: False},
}
"""Rule -> what is put in its place."""


@dataclass(frozen=True)
class Pair:
    gold: Gold
    response: str
    correct: bool


def labelled(path: Path) -> list[Pair]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        Pair(
            canonical_gold(
                row["gold"], row.get("question", ""), measured=row["benchmark"] == "minerva_math"
            ),
            row["response"],
            row["correct"],
        )
        for row in rows
    ]


def crossed(folder: Path) -> list[Pair]:
    """Golds as answers to their own problems and, where the golds differ, to the next ones."""
    pairs = []
    for name in DESCRIPTIONS:
        rows = [json.loads(line) for line in (folder / name / "test.jsonl").open()]
        golds = [question.problem for question in questions(name, rows)]
        for one, other in zip(golds, golds[1:] + golds[:1], strict=True):
            pairs.append(Pair(one, f"So it is $\\boxed{{{one.text}}}$.", True))
            if one.text != other.text:
                pairs.append(Pair(one, f"So it is $\\boxed{{{other.text}}}$.", False))
    return pairs


def measure(name: str, pairs: list[Pair]) -> None:
    grader._gold_form.cache_clear()
    begin = time.process_time()
    verdicts = [grade(pair.gold, pair.response).correct for pair in pairs]
    seconds = (time.process_time() - begin) * 1000 / len(pairs)
    accepted = sum(v and not pair.correct for v, pair in zip(verdicts, pairs, strict=True))
    refused = sum(pair.correct and not v for v, pair in zip(verdicts, pairs, strict=True))
    agree = 1 - (accepted + refused) / len(pairs)
    print(f"| {name} | {len(pairs)} | {agree:.4f} | {accepted} | {refused} | {seconds:.2f} |")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", type=Path)
    options.add_argument("--pairs", type=Path, default=PAIRS)
    given = options.parse_args()
    pairs = labelled(given.pairs)
    print("| responses | rows | agree | wrong accepted | right refused | s per 1,000 |")
    print("|---|---|---|---|---|---|")
    for name, patches in WITHOUT.items():
        with ExitStack() as stack:
            for target, put in patches.items():
                stack.enter_context(patch(f"evals.math.{target}", put))
            measure(name if not patches else f"without {name}", pairs)
    if given.data:
        measure("golds as answers", crossed(given.data))


if __name__ == "__main__":
    main()
