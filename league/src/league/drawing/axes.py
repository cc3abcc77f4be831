"""A pair of axes in SVG: data ranges mapped to a drawing area, a grid, names."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from league.drawing.markup import escape, number

WIDTH, HEIGHT = 420.0, 264.0
LEFT, TOP, BOTTOM = 40.0, 26.0, 38.0

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axes:
    """Ranges of the data, mapped to a drawing area."""

    x: tuple[float, float]
    y: tuple[float, float]
    right: float = 16.0
    """The margin that is kept free for labels, in pixels."""
    height: float = HEIGHT

    def px(self, x: float) -> float:
        """Horizontal position."""
        low, high = self.x
        return LEFT + (x - low) / (high - low) * (WIDTH - LEFT - self.right)

    def py(self, y: float) -> float:
        """Vertical position, kept inside the drawing area."""
        low, high = self.y
        inside = min(1.0, max(0.0, (y - low) / (high - low)))
        return self.height - BOTTOM - inside * (self.height - TOP - BOTTOM)

    def path(self, points: Points) -> str:
        """The `d` of a line through these points."""
        return "M" + "L".join(f"{self.px(x):.1f} {self.py(y):.1f}" for x, y in points)


def ticks(low: float, high: float, about: int, whole: bool = False) -> list[float]:
    """Round values within a range: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough * (1 - 1e-9))
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def widened(values: Iterable[float]) -> tuple[float, float]:
    """The range of values with a little room, or a unit around what never changes."""
    found = list(values)
    low, high = min(found, default=0.0), max(found, default=1.0)
    room = 0.04 * (high - low) if high - low > 1e-9 else 0.5
    return low - room, high + room


def rounds_range(rounds: int) -> tuple[float, float]:
    """The horizontal range of a league's life."""
    return 0.0, float(max(1, rounds))


def figure(
    axes: Axes,
    parts: Iterable[str],
    *,
    about: str,
    x_name: str = "rounds",
    y_name: str = "",
    percent: bool = False,
    whole: bool = True,
) -> str:
    """The whole picture. about: what it shows, for those who cannot see it.

    percent: the vertical axis is a share. whole: the horizontal axis counts.
    """
    floor, edge = axes.height - BOTTOM, WIDTH - axes.right
    grid = []
    marks = ticks(*axes.y, about=5)
    digits = 0 if all(abs(y - round(y)) < 1e-9 for y in marks) else 1
    for y in marks:
        text = f"{100 * y:.0f}%" if percent else number(y, digits)
        grid.append(
            f'<path class="rule" d="M{LEFT} {axes.py(y):.1f}H{edge:.1f}"/>'
            f'<text class="tick end" x="{LEFT - 5}" y="{axes.py(y) + 4:.1f}">{text}</text>'
        )
    for x in ticks(*axes.x, about=5, whole=whole):
        text = f"{x:,.0f}" if whole else f"{100 * x:.0f}%"
        grid.append(
            f'<text class="tick mid" x="{axes.px(x):.1f}" y="{floor + 16:.1f}">{text}</text>'
        )
    names = (
        f'<text class="tick end" x="{edge:.1f}" y="{axes.height - 5:.1f}">{escape(x_name)}</text>'
        f'<text class="tick" x="2" y="12">{escape(y_name)}</text>'
    )
    return (
        f'<svg class="fluid" viewBox="0 0 {WIDTH:.0f} {axes.height:.0f}" role="img" '
        f'aria-label="{escape(about)}">{"".join(grid)}{"".join(parts)}{names}</svg>'
    )


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The heights moved apart until they are `gap` from each other, between low and high, as far
    as there is room."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    down, up = list(heights), list(heights)
    for k, i in enumerate(order):
        down[i] = max(heights[i], down[order[k - 1]] + gap if k else low)
    for k, i in enumerate(reversed(order)):
        up[i] = min(heights[i], up[order[len(order) - k]] - gap if k else high)
    # Both keep the distance, and so does their mean, which stays nearest to where they belong.
    placed = [(a + b) / 2 for a, b in zip(down, up, strict=True)]
    for k, i in enumerate(reversed(order)):
        placed[i] = min(placed[i], placed[order[len(order) - k]] - gap if k else high)
    for k, i in enumerate(order):
        placed[i] = max(placed[i], placed[order[k - 1]] + gap if k else low)
    return placed
