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
    """Return the columns of a table.

    A mapping in a row becomes columns of its own, `outer/inner`, all None in rows that have nothing
    there; a tuple becomes a list. names: columns that come first, and exist without a row too.
    Where a row has nothing, there is None. Numbers of a column are all whole or all floats, since
    polars wants one type.
    """
    plain = [dict(flattened(row)) for row in rows]
    order = dict.fromkeys((*names, *(name for row in plain for name in row)))
    outer = {name[:end] for name in order for end, mark in enumerate(name) if mark == "/"}
    return {
        name: _one_type([row.get(name) for row in plain]) for name in order if name not in outer
    }


def flattened(row: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that is no mapping, as `outer/inner`; a tuple as a list."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{above}{name}/")
        else:
            yield f"{above}{name}", list(value) if isinstance(value, tuple) else value


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
        yield {
            "adapter": run.result.adapter,
            "benchmark": run.result.benchmark,
            **vars(verdict),
            "tokens": sample.tokens,
            "response": sample.response,
            "prompt": run.prompts.get(verdict.id),
        }
