"""Published benchmark data, prompts and samples, read by the code that reads them for users.

Give it a folder with NAME/FILE for the benchmarks and `samples/` of other harnesses:

    python tests/benchmarks/benchmark_data.py DATA

It prints, for every file, rows, what they are known to be, seconds and the length of the prompts of
every recipe; for every file of samples, what it was recognised as; and the table that the other
harnesses' own verdicts give, with intervals.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from evals.errors import EvalsError
from evals.foreign.read import read_foreign
from evals.foreign.sample import ForeignSample
from evals.metrics.counts import Verdicts
from evals.metrics.paired import compare
from evals.recipes.render import RECIPES, render
from evals.sources.load import load_source
from evals.sources.official import OFFICIAL
from evals.sources.source import Row
from evals.tables.table import build_table
from evals.tables.text import to_text

FIELDS = {
    "prompt": ("prompt",),
    "question": ("question_content", "question", "problem"),
    "starter_code": ("starter_code",),
}


class Turns:
    """A tokenizer's chat template in its simplest form."""

    chat_template: object = "turns"

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        return "\n".join(turn["content"] for turn in conversation)


def fields(row: Row) -> dict[str, str]:
    """A row's texts under the names that prompts use."""
    found = {name: next((row[k] for k in keys if k in row), None) for name, keys in FIELDS.items()}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def show_data(folder: Path) -> None:
    for benchmark in OFFICIAL:
        for path in sorted((folder / benchmark).glob("*.json*")):
            start = time.perf_counter()
            try:
                source = load_source(benchmark, path)
            except EvalsError as error:
                print(f"{benchmark}/{path.name}: {error}")
                continue
            seconds = time.perf_counter() - start
            print(f"{benchmark}/{path.name}: {source.count} rows in {seconds:.2f} s")
            print(f"    sha256 {source.sha256[:16]}; {'; '.join(source.notes)}")
            for recipe in RECIPES.values():
                if benchmark in recipe.templates:
                    print(f"    {recipe.name}: {prompts(recipe.name, benchmark, source.rows)}")


def prompts(recipe: str, benchmark: str, rows: Sequence[Row]) -> str:
    """Characters of all prompts, or why there are none."""
    try:
        texts = [render(RECIPES[recipe], benchmark, fields(row), Turns()) for row in rows]
    except EvalsError as error:
        return str(error)
    lengths = [len(text) for text in texts]
    return f"median {statistics.median(lengths):.0f}, longest {max(lengths)} characters"


def verdicts(samples: tuple[ForeignSample, ...], claim: str) -> Verdicts:
    """The harness' own verdicts; a sample without one is not graded."""
    found: dict[str, list[bool | None]] = {}
    for sample in samples:
        told = sample.claims.get(claim)
        known = None if told is None else told in (True, "pass")
        found.setdefault(sample.id, []).append(known)
    return found


def show_samples(folder: Path) -> None:
    results: dict[str, dict[str, Verdicts]] = {}
    for path in sorted(folder.iterdir()):
        start = time.perf_counter()
        found = read_foreign(path)
        seconds = time.perf_counter() - start
        print(f"{path.name}: {len(found.samples)} samples of {found.harness} in {seconds:.2f} s")
        names = sorted(found.samples[0].claims)
        for claim in (name for name in names if name == "graded" or name.endswith("_status")):
            benchmark = {"H": "humaneval_plus", "M": "mbpp_plus"}.get(
                found.samples[0].id[0] if found.harness == "evalplus" else "", "livecodebench"
            )
            results.setdefault(claim, {})[benchmark] = verdicts(found.samples, claim)
    print(to_text(build_table(results), intervals=True))
    for benchmark in ("humaneval_plus", "mbpp_plus"):
        pair = [results.get(name, {}).get(benchmark) for name in ("base_status", "plus_status")]
        if pair[0] is not None and pair[1] is not None:
            print(f"{benchmark}, base minus plus: {compare(pair[0], pair[1]).to_dict()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="folder of the benchmarks' files")
    data = parser.parse_args().data
    show_data(data)
    if (data / "samples").is_dir():
        show_samples(data / "samples")


if __name__ == "__main__":
    main()
