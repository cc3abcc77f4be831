"""Scores of one adapter on one benchmark, and finished runs: as objects and as columns."""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from evals.benchmark import Outcome, Sample, Verdict
from evals.errors import EvalsError
from evals.members import Group, role_of
from evals.metrics import Verdicts, estimate
from evals.records import read_prompts, read_samples, read_verdicts
from evals.sources import OFFICIAL

RESULT_FILE = "result.json"
Settings = dict[str, Any]


@dataclass(frozen=True)
class Score:
    """Counts and rates of a group of samples.

    solved: right samples. rate: the mean over tasks of the share of right samples (avg@n, which is
    pass@1), and interval its 95 % interval over tasks; both None when nothing was graded.
    ill_formed, truncated: shares of all samples. ungraded: samples on which the sandbox failed.
    """

    tasks: int
    samples: int
    solved: int
    rate: float | None
    interval: tuple[float, float] | None
    ill_formed: float
    truncated: float
    ungraded: int


@dataclass(frozen=True)
class Result:
    """What `result.json` holds. adapter is `base` for the base model alone.

    partial: not all questions of the benchmark were asked. base_rate: share that passes the base
    tests, of HumanEval+ and MBPP+. versions: of the packages that ran. group: the role and the run
    of a member of a selfplay run.
    """

    adapter: str
    benchmark: str
    partial: bool
    overall: Score
    levels: Mapping[int, Score]
    settings: Settings
    versions: Mapping[str, str]
    base_rate: float | None = None
    group: Group | None = None


@dataclass(frozen=True)
class FinishedRun:
    """One adapter on one benchmark, as its folder holds it."""

    folder: Path
    result: Result
    samples: Mapping[tuple[str, int], Sample]
    verdicts: tuple[Verdict, ...]
    prompts: Mapping[str, str]


def read_runs(
    folders: Iterable[Path], unreadable: Callable[[str], None] | None = None
) -> list[FinishedRun]:
    """Read all finished runs in or below the folders, by path.

    Raises EvalsError for a folder without any, and for one whose files do not fit together; where
    `unreadable` takes the reason, such a run is left out, as long as another one can be read.
    """
    places: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise EvalsError(f"there is no folder {folder}; expected the --out of `evals run`")
        paths = sorted(folder.rglob(RESULT_FILE))
        if not paths:
            raise EvalsError(
                f"{folder} holds no finished result ({RESULT_FILE}); finish it with `evals run`"
            )
        places.update((path.resolve().parent, None) for path in paths)
    runs = []
    for at, folder in enumerate(places, start=1):
        try:
            runs.append(_read_run(folder))
        except EvalsError as error:
            if unreadable is None or (at == len(places) and not runs):
                raise
            unreadable(str(error))
    return runs


def read_result(path: Path) -> Result:
    """Read a `result.json`. Raises EvalsError, naming the file, when it is not one.

    One without a `group` takes the role that runs give by the adapter's name, such as s0.
    """
    try:
        row = json.loads(path.read_bytes())
        levels = {int(level): _score(part) for level, part in row["levels"].items()}
        role = role_of(row["adapter"])
        group = row.get("group", role and {"role": role})
        row |= {"overall": _score(row["overall"]), "levels": levels}
        return Result(**row | {"group": group and Group(**group)})
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise EvalsError(
            f"{path} is damaged, or not a result of `evals run` ({error!r})"
        ) from error


def score(verdicts: Sequence[Verdict], benchmark: str) -> Score:
    """Count verdicts on samples of a benchmark."""
    samples = len(verdicts)
    graded = [item for item in verdicts if item.correct is not None]
    measured = estimate(by_question(graded), benchmark) if graded else None
    return Score(
        tasks=len({item.id for item in verdicts}),
        samples=samples,
        solved=sum(1 for item in graded if item.correct),
        rate=measured.value if measured else None,
        interval=measured.interval if measured else None,
        ill_formed=sum(not item.well_formed for item in verdicts) / max(1, samples),
        truncated=sum(item.truncated for item in verdicts) / max(1, samples),
        ungraded=samples - len(graded),
    )


def score_levels(verdicts: Sequence[Verdict], benchmark: str) -> dict[int, Score]:
    """Return scores per level, easiest first; none where there are no levels."""
    levels = sorted({item.level for item in verdicts} - {0})
    return {level: score([v for v in verdicts if v.level == level], benchmark) for level in levels}


