"""Charts of finished runs: scores with intervals, questions solved, lengths of responses."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import altair as alt

from code_verifier.page.frame import Charts
from code_verifier.report import curves
from evals.report.scored_run import ScoredRun, by_benchmark

BINS = 12


def score_charts(runs: Sequence[ScoredRun]) -> Charts:
    """Return every chart of the page by name; two for each benchmark, named by `chart_names`."""
    groups = by_benchmark(runs)
    charts: dict[str, alt.TopLevelMixin] = {"scores": scores(runs)}
    for (_, solved_name, lengths_name), found in zip(
        chart_names(runs), groups.values(), strict=True
    ):
        charts[solved_name] = questions_solved(found)
        charts[lengths_name] = response_lengths(found)
    return charts


def chart_names(runs: Sequence[ScoredRun]) -> list[tuple[str, str, str]]:
    """Every benchmark with the names of its two charts, which are good names of files, too."""
    found = []
    for i, name in enumerate(by_benchmark(runs), 1):
        place = f"{i}-{re.sub('[^A-Za-z0-9_-]+', '-', name)}"
        found.append((name, f"solved-{place}", f"lengths-{place}"))
    return found


def scores(runs: Sequence[ScoredRun]) -> alt.LayerChart:
    """Return the rate of every adapter on every benchmark, with its 95 % interval."""
    named = [
        (name, adapter, run.result.overall)
        for name, found in by_benchmark(runs).items()
        for adapter, run in zip(_adapters(found), found, strict=True)
    ]
    rows = [
        {"benchmark": name, "adapter": adapter, "solved": score.rate}
        | {"low": score.interval[0], "high": score.interval[1], "tasks": score.tasks}
        for name, adapter, score in named
    ]
    adapters = list(dict.fromkeys(adapter for _, adapter, _ in named))
    pick = alt.selection_point(name="pick", fields=["adapter"], bind="legend")
    tips = [alt.Tooltip(f"{f}:Q", format=".1%") for f in ("solved", "low", "high")]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("benchmark:N", sort=None, title=None, axis=alt.Axis(labelLimit=160)),
        yOffset=alt.YOffset("adapter:N", sort=adapters),
        color=alt.Color("adapter:N", sort=adapters, legend=alt.Legend(title=None)),
        opacity=alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.1)),
        tooltip=["benchmark:N", "adapter:N", *tips, "tasks:Q"],
    )
    low, rate = (alt.X(f"{f}:Q", title=None, axis=_SHARE) for f in ("low", "solved"))
    bar = base.mark_bar(height=3, cornerRadius=2).encode(x=low, x2="high:Q").add_params(pick)
    dot = base.mark_point(filled=True, size=55).encode(x=rate)
    return alt.LayerChart(layer=[bar, dot]).properties(
        width=900,
        height=alt.Step(12, **{"for": "offset"}),
        description="Share of samples that are right, with 95 % intervals",
    )


def questions_solved(found: Sequence[ScoredRun]) -> alt.Chart:
    """Return every question of one benchmark for every adapter, the stronger the more are right.

    found: runs of the same benchmark. A question that was not judged is red.
    """
    ids = dict.fromkeys(verdict.id for run in found for verdict in run.verdicts)
    rows = [
        {"adapter": name, "from": at, "to": at + 0.9, "question": question, "solved": rate}
        for name, run in zip(_adapters(found), found, strict=True)
        for rates in [run.rates]
        for at, question in enumerate(ids)
        for rate in [rates.get(question)]
    ]
    scale = alt.Scale(domain=[0, max(1, len(ids))], nice=False)
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("from:Q", axis=None, scale=scale),
            x2="to:Q",
            y=alt.Y("adapter:N", sort=None, title=None, axis=_NAMES, scale=_GAPS),
            color=alt.condition("datum.solved === null", alt.value("#c0473a"), alt.value(_BLUE)),
            opacity=alt.Opacity(
                "solved:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.12, 1])
            ),
            tooltip=["question:N", "adapter:N", alt.Tooltip("solved:Q", format=".0%")],
        )
        .properties(width=900, height=alt.Step(22), description="Questions solved by each adapter")
    )
    return chart


def response_lengths(found: Sequence[ScoredRun]) -> alt.LayerChart:
    """Return how many responses of each adapter have how many tokens.

    found: runs of the same benchmark. A point stands at the middle of its bin.
    """
    bins = length_bins(found)
    lines = {
        name: [((first + last) / 2, float(count)) for first, last, count in counts]
        for name, counts in bins.items()
    }
    width = next((last - first + 1 for counts in bins.values() for first, last, _ in counts), 1)
    about = "Samples by the length of their response"
    return curves(lines, f"tokens, in steps of {width}", about).properties(width=900)


def length_bins(found: Sequence[ScoredRun]) -> dict[str, list[tuple[int, int, int]]]:
    """Samples by length in tokens, for each adapter: (first, last, count) of equal bins."""
    tokens = {
        name: [s.tokens for s in run.samples.values() if s.tokens is not None]
        for name, run in zip(_adapters(found), found, strict=True)
    }
    longest = max((max(known, default=0) for known in tokens.values()), default=0)
    width = max(1, math.ceil((longest + 1) / BINS))
    counts = {name: Counter(n // width for n in known) for name, known in tokens.items()}
    return {
        name: [(i * width, (i + 1) * width - 1, count[i]) for i in range(longest // width + 1)]
        for name, count in counts.items()
    }


def _adapters(found: Sequence[ScoredRun]) -> list[str]:
    """A name for each run of one benchmark; runs of one adapter are numbered from the second on."""
    seen: Counter[str] = Counter()
    names = []
    for run in found:
        name = run.result.adapter
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


_SHARE = alt.Axis(format="%", tickCount=6, labelOverlap=True)
_NAMES = alt.Axis(labelLimit=160, domain=False, ticks=False)
_GAPS = alt.Scale(paddingInner=0.1)
_BLUE = "#2f6fde"
