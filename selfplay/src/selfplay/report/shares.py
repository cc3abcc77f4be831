"""Parts of a whole over steps: stacked columns for rejections and solve rates, bars for seconds."""

from collections import Counter
from collections.abc import Mapping, Sequence

from selfplay.records.step_row import StepRow
from selfplay.report.markup import duration, element, escape, figure
from selfplay.report.plot_frame import Frame, axes, drawing, panel, value_range
from selfplay.report.reading.run_data import RHO_BINS, Run
from selfplay.report.reading.worker_times import WorkerTime, straggler, worker_times

COLUMNS = 40
PHASES = ("match", "propose", "verify", "solve", "update", "evolve", "publish", "save")


def rejected_panel(run: Run) -> str:
    """Return why proposals were rejected, as shares of all proposals of a span of steps."""
    totals: Counter[str] = Counter()
    for step in run.steps:
        totals.update(step.rejected)
    reasons = [reason for reason, count in totals.most_common() if count]
    shown, rest = reasons[:6], set(reasons[6:])
    names = [*shown, "other"] if rest else shown
    columns = []
    for steps in _spans(run.steps):
        counts: Counter[str] = Counter()
        for step in steps:
            for reason, count in step.rejected.items():
                counts["other" if reason in rest else reason] += count
        proposed = sum(kind.proposed for step in steps for kind in step.kinds.values())
        columns.append((steps, [counts[name] for name in names], max(proposed, counts.total())))
    hint = "Why the verifier turned proposals down; what is missing to 100 % was accepted."
    if not names:
        return panel("Rejected proposals", "No proposal was rejected.", "")
    return _stack("Rejected proposals", hint, "% of proposals", names, columns, "c")


def rho_panel(run: Run) -> str:
    """Return the histogram of rho over time; empty when no step tells it."""
    columns = []
    for steps in _spans(run.steps):
        counts = [
            sum(step.rho[i] for step in steps if step.rho is not None) for i in range(len(RHO_BINS))
        ]
        columns.append((steps, counts, sum(counts)))
    if not any(whole for _, _, whole in columns):
        return ""
    hint = (
        "ρ is the share of right attempts at a task. Tasks between 0 and 1 teach the student; "
        "where all attempts end alike, nothing is learnt."
    )
    names = [f"ρ {name}" if "to" in name else f"ρ = {name}" for name in RHO_BINS]
    return _stack("Solve rate of the tasks", hint, "% of valid tasks", names, columns, "q")


def seconds_panel(runs: Sequence[Run]) -> str:
    """Return the seconds per phase: a stacked bar per run and a table."""
    panels = []
    for run in runs:
        totals = phase_seconds(run)
        whole = sum(totals.values())
        if whole > 0:
            title = f"Where the time of {run.name} went" if len(runs) > 1 else "Where the time went"
            content = _phase_bar(totals, whole) + _phase_table(totals, whole, len(run.steps))
            panels.append(panel(title, "Seconds in each phase of the steps.", content))
        if times := worker_times(run):
            title = f"Workers of {run.name}" if len(runs) > 1 else "Workers"
            panels.append(panel(title, waited_for(times), _worker_table(times)))
    return element("div", "".join(panels), class_="grid-of-panels wide") if panels else ""


def waited_for(times: Sequence[WorkerTime]) -> str:
    """Return a sentence: how busy the workers were, and who kept the others waiting."""
    shares = [time.share for time in times]
    low, high = figure(min(shares), share=True), figure(max(shares), share=True)
    text = f"Each worked {low} to {high} of its time" if low != high else f"Each worked {low}"
    slowest = straggler(times)
    if slowest is None:
        return f"{text}; none kept the others waiting."
    return f"{text}; the others waited for {slowest.name} on {slowest.host}."


def phase_seconds(run: Run) -> dict[str, float]:
    """Return the seconds per phase over the whole run, known phases first, in their order."""
    found = {name for step in run.steps for name in step.seconds}
    names = [name for name in PHASES if name in found] + sorted(found - set(PHASES))
    return {name: sum(step.seconds.get(name, 0.0) for step in run.steps) for name in names}


