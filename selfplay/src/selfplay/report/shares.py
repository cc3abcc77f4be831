"""Parts of a whole over steps: stacked columns for rejections and solve rates, a bar for time."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt

from league.drawing.words import Listing
from selfplay.records.step_row import StepRow
from selfplay.report.reading.run_data import RHO_BINS, Run
from selfplay.report.reading.worker_times import WorkerTime
from selfplay.report.times import phase_seconds
from selfplay.report.words import duration, figure

COLUMNS = 40
_RHO_COLOURS = ["#b3541e", "#2b4f8c", "#4f7fb5", "#82aed3", "#bcd6ea", "#e3a23a"]


def rejected(run: Run) -> alt.LayerChart | None:
    """Return why proposals were rejected, as shares of all proposals of a span of steps."""
    totals: Counter[str] = Counter()
    for step in run.steps:
        totals.update(step.rejected)
    reasons = [reason for reason, count in totals.most_common() if count]
    names = [*reasons[:6], *(["other"] if reasons[6:] else [])]
    columns = []
    for steps in _spans(run.steps):
        counts: Counter[str] = Counter()
        for step in steps:
            for reason, count in step.rejected.items():
                counts["other" if reason in reasons[6:] else reason] += count
        proposed = sum(kind.proposed for step in steps for kind in step.kinds.values())
        columns.append((steps, [counts[name] for name in names], max(proposed, counts.total())))
    return _stack("Rejected proposals", "% of proposals", names, columns) if names else None


def task_shares(run: Run) -> alt.LayerChart | None:
    """Return the histogram of rho, the share of right attempts at a task, over steps."""
    columns = []
    for steps in _spans(run.steps):
        counts = [
            sum(step.rho[i] for step in steps if step.rho is not None) for i in range(len(RHO_BINS))
        ]
        columns.append((steps, counts, sum(counts)))
    if not any(whole for _, _, whole in columns):
        return None
    names = [f"ρ {name}" if "to" in name else f"ρ = {name}" for name in RHO_BINS]
    return _stack("Solve rate of the tasks", "% of valid tasks", names, columns, _RHO_COLOURS)


def phases(run: Run) -> alt.LayerChart | None:
    """Return the share of the time that each phase of the steps took."""
    totals = phase_seconds(run)
    whole, start, rows = sum(totals.values()), 0.0, []
    for name, seconds in totals.items() if whole > 0 else ():
        said = f"{duration(seconds)} ({figure(seconds / whole, share=True)})"
        rows.append({"name": name, "low": start, "high": start + seconds / whole, "said": said})
        start += seconds / whole
    if not rows:
        return None
    colour = alt.Color("name:N", sort=list(totals), legend=alt.Legend(title=None))
    bar = alt.Chart(alt.InlineData(values=rows)).mark_bar(height=24)
    bar = bar.encode(x=alt.X("low:Q", axis=None), x2="high:Q", color=colour, tooltip=_TIPS[:2])
    return alt.LayerChart(layer=[bar]).properties(
        width=480, height=30, description="Share of time per phase"
    )


def phase_table(run: Run) -> Listing:
    """Return seconds per phase over the whole run, their share, and seconds a step."""
    totals, steps = phase_seconds(run), len(run.steps)
    whole = sum(totals.values())
    rows: list[Sequence[object]] = [
        (name, duration(s), figure(s / whole, share=True), f"{s / steps:.2f} s")
        for name, s in totals.items()
        if whole > 0
    ]
    total = ("all", duration(whole), "", f"{whole / steps:.2f} s")
    return Listing(("phase", "total", "share", "per step"), [*rows, total])


def worker_table(times: Sequence[WorkerTime]) -> Listing:
    """Return how long each worker worked and was idle, and the most memory that it took."""
    head = ("worker", "machine", "members", "steps", "working", "idle", "memory")
    rows = [
        (
            time.name,
            time.host,
            " ".join(time.members),
            time.steps,
            figure(time.share, share=True),
            figure(1.0 - time.share, share=True),
            f"{time.memory_mb:,.0f} MB",
        )
        for time in times
    ]
    return Listing(head, rows, words=3)


_TIPS = ["name:N", alt.Tooltip("said:N", title=" "), "steps:N"]


def _spans(steps: Sequence[StepRow]) -> list[Sequence[StepRow]]:
    size = -(-len(steps) // COLUMNS)
    return [steps[i : i + size] for i in range(0, len(steps), size)]


def _stack(
    title: str,
    unit: str,
    names: Sequence[str],
    columns: Sequence[tuple[Sequence[StepRow], list[int], int]],
    colours: list[str] | None = None,
) -> alt.LayerChart:
    rows: list[dict[str, Any]] = []
    for steps, counts, whole in columns:
        first, last, base = steps[0].step, steps[-1].step, 0.0
        for name, count in zip(names, counts, strict=True):
            share = count / whole if whole else 0.0
            if share:
                said = f"{count} of {whole} ({figure(share, share=True)})"
                span = str(first) if first == last else f"{first} to {last}"
                rows.append(
                    {"name": name, "from": first - 0.5, "to": last + 0.5, "low": round(base, 5)}
                    | {"high": round(base + share, 5), "said": said, "steps": span}
                )
            base += share
    pick = alt.selection_point(name="pick", fields=["name"], bind="legend")
    scale = alt.Scale(domain=list(names), range=colours) if colours else alt.Undefined
    legend = alt.Legend(title=None)
    bar = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("from:Q", title="step", axis=alt.Axis(format="d", tickMinStep=1)).scale(
                zero=False, nice=False
            ),
            x2="to:Q",
            y=alt.Y("low:Q", title=unit, axis=alt.Axis(format="%", tickCount=4)),
            y2="high:Q",
            color=alt.Color("name:N", sort=list(names), legend=legend, scale=scale),
            opacity=alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.15)),
            tooltip=_TIPS,
        )
    )
    bar = bar.properties(name="columns").add_params(pick)
    return alt.LayerChart(layer=[bar]).properties(
        width=480, height=200, description=f"{title} over steps"
    )
