"""Results of `evals run` as columns, which pandas, polars and Arrow all read."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from evals.results import FinishedRun, read_runs

Columns: TypeAlias = dict[str, list[Any]]
"""A table: equally long lists by name, as `pandas.DataFrame` and `polars.DataFrame` take it."""
_RESULT = ("adapter", "benchmark", "partial", "tasks", "samples", "solved", "rate", "low", "high")
_VERDICT = ("adapter", "benchmark", "id", "sample", "level", "correct", "reason", "extracted")


@dataclass(frozen=True)
class Results:
    """What finished runs found. results: a row an adapter and benchmark.

    verdicts: a row a sample: what was answered, and whether it is right.
    """

    results: Columns
    verdicts: Columns


def read_results(*folders: str | os.PathLike[str]) -> Results:
    """Read all finished runs in or below the folders, such as the `--out` of `evals run`.

    Raises EvalsError for a folder without any, and for one whose files are damaged.
    """
    runs = read_runs([Path(folder) for folder in folders])
    return Results(
        columns(map(_result, runs), _RESULT),
        columns((row for run in runs for row in _verdicts(run)), _VERDICT),
    )


def columns(rows: Iterable[Mapping[str, Any]], names: Sequence[str] = ()) -> Columns:
    """Return the columns of a table, None where a row has nothing.

    names: columns that come first, and exist without a row too. Numbers of a column are all whole
    or all floats, since polars wants one type.
    """
    plain = list(rows)
    order = dict.fromkeys((*names, *(name for row in plain for name in row)))
    return {name: _one_type([row.get(name) for row in plain]) for name in order}


def _one_type(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values}
    if {int, float} <= kinds <= {int, float, type(None)}:
        return [None if value is None else float(value) for value in values]
    return values


def _result(run: FinishedRun) -> dict[str, Any]:
    result, overall = run.result, dict(vars(run.result.overall))
    low, high = overall.pop("interval") or (None, None)
    return {
        "adapter": result.adapter,
        "benchmark": result.benchmark,
        "partial": result.partial,
        **overall,
        "low": low,
        "high": high,
        "base_rate": result.base_rate,
        **{f"rate_level_{level}": score.rate for level, score in result.levels.items()},
    }


def _verdicts(run: FinishedRun) -> Iterator[dict[str, Any]]:
    for verdict in run.verdicts:
        sample = run.samples[verdict.id, verdict.sample]
        own = {name: value for name, value in vars(verdict).items() if name != "details"}
        yield {
            "adapter": run.result.adapter,
            "benchmark": run.result.benchmark,
            **own,
            **{f"details/{name}": value for name, value in verdict.details.items()},
            "tokens": sample.tokens,
            "response": sample.response,
            "prompt": run.prompts.get(verdict.id),
        }
