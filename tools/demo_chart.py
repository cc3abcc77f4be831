"""Draw the chart of README.md: `python tools/demo_chart.py runs/demo docs/screens/demo.svg`.

The mean of the living students at each measurement on held-out tasks, and the frozen base. The
picture has the colours of a light and of a dark page, and its text can be read on a phone.
"""

import sys
from pathlib import Path
from statistics import fmean

from selfplay import read_run

WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 40, 150, 58, 226
"""Sides of the plot, the right one from the right edge: names of lines stand there."""
LOW, HIGH = 30, 55
"""Percent at the bottom and at the top of the plot."""
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #444 }
.title { font-weight: bold; font-size: 16px; fill: #222 }
.page { fill: #fff } .grid { stroke: #e4e4e4 } .band { fill: #1a73e8; opacity: .18 }
.students { stroke: #1a73e8; stroke-width: 3; fill: none } .dot, .name { fill: #1a73e8 }
.base { stroke: #777; stroke-width: 2; stroke-dasharray: 6 4 } .name { font-weight: bold }
@media (prefers-color-scheme: dark) {
  text { fill: #bbb } .title { fill: #eee } .page { fill: #1e2129 } .grid { stroke: #3a3f4b }
  .band, .dot, .name { fill: #6ea8fe } .students { stroke: #6ea8fe } .base { stroke: #999 }
}
"""


def students(folder: str) -> tuple[list[dict[str, float]], float]:
    """Return step, mean and one standard error of the students in percent, and the base's rate."""
    rows = [row for row in read_run(folder).evals if row.rate]
    base = 100 * next(row.rate.solve_rate for row in rows if row.member == "base")
    points = [{"step": 0, "mean": base, "low": base, "high": base}]
    for step in sorted({row.step for row in rows} - {0}):
        living = [row.rate for row in rows if row.step == step and row.role == "student"]
        mean = 100 * fmean(rate.solve_rate for rate in living)
        error = 100 * fmean(rate.standard_error for rate in living)
        points.append({"step": step, "mean": mean, "low": mean - error, "high": mean + error})
    return points, base


def chart(points: list[dict[str, float]], base: float) -> str:
    """Return the picture as SVG."""
    last = points[-1]

    def x(step: float) -> float:
        return LEFT + (WIDTH - RIGHT - LEFT) * step / last["step"]

    def y(percent: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (percent - LOW) / (HIGH - LOW)

    def line(key: str) -> list[str]:
        return [f"{x(p['step']):.1f},{y(p[key]):.1f}" for p in points]

    right = x(last["step"])
    parts = [
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        '<text class="title" x="12" y="24">Held-out tasks solved, %</text>',
        '<text x="12" y="43">make demo: 144 tasks, band ± one standard error</text>',
    ]
    for percent in range(LOW, HIGH + 1, 5):
        at = y(percent)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 5:.1f}" text-anchor="end">{percent}</text>')
    parts += [
        f'<text x="{x(p["step"]):.1f}" y="{BOTTOM + 19}" text-anchor="middle">{p["step"]}</text>'
        for p in points
    ]
    parts += [
        f'<text x="{(LEFT + right) / 2:.1f}" y="{BOTTOM + 37}" text-anchor="middle">step</text>',
        f'<polygon class="band" points="{" ".join(line("low") + line("high")[::-1])}"/>',
        f'<path class="base" d="M{LEFT} {y(base):.1f}H{right:.1f}"/>',
        f'<polyline class="students" points="{" ".join(line("mean"))}"/>',
        f'<text class="name" x="{right + 12:.1f}" y="{y(last["mean"]) + 5:.1f}">'
        f"students {last['mean']:.0f} %</text>",
        f'<text x="{right + 12:.1f}" y="{y(base) + 5:.1f}">frozen base {base:.0f} %</text>',
    ]
    parts += [
        f'<circle class="dot" cx="{x(p["step"]):.1f}" cy="{y(p["mean"]):.1f}" r="5"/>'
        for p in points
    ]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}">\n<style>{STYLE}</style>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(chart(*students(sys.argv[1])), encoding="utf-8")
