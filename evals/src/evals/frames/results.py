"""Results of `evals run` as tables for a notebook."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.frames.columns import Columns, columns
from evals.report.scored_run import ScoredRun, read_scored

RESULT = ("adapter", "benchmark", "partial", "tasks", "samples", "solved", "rate", "low", "high")
VERDICT = ("adapter", "benchmark", "id", "sample", "level", "correct", "reason", "extracted")


@dataclass(frozen=True)
class Results:
    """What finished runs found; docs/frames.md says what each column is."""

    results: Columns
    """A row an adapter and benchmark."""
    verdicts: Columns
    """A row a sample: what was answered, and whether it is right."""


def read_results(*folders: str | os.PathLike[str]) -> Results:
    """Read all finished runs in or below the folders, such as the `--out` of `evals run`.

    Raises EvalsError for a folder without any, and for one whose files are damaged.
    """
    runs = read_scored([Path(folder) for folder in folders])
    return Results(
        columns((_result(run) for run in runs), RESULT),
        columns((row for run in runs for row in _verdicts(run)), VERDICT),
    )


def _result(run: ScoredRun) -> dict[str, Any]:
    result, overall = run.result, run.result.overall
    low, high = overall.interval
    rates = {f"rate_level_{level}": score.rate for level, score in result.levels.items()}
    return {
        "adapter": result.adapter,
        "benchmark": result.benchmark,
        "partial": result.partial,
        "tasks": overall.tasks,
        "samples": overall.samples,
        "solved": overall.solved,
        "rate": overall.rate,
        "low": low,
        "high": high,
        "base_rate": result.base_rate,
        "ill_formed": overall.ill_formed,
        "truncated": overall.truncated,
        "ungraded": overall.ungraded,
        **rates,
    }


def _verdicts(run: ScoredRun) -> list[dict[str, Any]]:
    return [
        {
            "adapter": run.result.adapter,
            "benchmark": run.result.benchmark,
            "id": verdict.id,
            "sample": verdict.sample,
            "level": verdict.level,
            "correct": verdict.correct,
            "reason": verdict.reason,
            "extracted": verdict.extracted,
            "truncated": verdict.truncated,
            "tokens": run.samples[verdict.id, verdict.sample].tokens,
            "response": run.samples[verdict.id, verdict.sample].response,
            "prompt": run.prompts.get(verdict.id),
            "details": verdict.details,
        }
        for verdict in run.verdicts
    ]
