"""Ratings over steps: mu with a band of one sigma either way, one panel per role."""

from selfplay.report.curves import colour
from selfplay.report.markup import element, escape, figure
from selfplay.report.plot_frame import (
    Frame,
    axes,
    drawing,
    hover_strips,
    panel,
    step_range,
    value_range,
)
from selfplay.report.reading.lineage import Life, lives
from selfplay.report.reading.run_data import Run

MOST_POINTS = 200
HINTS = {
    "teacher": "Up: the students it meets solve fewer of its tasks. The game is zero-sum, so "
    "teachers rise only where students fall.",
    "student": "Up: it solves more of the tasks it is given than its rating foretold.",
}


def rating_panels(run: Run) -> str:
    """Return a panel per role with every member's rating; empty for a run without ratings."""
    if not any(step.ratings for step in run.steps):
        return ""
    everyone = lives(run)
    roles = sorted({life.role for life in everyone}, reverse=True)
    panels = [_panel(run, role, [life for life in everyone if life.role == role]) for role in roles]
    return element("div", "".join(panels), class_="grid-of-panels wide")


def _panel(run: Run, role: str, members: list[Life]) -> str:
    tracks = {life.name: _track(run, life) for life in members}
    tracks = {name: track for name, track in tracks.items() if track}
    if not tracks:
        return ""
    edges = [y for track in tracks.values() for _, mu, s in track for y in (mu - s, mu + s)]
    xs = step_range(step.step for step in run.steps)
    frame = Frame(xs, value_range(edges), width=540.0, height=280.0, right=34.0)
    bands, lines, keys = [], [], []
    lowest = frame.height
    ends = []
    for i, (name, track) in enumerate(tracks.items()):
        upper = frame.path((x, mu + s) for x, mu, s in track)
        lower = frame.path((x, mu - s) for x, mu, s in reversed(track))
        bands.append(element("path", d=upper + "L" + lower[1:] + "Z", class_=f"band {colour(i)}"))
        line = frame.path((x, mu) for x, mu, _ in track)
        lines.append(element("path", d=line, class_=f"line smooth {colour(i)}"))
        x, mu, _ = track[-1]
        if x == run.last:
            ends.append((frame.py(mu), name, i))
        mark = element("span", class_=f"swatch {colour(i)}")
        keys.append(element("li", mark + escape(name)))
    labels = []
    for y, name, i in sorted(ends, reverse=True):
        lowest = min(y + 4.0, lowest - 11.0)
        right = frame.width - frame.right + 4
        label = element("text", escape(name), class_=f"label {colour(i)}", x=right, y=lowest)
        labels.append(label)
    strips = hover_strips(frame, _notes(tracks))
    content = drawing(
        frame,
        axes(frame, "TrueSkill rating, μ ± σ") + "".join([*bands, *lines, *labels]) + strips,
        f"Ratings of the {role}s over steps",
    )
    legend = element("ul", "".join(keys), class_="legend small")
    return panel(f"Ratings of the {role}s", HINTS.get(role, ""), content + legend)


def _track(run: Run, life: Life) -> list[tuple[int, float, float]]:
    track = [
        (step.step, *step.ratings[life.name])
        for step in run.steps
        if life.name in step.ratings and life.born <= step.step <= (life.died or run.last)
    ]
    stride = -(-len(track) // MOST_POINTS)
    return track if stride <= 1 else [*track[:-1:stride], track[-1]]


def _notes(tracks: dict[str, list[tuple[int, float, float]]]) -> list[tuple[float, float, str]]:
    by_step: dict[int, list[str]] = {}
    for name, track in tracks.items():
        for step, mu, sigma in track:
            by_step.setdefault(step, []).append(f"{name}: {figure(mu)} ± {figure(sigma)}")
    steps = sorted(by_step)
    stride = -(-len(steps) // 80)
    return [
        (step - stride / 2, step + stride / 2, "\n".join([f"step {step}", *by_step[step]]))
        for step in steps[::stride]
    ]
