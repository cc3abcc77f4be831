"""The whole page of a set of programs, and its charts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from code_verifier.metrics.diversity import Coverage, coverage_of
from code_verifier.metrics.measurement import NUMBERS, Metrics
from code_verifier.metrics.summary import Window, quantile, summarise, windows
from code_verifier.page.extra import extra_report
from code_verifier.page.words import MEANING, number, plural

if TYPE_CHECKING:
    from code_verifier.page.frame import Charts

_FRACTIONAL = ("halstead_volume", "halstead_effort")
_EXAMPLE_LINES = 40
_EXAMPLE_CHARS = 3000


@dataclass(frozen=True, slots=True)
class Gathered:
    """Measured programs in the order of their file."""

    name: str
    metrics: list[Metrics] = field(default_factory=list)
    steps: list[float | None] = field(default_factory=list)
    """The step of each, or None."""
    examples: dict[str, str] = field(default_factory=dict)
    """The first program of each structure."""

    @property
    def windows(self) -> list[Window]:
        """Stretches of the steps; none where all programs are of one step."""
        dated = [(m, s) for m, s in zip(self.metrics, self.steps, strict=True) if s is not None]
        if len({step for _, step in dated}) < 2:
            return []
        return list(windows([item for item, _ in dated], [step for _, step in dated]))

    @property
    def coverage(self) -> Coverage:
        """The variety of their structures."""
        return coverage_of([item.structure for item in self.metrics])

    def values(self, metric: str) -> list[float]:
        """A number of every program, sorted."""
        return sorted(float(getattr(item, metric)) for item in self.metrics)


def charts_of(gathered: Gathered) -> Charts:
    """Every chart of the page by name. Raises `CodeVerifierError` without the extra `report`."""
    with extra_report():
        from code_verifier.page.charts import evenness, growth, histogram, trend, variety
    if not gathered.metrics:
        return {}
    found, stretches = gathered.coverage, gathered.windows
    counts = sorted(Counter(item.structure for item in gathered.metrics).values(), reverse=True)
    charts = {"growth": growth(found), "evenness": evenness(found, counts)}
    if stretches:
        charts["variety"] = variety(stretches)
    for metric in NUMBERS:
        values, title = gathered.values(metric), MEANING[metric][0].lower()
        ends = [("", quantile(values, 0.05)), ("", quantile(values, 0.95))]
        marks = [("median", quantile(values, 0.5)), *(ends if ends[0] != ends[1] else [])]
        charts[metric] = histogram(values, metric not in _FRACTIONAL, marks, title)
        if stretches:
            charts[f"trend-{metric}"] = trend(stretches, metric)
    return charts


def render(gathered: Gathered, unparsed: int = 0) -> str:
    """The page as one HTML text that works offline, every program text escaped.

    unparsed: rows whose program could not be measured. Raises `CodeVerifierError` without the
    extra `report`.
    """
    with extra_report():
        from code_verifier.page.frame import Listing, written
    if not gathered.metrics:
        return written("empty.html", {}, name=gathered.name, left_out=plural(unparsed, "row"))
    found, stretches = gathered.coverage, gathered.windows
    numbers = summarise(gathered.metrics)
    names = {"p0": "least", "p50": "median", "p100": "most"}
    return written(
        "programs.html",
        charts_of(gathered),
        name=gathered.name,
        found=found,
        unparsed=unparsed,
        medians={m: number(quantile(gathered.values(m), 0.5)) for m in NUMBERS},
        panels=[(m, MEANING[m][0], _span(gathered.values(m), MEANING[m][1])) for m in NUMBERS],
        trends=[
            (
                f"trend-{m}",
                MEANING[m][0],
                f"{MEANING[m][1]} Median {number(first)} at first, {number(last)} at last.",
            )
            for m in (NUMBERS if stretches else ())
            for first, last in [(stretches[0].bands[m][1], stretches[-1].bands[m][1])]
        ],
        repeated=[
            (
                plural(item.count, "program"),
                100 * item.count / found.programs,
                item.key,
                _cut(gathered.examples.get(item.key, item.example)),
            )
            for item in found.repeated
        ],
        table=Listing(
            ("", *(names.get(name, name) for name in next(iter(numbers.values())))),
            [(MEANING[m][0], *map(number, row.values())) for m, row in numbers.items()],
        ),
        number=number,
    )


def _span(values: list[float], sentence: str) -> str:
    low, middle, high = (number(quantile(values, share)) for share in (0.05, 0.5, 0.95))
    return (
        f"{sentence} Median {middle}, nine tenths from {low} to {high}, "
        f"all from {number(values[0])} to {number(values[-1])}."
    )


def _cut(example: str) -> str:
    lines = example[:_EXAMPLE_CHARS].split("\n")
    cut = len(lines) > _EXAMPLE_LINES or len(example) > _EXAMPLE_CHARS
    return "\n".join([*lines[:_EXAMPLE_LINES], *(["..."] if cut else [])])
