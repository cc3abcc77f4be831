"""Math grading against plain Math-Verify on the same answers: agreement with labels, and time.

    python tests/benchmarks/math_grading.py [--data FOLDER] [--pairs FILE] [--no-reference]

Answers are the hand-labelled pairs of tests/evals/data. With --data (a folder with one
`<benchmark>/test.jsonl` each) every gold is also given as an answer, boxed, to its own problem and
to the next one. Prints a table of agreement without each rule, and processor seconds per 1,000.
"""

import argparse
import json
import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from evals.math.equality import compare
from evals.math.extraction import Extraction, extract
from evals.math.golds import Gold, canonical_gold
from evals.math.grader import MathGrader
from evals.math.problems import SCHEMAS, load_math

PAIRS = Path(__file__).parents[1] / "evals" / "data" / "math_pairs.jsonl"


@dataclass(frozen=True)
class Pair:
    raw: str
    gold: Gold
    response: str
    correct: bool


def labelled(path: Path) -> list[Pair]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        Pair(
            row["gold"],
            canonical_gold(
                row["gold"],
                row.get("question", ""),
                measured=row["benchmark"] == "minerva_math",
            ),
            row["response"],
            row["correct"],
        )
        for row in rows
    ]


def crossed(folder: Path) -> list[Pair]:
    """Golds as answers to their own problems and, where the golds differ, to the next ones."""
    pairs = []
    for name in SCHEMAS:
        rows = [json.loads(line) for line in (folder / name / "test.jsonl").open()]
        problems = load_math(name, rows)
        for one, other in zip(problems, problems[1:] + problems[:1], strict=True):
            pairs.append(Pair(one.gold.text, one.gold, boxed(one.gold), True))
            if one.gold.text != other.gold.text:
                pairs.append(Pair(one.gold.text, one.gold, boxed(other.gold), False))
    return pairs


def boxed(gold: Gold) -> str:
    return f"So the answer is $\\boxed{{{gold.text}}}$."


def last_box(response: str) -> Extraction:
    """The last balanced box alone; without one the whole response."""
    found = extract(response[max(0, response.rfind("\\boxed")) :])
    return found if found.rule == "box" else Extraction(response, "response")


def math_verify(pair: Pair) -> bool:
    from math_verify import parse, verify

    found = last_box(pair.response)
    answer = f"\\boxed{{{found.text}}}" if found.rule == "box" else pair.response
    return bool(verify(parse(f"\\boxed{{{pair.raw}}}"), parse(answer)))


def cpu() -> float:
    """Processor seconds of this process and of its children that ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def timed(name: str, pairs: list[Pair], judge: Callable[[list[Pair]], list[bool | None]]) -> None:
    begin, wall = cpu(), time.perf_counter()
    verdicts = judge(pairs)
    spent, wall = cpu() - begin, time.perf_counter() - wall
    right = sum(v == pair.correct for v, pair in zip(verdicts, pairs, strict=True))
    false = Counter(
        "false positives" if v else "false negatives"
        for v, pair in zip(verdicts, pairs, strict=True)
        if v != pair.correct
    )
    thousand = 1000 / len(pairs)
    print(
        f"{name:<28} {right}/{len(pairs)} agree ({right / len(pairs):.1%}) {dict(false)};"
        f" per 1,000: {spent * thousand:.2f} s processor, {wall * thousand:.2f} s wall"
    )


def ours(pairs: list[Pair]) -> list[bool | None]:
    with MathGrader() as grader:
        return [v.correct for v in grader.grade_many((p.gold, p.response) for p in pairs)]


def in_process(pairs: list[Pair]) -> list[bool | None]:
    """The own rules alone, without Math-Verify."""
    verdicts: list[bool | None] = []
    for pair in pairs:
        found = extract(pair.response, pair.gold.kind != "value")
        verdicts.append(
            found.text is not None and compare(pair.gold, found.text, lambda *_: False).equal
        )
    return verdicts


ABLATIONS: dict[str, dict[str, object]] = {
    "all own rules": {},
    "thousands separators": {"evals.math.equality.without_thousands": lambda text: text},
    "units": {"evals.math.values.without_unit": lambda text, words: (text, "")},
    "choice letters": {"evals.math.equality.choice": lambda text: (None, text)},
    "plus-minus": {"evals.math.equality.variants": lambda form, linked: [form]},
    "intervals of inequalities": {"evals.math.equality.interval": lambda relation: None},
    "equivalent equations": {"evals.math.equality.equivalent": lambda gold, answer: False},
    "values of equations": {"evals.math.equality.values_said": lambda *_, **__: iter(())},
    "argument letters": {"evals.math.equality.renamed_argument": lambda gold, answer: answer},
    "values at points": {"evals.math.values.equal": lambda gold, answer: None},
}


def ablations(pairs: list[Pair]) -> None:
    """Agreement of the own rules without each of them; then without golds and extraction."""
    from evals.math.formulas.forms import shape
    from evals.math.values import _tree

    print("| without the rule | agree |\n|---|---|")
    for name, patches in ABLATIONS.items():
        shape.cache_clear()
        _tree.cache_clear()
        with ExitStack() as stack:
            for target, put in patches.items():
                stack.enter_context(patch(target, put))
            verdicts = in_process(pairs)
        show(name, verdicts, pairs)
    raw = [Pair(p.raw, Gold(p.raw), p.response, p.correct) for p in pairs]
    show("canonical golds", in_process(raw), raw)
    verdicts = [
        compare(p.gold, last_box(p.response).text or "", lambda *_: False).equal for p in pairs
    ]
    show("extraction (last box only)", list(verdicts), pairs)


def show(name: str, verdicts: list[bool | None], pairs: list[Pair]) -> None:
    right = sum(v == p.correct for v, p in zip(verdicts, pairs, strict=True))
    print(f"| {name} | {right}/{len(pairs)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pairs", type=Path, default=PAIRS)
    parser.add_argument("--no-reference", action="store_true", help="leave Math-Verify out")
    options = parser.parse_args()
    sets = {"labelled pairs": labelled(options.pairs)}
    if options.data:
        sets["golds as answers"] = crossed(options.data)
    ablations(sets["labelled pairs"])
    for name, pairs in sets.items():
        print(f"{name}: {len(pairs)}", flush=True)
        timed("this package", pairs, ours)
        if not options.no_reference:
            timed("Math-Verify on the last box", pairs, lambda ps: [math_verify(p) for p in ps])


if __name__ == "__main__":
    main()
