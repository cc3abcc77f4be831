"""The frame of a plot: scales with round ticks, grid, axis names, and strips that show numbers."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from selfplay.report.markup import coordinate, element, escape, figure


@dataclass(frozen=True, slots=True)
class Frame:
    """A plot's size and ranges in SVG units and data units."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float = 360.0
    height: float = 220.0
    left: float = 48.0
    right: float = 12.0
    top: float = 22.0
    bottom: float = 36.0

    def px(self, x: float) -> float:
        """Return the horizontal position of a data value."""
        low, high = self.x
        inner = self.width - self.left - self.right
        return self.left + inner * (x - low) / (high - low)

    def py(self, y: float) -> float:
        """Return the vertical position of a data value."""
        low, high = self.y
        inner = self.height - self.top - self.bottom
        return self.height - self.bottom - inner * (y - low) / (high - low)

    def path(self, points: Iterable[tuple[float, float | None]]) -> str:
        """Return SVG path data through the points; a None breaks the line."""
        parts, pen = [], "M"
        for x, y in points:
            if y is None:
                pen = "M"
                continue
            parts.append(f"{pen}{coordinate(self.px(x))} {coordinate(self.py(y))}")
            pen = "L"
        return "".join(parts)


def step_range(steps: Iterable[int]) -> tuple[float, float]:
    """Return the range of an axis of steps, at least one step wide."""
    found = list(steps)
    low, high = min(found), max(found)
    return (low - 0.5, high + 0.5) if low == high else (float(low), float(high))


def value_range(values: Iterable[float], share: bool = False) -> tuple[float, float]:
    """Return a range around the values that ends on round ticks; shares stay in [0, 1]."""
    found = list(values) or [0.0, 1.0]
    low, high = min(found), max(found)
    if high - low < 1e-9:
        pad = 0.05 if share else max(abs(high) * 0.1, 0.5)
        low, high = low - pad, high + pad
    for _ in range(3):  # a wider range may take wider ticks
        step = round_step((high - low) / 4)
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    if share:
        low, high = max(low, 0.0), min(high, 1.0)
    return (low, high)


def round_step(rough: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is not below `rough`."""
    power: float = 10.0 ** math.floor(math.log10(rough))
    for factor in (1.0, 2.0, 2.5, 5.0):
        if rough <= factor * power * (1 + 1e-9):
            return factor * power
    return 10.0 * power


def ticks(low: float, high: float, about: int = 4, whole: bool = False) -> list[float]:
    """Return round values within [low, high]; whole numbers only where asked."""
    step = round_step((high - low) / about)
    if whole:
        step = max(1.0, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def axes(frame: Frame, unit: str, share: bool = False, x_name: str = "step") -> str:
    """Return the grid, the tick labels and the names of both axes."""
    parts = []
    edge = frame.width - frame.right
    floor = frame.height - frame.bottom
    values = ticks(*frame.y)
    span = frame.y[1] - frame.y[0]
    for value in values:
        y = frame.py(value)
        parts.append(element("line", class_="grid", x1=frame.left, x2=edge, y1=y, y2=y))
        shown = _tick_label(value, span / 4, share)
        label = element("text", shown, class_="tick end", x=frame.left - 6, y=y + 3.5)
        parts.append(label)
    for value in ticks(*frame.x, about=5, whole=True):
        x = frame.px(value)
        parts.append(element("line", class_="axis", x1=x, x2=x, y1=floor, y2=floor + 4))
        parts.append(element("text", f"{value:g}", class_="tick mid", x=x, y=floor + 16))
    parts.append(element("line", class_="axis", x1=frame.left, x2=edge, y1=floor, y2=floor))
    parts.append(element("text", escape(unit), class_="axis-name", x=4.0, y=12.0))
    middle = (frame.left + edge) / 2
    parts.append(
        element("text", escape(x_name), class_="axis-name mid", x=middle, y=frame.height - 5)
    )
    return "".join(parts)


def hover_strips(frame: Frame, notes: Sequence[tuple[float, float, str]]) -> str:
    """Return transparent strips from one x to another, each with its text as tooltip."""
    height = frame.height - frame.top - frame.bottom
    parts = []
    for start, end, note in notes:
        left = max(frame.px(start), frame.left)
        right = min(frame.px(end), frame.width - frame.right)
        parts.append(
            element(
                "rect",
                element("title", escape(note)),
                class_="strip",
                x=left,
                y=frame.top,
                width=right - left,
                height=height,
            )
        )
    return "".join(parts)


def drawing(frame: Frame, content: str, label: str) -> str:
    """Return the SVG element, named for people who cannot see it."""
    box = f"0 0 {coordinate(frame.width)} {coordinate(frame.height)}"
    return element("svg", content, viewBox=box, role="img", aria_label=label)


def panel(title: str, hint: str, content: str, class_: str = "panel") -> str:
    """Return a figure: heading, one sentence on how to read it, and the picture."""
    caption = element("p", escape(hint), class_="hint") if hint else ""
    return element("figure", element("h3", escape(title)) + caption + content, class_=class_)


def _tick_label(value: float, step: float, share: bool) -> str:
    if share:
        value, step = 100 * value, 100 * step
    if abs(value) < 1e-12:
        return "0"
    if abs(value) >= 1000:
        return figure(value)
    places = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    places = min(places if share else max(places, 0), 4)
    text = f"{value:.{places}f}" if places else f"{value:g}"
    return text.replace("-", "−")
