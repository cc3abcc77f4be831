"""The lineage picture: one lane per place in a role, bars for lives, curves from parents."""

import re

from selfplay.report.markup import coordinate, element, escape, figure
from selfplay.report.plot_frame import Frame, drawing, panel, step_range, ticks
from selfplay.report.reading.lineage import Life, lives
from selfplay.report.reading.run_data import Run

LANE = 34.0
BAR = 18.0
HINT = (
    "Each lane is a place in the population. A bar is a member's life; at an evolution step the "
    "weakest (×) makes room for a child, and curves lead from its parents to it; a click on the "
    "child leads to what was done to them."
)


def lineage_panel(run: Run) -> str:
    """Return the lineage picture with a table of births; empty for a run without members."""
    everyone = lives(run)
    if not everyone:
        return ""
    by_name = {life.name: life for life in everyone}
    lanes = 1 + max(life.lane for life in everyone)
    height = 14.0 + LANE * lanes + 36.0
    low, high = step_range([0, *(step.step for step in run.steps)])
    frame = Frame((low, high), (0.0, 1.0), width=1080.0, height=height, left=70.0, right=16.0)
    parts = [_axis(frame, lanes), _lane_names(everyone)]
    parts += [_bar(frame, life, run) for life in everyone]
    parts += [
        _branch(frame, by_name[parent], life)
        for life in everyone
        if life.birth
        for parent in life.birth.parents
        if parent in by_name
    ]
    content = drawing(frame, "".join(parts), "Lineage of the members over steps")
    box = element("div", content, class_="scroll", tabindex="0")
    return panel("Lineage", HINT, box + _table(run), class_="panel full")


def _place(run: Run, child: str) -> str:
    """Return the id of a child's row among the births."""
    return re.sub(r"\W+", "-", f"birth-{run.name}-{child}")


def _axis(frame: Frame, lanes: int) -> str:
    floor = 14.0 + LANE * lanes
    parts = []
    for value in ticks(*frame.x, about=10, whole=True):
        x = frame.px(value)
        parts.append(element("line", class_="grid", x1=x, x2=x, y1=8.0, y2=floor))
        parts.append(element("text", f"{value:g}", class_="tick mid", x=x, y=floor + 14))
    middle = (frame.left + frame.width - frame.right) / 2
    parts.append(element("text", "step", class_="axis-name mid", x=middle, y=floor + 30))
    return "".join(parts)


def _lane_names(everyone: list[Life]) -> str:
    first: dict[int, str] = {}
    for life in everyone:
        first.setdefault(life.lane, life.role)
    return "".join(
        element("text", escape(role), class_="tick end", x=62.0, y=_middle(lane) + 4)
        for lane, role in first.items()
    )


def _middle(lane: int) -> float:
    return 14.0 + LANE * (lane + 0.5)


def _bar(frame: Frame, life: Life, run: Run) -> str:
    start, end = frame.px(life.born), frame.px(life.died or run.last)
    width, top = max(end - start - 3, 2.0), _middle(life.lane) - BAR / 2
    role = "c0" if life.role == "teacher" else "c1"
    title = element("title", escape(_story(life)))
    bar = element(
        "rect", title, class_=f"life {role}", x=start + 1, y=top, width=width, height=BAR, rx=3.0
    )
    parts = [bar]
    words = [life.name]
    if life.birth:
        words = [
            f"{life.name} ← {' × '.join(life.birth.parents)}, {life.birth.operator}",
            life.name,
        ]
    for text in words:
        if len(text) * 6.4 + 14 < width:
            y = _middle(life.lane) + 4
            parts.append(element("text", escape(text), class_="bar-label", x=start + 8, y=y))
            break
    if life.died is not None:
        parts.append(element("text", "×", class_="death mid", x=end - 8, y=_middle(life.lane) + 5))
    drawn = element("g", "".join(parts))
    return element("a", drawn, href=f"#{_place(run, life.name)}") if life.birth else drawn


def _branch(frame: Frame, parent: Life, child: Life) -> str:
    x, bend = frame.px(child.born), 14.0
    start, end = _middle(parent.lane), _middle(child.lane)
    if parent.lane == child.lane:
        end = start
    a, b = coordinate(x - bend), coordinate(x + 2)
    c, d = coordinate(start), coordinate(end)
    data = f"M{a} {c}C{b} {c} {a} {d} {b} {d}"
    operator = child.birth.operator if child.birth else ""
    title = element("title", escape(f"{parent.name} → {child.name}, {operator}"))
    dot = element("circle", class_="branch-end", cx=x + 2, cy=end, r=3.0)
    return element("path", title, d=data, class_="branch") + dot


def _story(life: Life) -> str:
    if life.birth is None:
        origin = f"{life.name}, {life.role}, there from the start"
    else:
        parents = " and ".join(life.birth.parents) or "unknown"
        origin = f"{life.name}, {life.role}, born after step {life.born} of {parents}"
        origin += f" by {life.birth.operator}"
    return origin + (f"; replaced after step {life.died}" if life.died is not None else "; alive")


def _table(run: Run) -> str:
    births = run.births
    if not births:
        return element("p", "No member was replaced in this run.", class_="hint")
    head = "".join(
        element("th", name)
        for name in ("after step", "child", "parents", "operator", "relative change", "replaced")
    )
    rows = []
    for birth in births:
        change = "" if birth.relative_change is None else figure(birth.relative_change, share=True)
        cells = [
            str(birth.step),
            birth.child,
            " × ".join(birth.parents),
            birth.operator,
            change,
            birth.removed,
        ]
        row = "".join(element("td", escape(cell)) for cell in cells)
        rows.append(element("tr", row, id=_place(run, birth.child)))
    table = element("table", element("tr", head) + "".join(rows))
    title = "1 birth" if len(births) == 1 else f"{len(births)} births"
    return element("details", element("summary", title) + element("div", table, class_="scroll"))
