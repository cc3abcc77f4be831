"""Finished runs as a page shows them: result, samples, verdicts and prompts of each folder."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from evals.benchmarks.benchmark import Judgement, Sample
from evals.errors import EvalsError
from evals.runs.records import read_prompts, read_samples, read_verdicts
from evals.runs.result import Result
from evals.runs.results_table import find_result_files
from evals.runs.run_folder import read_result


@dataclass(frozen=True)
class ScoredRun:
    """One adapter on one benchmark."""

    result: Result
    samples: dict[tuple[str, int], Sample]
    verdicts: tuple[Judgement, ...]
    prompts: dict[str, str]

    @property
    def rates(self) -> dict[str, float]:
        """Share of right samples of every question of which one was judged."""
        found: dict[str, list[bool]] = {}
        for verdict in self.verdicts:
            if verdict.correct is not None:
                found.setdefault(verdict.id, []).append(verdict.correct)
        return {question: fmean(right) for question, right in found.items()}


def read_scored(folders: Iterable[Path]) -> list[ScoredRun]:
    """Read all finished runs in or below the folders.

    Raises EvalsError for a folder without any, and for one whose files do not fit together.
    """
    return [_scored(path.parent) for path in find_result_files(folders)]


def _scored(folder: Path) -> ScoredRun:
    samples = {(s.id, s.sample): s for s in read_samples(folder / "samples.jsonl")}
    verdicts = tuple(read_verdicts(folder / "verdicts.jsonl"))
    strange = next((v for v in verdicts if (v.id, v.sample) not in samples), None)
    if strange is not None:
        raise EvalsError(
            f"{folder} has a verdict on sample {strange.sample} of {strange.id}, but no such "
            "sample; finish it with `evals run`"
        )
    result = read_result(folder / "result.json")
    return ScoredRun(result, samples, verdicts, read_prompts(folder / "prompts.jsonl"))


def by_benchmark(runs: Sequence[ScoredRun]) -> dict[str, list[ScoredRun]]:
    """The runs of each benchmark, in the order in which they were read."""
    found: dict[str, list[ScoredRun]] = {}
    for run in runs:
        found.setdefault(run.result.benchmark, []).append(run)
    return found
