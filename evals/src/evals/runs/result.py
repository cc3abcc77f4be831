"""Scores of one adapter on one benchmark, overall and per level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.benchmarks.benchmark import Judgement
from evals.errors import EvalsError
from evals.metrics.wilson import wilson

Settings = dict[str, Any]


@dataclass(frozen=True)
class Score:
    """Counts and rates of a group of samples.

    solved: right samples. rate: solved / (samples - ungraded), None when nothing was graded; with
    n samples a task it is the mean over tasks of the share of right samples (avg@n, which is
    pass@1). interval: 95 % Wilson interval of the rate, counting tasks, not samples (samples of
    one task are not independent, so with n > 1 it is too wide rather than too narrow).
    ill_formed, truncated: shares of all samples. ungraded: samples on which the sandbox failed.
    """

    tasks: int
    samples: int
    solved: int
    rate: float | None
    interval: tuple[float, float]
    ill_formed: float
    truncated: float
    ungraded: int


@dataclass(frozen=True)
class Result:
    """What `result.json` holds. adapter is `base` for the base model alone.

    partial: not all questions of the benchmark were asked. base_rate: share that passes the base
    tests, of HumanEval+ and MBPP+. versions: of the packages that ran.
    """

    adapter: str
    benchmark: str
    partial: bool
    overall: Score
    levels: Mapping[int, Score]
    settings: Settings
    versions: Mapping[str, str]
    base_rate: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The object of `result.json`."""
        return {
            "adapter": self.adapter,
            "benchmark": self.benchmark,
            "partial": self.partial,
            "overall": _to_dict(self.overall),
            "levels": {str(level): _to_dict(score) for level, score in self.levels.items()},
            "base_rate": self.base_rate,
            "settings": self.settings,
            "versions": dict(self.versions),
        }

    @classmethod
    def from_dict(cls, row: Any) -> "Result":
        """Read the object of a `result.json`. Raises EvalsError when it is not one."""
        try:
            return cls(
                adapter=str(row["adapter"]),
                benchmark=str(row["benchmark"]),
                partial=bool(row["partial"]),
                overall=_from_dict(row["overall"]),
                levels={int(level): _from_dict(found) for level, found in row["levels"].items()},
                settings=dict(row["settings"]),
                versions=dict(row["versions"]),
                base_rate=row.get("base_rate"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EvalsError(f"it is not a result of `evals run` ({error!r})") from error


def score(judgements: Sequence[Judgement]) -> Score:
    """Count a group of judgements."""
    samples = len(judgements)
    graded = [item for item in judgements if item.correct is not None]
    solved = sum(1 for item in graded if item.correct)
    rate = solved / len(graded) if graded else None
    tasks = len({item.id for item in judgements})
    return Score(
        tasks=tasks,
        samples=samples,
        solved=solved,
        rate=rate,
        interval=wilson(rate or 0.0, len({item.id for item in graded})),
        ill_formed=_share(sum(not item.well_formed for item in judgements), samples),
        truncated=_share(sum(item.truncated for item in judgements), samples),
        ungraded=samples - len(graded),
    )


def score_levels(judgements: Sequence[Judgement]) -> dict[int, Score]:
    """Scores per level, easiest first; none where there are no levels."""
    levels = sorted({item.level for item in judgements} - {0})
    return {level: score([j for j in judgements if j.level == level]) for level in levels}


def base_rate(judgements: Sequence[Judgement]) -> float | None:
    """Share of samples that pass the base tests; None where a benchmark has no such tests."""
    found = [item.details["base"] for item in judgements if item.details.get("base") is not None]
    return _share(found.count("pass"), len(found)) if found else None


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _to_dict(found: Score) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in ((name, getattr(found, name)) for name in Score.__dataclass_fields__)
    }


def _from_dict(row: Any) -> Score:
    low, high = row["interval"]
    return Score(
        tasks=int(row["tasks"]),
        samples=int(row["samples"]),
        solved=int(row["solved"]),
        rate=None if row["rate"] is None else float(row["rate"]),
        interval=(float(low), float(high)),
        ill_formed=float(row["ill_formed"]),
        truncated=float(row["truncated"]),
        ungraded=int(row["ungraded"]),
    )
