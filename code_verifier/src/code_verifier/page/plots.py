"""Plots as inline SVG, drawn from plain numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from code_verifier.page.markup import escape, number

_WIDTH, _HEIGHT = 360.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 14.0, 20.0, 34.0
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """Points joined by a line; style: `main`, `quiet` or `dotted`."""

    points: Points
    style: str = "main"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """The data ranges of a plot, mapped to its drawing area."""

    x: tuple[float, float]
    y: tuple[float, float]

    def px(self, x: float) -> str:
        """Horizontal position, one decimal."""
        low, high = self.x
        return f"{_LEFT + (x - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT):.1f}"

    def py(self, y: float) -> str:
        """Vertical position, one decimal."""
        low, high = self.y
        return f"{_HEIGHT - _BOTTOM - (y - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM):.1f}"


def ticks(low: float, high: float, about: int = 4, whole: bool = False) -> list[float]:
    """Round values within a range: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough * (1 - 1e-9))
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def bars(
    values: Sequence[float], whole: bool, marks: Sequence[tuple[str, float]], x_name: str
) -> str:
    """A histogram of sorted values with vertical marks. The last bar holds a long tail."""
    low, high = values[0], values[-1]
    cut = values[min(len(values) - 1, math.ceil(0.99 * (len(values) - 1)))]
    tail = high > cut + (cut - low)
    top = cut if tail else high
    width = max(1.0, math.ceil((top - low + 1) / 40)) if whole else (top - low) / 30 or 1.0
    number_of = max(1, math.floor((top - low) / width + 1e-9) + 1) if whole else 30
    counts = [0] * (number_of + tail)
    for value in values:
        place = int((min(value, top) - low) / width + 1e-9)
        over = tail and value > top
        counts[number_of if over else min(place, number_of - 1)] += 1
    offset = low - 0.5 if whole else low
    frame = Frame((offset, offset + width * len(counts)), _rounded(0.0, float(max(counts))))
    parts = []
    for index, count in enumerate(counts):
        left, right = offset + index * width, offset + (index + 1) * width
        over = tail and index == number_of
        first = low + index * width
        last = first + width - 1 if whole else first + width
        name = (
            f"more than {number(top)}"
            if over
            else (number(first) if whole and width == 1 else f"{number(first)} to {number(last)}")
        )
        x, y = frame.px(left), frame.py(count)
        wide = max(0.5, float(frame.px(right)) - float(x) - 0.6)
        high_px = float(frame.py(0)) - float(y)
        style = "bar tail" if over else "bar"
        parts.append(
            f'<rect class="{style}" x="{x}" y="{y}" width="{wide:.1f}" height="{high_px:.1f}">'
            f"<title>{escape(name)}: {count:,}</title></rect>"
        )
    for name, value in marks:
        x = frame.px(min(value, frame.x[1]))
        text_x = max(float(x), _LEFT + 38)
        parts.append(
            f'<line class="mark" x1="{x}" x2="{x}" y1="{_TOP}" y2="{frame.py(0)}"/>'
            f'<text class="mid" x="{text_x:.1f}" y="{_TOP - 6}">{escape(name)}</text>'
        )
    return _figure(frame, parts, x_name, "programs", x_whole=whole, y_whole=True)


def curves(
    lines: Sequence[Line], x_name: str, y_name: str, band: tuple[Points, Points] | None = None
) -> str:
    """Lines over one pair of axes, and a band between a lower and an upper line."""
    points = [point for line in lines for point in line.points]
    points += [point for side in band or () for point in side]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = min(0.0, *ys), max(ys)
    frame = Frame(_widened(min(xs), max(xs)), _rounded(low, high))
    parts = []
    if band is not None:
        around = [*band[0], *reversed(band[1])]
        parts.append(f'<path class="band" d="{_path(frame, around)}Z"/>')
    for line in lines:
        parts.append(f'<path class="line {line.style}" d="{_path(frame, line.points)}"/>')
        if len(line.points) == 1:
            x, y = line.points[0]
            parts.append(
                f'<circle class="dot {line.style}" cx="{frame.px(x)}" cy="{frame.py(y)}" r="3"/>'
            )
    legend = [line for line in lines if line.label]
    for index, line in enumerate(legend):
        x = _LEFT + 8 + index * (_WIDTH - _LEFT - _RIGHT) / max(1, len(legend))
        parts.append(
            f'<path class="line {line.style}" d="M{x:.1f} {_TOP - 9}h16"/>'
            f'<text x="{x + 21:.1f}" y="{_TOP - 5}">{escape(line.label)}</text>'
        )
    return _figure(frame, parts, x_name, y_name, x_whole=True, y_whole=all(y == int(y) for y in ys))


def _widened(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _rounded(low: float, high: float) -> tuple[float, float]:
    """A range that ends on a tick; what never changes gets room above."""
    high = high if high > low else low + 1.0
    marks = ticks(low, high)
    step = marks[1] - marks[0] if len(marks) > 1 else high - low
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def _path(frame: Frame, points: Points) -> str:
    return "M" + "L".join(f"{frame.px(x)} {frame.py(y)}" for x, y in points)


def _figure(
    frame: Frame, parts: Sequence[str], x_name: str, y_name: str, x_whole: bool, y_whole: bool
) -> str:
    floor = f"{_HEIGHT - _BOTTOM:.1f}"
    grid = []
    for y in ticks(*frame.y, whole=y_whole):
        py = frame.py(y)
        grid.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{py}" y2="{py}"/>'
            f'<text class="tick end" x="{_LEFT - 5}" y="{py}" dy=".35em">{number(y)}</text>'
        )
    for x in ticks(*frame.x, about=5, whole=x_whole):
        px = frame.px(x)
        grid.append(
            f'<text class="tick mid" x="{px}" y="{_HEIGHT - _BOTTOM + 13}">{number(x)}</text>'
        )
    names = (
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{floor}" y2="{floor}"/>'
        f'<text class="tick end" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}">{escape(x_name)}</text>'
        f'<text class="tick" x="2" y="10">{escape(y_name)}</text>'
    )
    about = escape(f"{y_name or 'values'} over {x_name}")
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{about}">'
        f"{''.join(grid)}{''.join(parts)}{names}</svg>"
    )
