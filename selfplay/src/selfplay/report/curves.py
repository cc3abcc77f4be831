"""Curves over steps: a light raw line, a strong smoothed one, every run in its own colour."""

from collections.abc import Sequence

from selfplay.report.markup import element, figure
from selfplay.report.measures import Measure
from selfplay.report.plot_frame import (
    Frame,
    axes,
    drawing,
    hover_strips,
    panel,
    step_range,
    value_range,
)
from selfplay.report.reading.run_data import Run
from selfplay.report.reading.trend import Points, smooth, thin

COLOURS = 8
"""Colours in style.css, `c0` to `c7`; further series repeat them with dashes."""
STRIPS = 80


def colour(index: int) -> str:
    """Return the classes that give the index-th series its colour, and dashes from the ninth on."""
    return f"c{index % COLOURS}" + (" dashed" if index >= COLOURS else "")


def curve_panel(runs: Sequence[Run], measure: Measure) -> str:
    """Return a panel with one measure of all runs; empty when no run has a value."""
    series = [thin(measure.values(run)) for run in runs]
    values = [y for points in series for _, y in points if y is not None]
    if not values:
        return ""
    frame = Frame(
        step_range(x for points in series for x, _ in points), value_range(values, measure.share)
    )
    parts = [axes(frame, measure.unit, measure.share)]
    if len(runs) == 1:
        parts += [_evolution_line(frame, step) for step in {b.step: None for b in runs[0].births}]
    raw, strong = [], []
    for i, points in enumerate(series):
        if not measure.total:
            raw.append(_line(frame, points, f"raw {colour(i)}"))
        steady = points if measure.total else smooth(points)
        strong.append(_line(frame, steady, f"smooth {colour(i)}"))
    parts += [*raw, *strong]
    parts.append(hover_strips(frame, _notes(runs, series, measure)))
    content = drawing(frame, "".join(parts), f"{measure.title} over steps")
    return panel(measure.title, measure.hint, content)


def curve_grid(runs: Sequence[Run], measures: Sequence[Measure]) -> str:
    """Return panels side by side, three or four a row; measures without any value are left out."""
    panels = [content for content in (curve_panel(runs, m) for m in measures) if content]
    row = "grid-of-panels four" if len(panels) in (4, 7, 8) else "grid-of-panels"
    return element("div", "".join(panels), class_=row) if panels else ""


def _evolution_line(frame: Frame, step: int) -> str:
    x = frame.px(step)
    floor = frame.height - frame.bottom
    return element("line", class_="evolution", x1=x, x2=x, y1=frame.top, y2=floor)


def _line(frame: Frame, points: Points, classes: str) -> str:
    known = [(x, y) for x, y in points if y is not None]
    if len(known) == 1:
        x, y = known[0]
        return element("circle", class_=f"dot {classes}", cx=frame.px(x), cy=frame.py(y), r=2.5)
    return element("path", d=frame.path(points), class_=f"line {classes}")


def _notes(
    runs: Sequence[Run], series: Sequence[Points], measure: Measure
) -> list[tuple[float, float, str]]:
    by_step: dict[int, list[str]] = {}
    for run, points in zip(runs, series, strict=True):
        for x, y in points:
            if y is not None:
                prefix = f"{run.name}: " if len(runs) > 1 else ""
                by_step.setdefault(x, []).append(prefix + figure(y, measure.share))
    steps = sorted(by_step)
    stride = -(-len(steps) // STRIPS)
    notes = []
    for at in range(0, len(steps), stride):
        step = steps[at]
        left = (steps[at - 1] + step) / 2 if at else step - 0.5
        following = at + stride
        end = (
            (steps[following - 1] + steps[following]) / 2
            if following < len(steps)
            else step + stride
        )
        notes.append((left, end, "\n".join([f"step {step}", *by_step[step]])))
    return notes