def base_rate(verdicts: Sequence[Verdict]) -> float | None:
    """Return the share of samples that pass the base tests; None where there are no such tests."""
    statuses = [item.details["base"] for item in verdicts if item.details.get("base") is not None]
    return statuses.count(Outcome.PASS) / len(statuses) if statuses else None


def by_question(verdicts: Iterable[Verdict]) -> Verdicts:
    """Return the verdicts on the samples of every question."""
    questions: dict[str, list[bool | None]] = defaultdict(list)
    for verdict in verdicts:
        questions[verdict.id].append(verdict.correct)
    return questions


def evalplus_samples(runs: Sequence[FinishedRun]) -> str:
    """Return the samples of one run on HumanEval+ or MBPP+ as evalplus' `samples.jsonl`.

    A row is {"task_id", "solution"}: the program that was graded, or, where none was found, the
    response. Raises EvalsError for several runs, and for another benchmark.
    """
    first, *others = dict.fromkeys(f"{r.result.adapter} on {r.result.benchmark}" for r in runs)
    if others:
        raise EvalsError(
            f"found {len(others) + 1} results ({first}, {others[0]} ...), and the format holds "
            "one; name its folder below the --out of `evals run`"
        )
    (run,) = runs
    known = OFFICIAL.get(run.result.benchmark)
    if known is None or known.cache is None:
        raise EvalsError(
            f"evalplus has no {run.result.benchmark}; it has humaneval_plus, mbpp_plus"
        )
    rows = [
        {"task_id": verdict.id, "solution": verdict.extracted or sample.solution or sample.response}
        for verdict in run.verdicts
        for sample in [run.samples[verdict.id, verdict.sample]]
    ]
    return "\n".join(map(json.dumps, rows))


def _read_run(folder: Path) -> FinishedRun:
    samples = {(s.id, s.sample): s for s in read_samples(folder / "samples.jsonl")}
    verdicts = tuple(read_verdicts(folder / "verdicts.jsonl"))
    strange = next((v for v in verdicts if (v.id, v.sample) not in samples), None)
    if strange is not None:
        raise EvalsError(
            f"{folder} has a verdict on sample {strange.sample} of {strange.id}, but no such "
            "sample; finish it with `evals run`"
        )
    result = read_result(folder / RESULT_FILE)
    return FinishedRun(folder, result, samples, verdicts, read_prompts(folder / "prompts.jsonl"))


def _score(row: Any) -> Score:
    interval = row["interval"]
    return Score(**row | {"interval": None if interval is None else tuple(interval)})


Columns: TypeAlias = dict[str, list[Any]]
"""A table: equally long lists by name, as `pandas.DataFrame` and `polars.DataFrame` take it."""
_COUNTS = ("partial", "tasks", "samples", "solved", "rate", "low", "high")
_RESULT = ("adapter", "role", "run", "benchmark", *_COUNTS)
_VERDICT = ("adapter", "benchmark", "id", "sample", "level", "correct", "reason", "extracted")


@dataclass(frozen=True, repr=False)
class Results:
    """What finished runs found. results: a row an adapter and benchmark.

    verdicts: a row a sample: what was answered, and whether it is right.
    """

    results: Columns
    verdicts: Columns

    def __repr__(self) -> str:
        return (
            f"Results(results: {len(self.results['adapter'])} rows, "
            f"verdicts: {len(self.verdicts['adapter'])} rows)"
        )


def read_results(*folders: str | os.PathLike[str]) -> Results:
    """Read all finished runs in or below the folders, such as the `--out` of `evals run`.

    Raises EvalsError for a folder without any, and for one whose files are damaged.

        >>> import pandas
        >>> table = pandas.DataFrame(read_results("scores").results)
        >>> table.groupby(["role", "benchmark"]).rate.mean()
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
        **(asdict(result.group) if result.group else {}),
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
        fields = {name: value for name, value in vars(verdict).items() if name != "details"}
        yield {
            "adapter": run.result.adapter,
            "benchmark": run.result.benchmark,
            **fields,
            **{f"details/{name}": value for name, value in verdict.details.items()},
            "tokens": sample.tokens,
            "response": sample.response,
            "prompt": run.prompts.get(verdict.id),
        }