def _spans(steps: Sequence[StepRow]) -> list[Sequence[StepRow]]:
    size = -(-len(steps) // COLUMNS)
    return [steps[i : i + size] for i in range(0, len(steps), size)]


def _stack(
    title: str,
    hint: str,
    unit: str,
    names: Sequence[str],
    columns: Sequence[tuple[Sequence[StepRow], list[int], int]],
    palette: str,
) -> str:
    most = max((sum(counts) / whole for _, counts, whole in columns if whole), default=1.0)
    _, top = value_range([0.0, most], share=True)
    low, high = columns[0][0][0].step, columns[-1][0][-1].step
    frame = Frame((low - 0.5, high + 0.5), (0.0, top), width=540.0, height=250.0)
    parts = [axes(frame, unit, share=True)]
    for steps, counts, whole in columns:
        if not whole:
            continue
        first, last = steps[0].step, steps[-1].step
        left, right = frame.px(first - 0.5), frame.px(last + 0.5)
        gap = 0.6 if right - left > 4 else 0.0
        span = f"step {first}" if first == last else f"steps {first} to {last}"
        base = 0.0
        for i, (name, count) in enumerate(zip(names, counts, strict=True)):
            if not count:
                continue
            share = count / whole
            tip = f"{span}\n{name}: {count} of {whole} ({figure(share, share=True)})"
            upper, lower = frame.py(base + share), frame.py(base)
            parts.append(
                element(
                    "rect",
                    element("title", escape(tip)),
                    class_=f"part {palette}{i}",
                    x=left + gap,
                    y=upper,
                    width=right - left - 2 * gap,
                    height=lower - upper,
                )
            )
            base += share
    keys = "".join(
        element("li", element("span", class_=f"swatch {palette}{i}") + escape(name))
        for i, name in enumerate(names)
    )
    content = drawing(frame, "".join(parts), f"{title} over steps")
    return panel(title, hint, content + element("ul", keys, class_="legend small"))


def _phase_bar(totals: Mapping[str, float], whole: float) -> str:
    x, parts = 0.0, []
    for i, (name, seconds) in enumerate(totals.items()):
        width = 540.0 * seconds / whole
        tip = f"{name}: {duration(seconds)} ({figure(seconds / whole, share=True)})"
        rect = element(
            "rect",
            element("title", escape(tip)),
            class_=f"part c{i % 8}",
            x=x,
            y=2.0,
            width=width,
            height=24.0,
        )
        parts.append(rect)
        x += width
    frame = Frame((0.0, 1.0), (0.0, 1.0), width=540.0, height=28.0)
    return drawing(frame, "".join(parts), "Share of time per phase")


def _phase_table(totals: Mapping[str, float], whole: float, steps: int) -> str:
    head = "".join(element("th", name) for name in ("phase", "total", "share", "per step"))
    rows = [element("tr", head)]
    for i, (name, seconds) in enumerate(totals.items()):
        mark = element("span", class_=f"swatch c{i % 8}")
        cells = [duration(seconds), figure(seconds / whole, share=True), f"{seconds / steps:.2f} s"]
        numbers = "".join(element("td", cell, class_="number") for cell in cells)
        rows.append(element("tr", element("td", mark + escape(name)) + numbers))
    total = [duration(whole), "", f"{whole / steps:.2f} s"]
    numbers = "".join(element("td", cell, class_="number") for cell in total)
    rows.append(element("tr", element("th", "all") + numbers))
    return element("table", "".join(rows), class_="compact")


def _worker_table(times: Sequence[WorkerTime]) -> str:
    names = ("worker", "machine", "members", "steps", "working", "idle", "memory")
    rows = [element("tr", "".join(element("th", name) for name in names))]
    for time in times:
        words = [time.name, time.host, " ".join(time.members)]
        numbers = [
            str(time.steps),
            figure(time.share, share=True),
            figure(1.0 - time.share, share=True),
            f"{time.memory_mb:,.0f} MB",
        ]
        cells = [element("td", escape(word)) for word in words]
        cells += [element("td", number, class_="number") for number in numbers]
        rows.append(element("tr", "".join(cells)))
    return element("table", "".join(rows), class_="compact")
