"""The lineage picture: one lane per place in a role, bars for lives, lines from parents."""

import re

import altair as alt

from league.drawing.words import Listing
from selfplay.report.reading.lineage import Life, lives
from selfplay.report.reading.run_data import Run
from selfplay.report.words import figure


def lineage(run: Run) -> alt.LayerChart | None:
    """Return the lives of a run's members and their descent; None for a run without members.

    On a page, a click or Enter on a child leads to its row among the births.
    """
    everyone = lives(run)
    if not everyone:
        return None
    by_name = {life.name: life for life in everyone}
    lanes = {life.lane: f"{life.role} {life.lane}" for life in reversed(everyone)}
    order = [lanes[lane] for lane in sorted(lanes)]
    bars = [_bar(life, run) | {"lane": lanes[life.lane]} for life in everyone]
    joints = [
        {
            "step": life.born,
            "from": lanes[by_name[parent].lane],
            "lane": lanes[life.lane],
            "child": life.name,
            "parent": parent,
            "operator": life.birth.operator,
        }
        for life in everyone
        if life.birth
        for parent in life.birth.parents
        if parent in by_name
    ]
    steps = alt.Scale(domain=[min(0, run.steps[0].step), run.last])
    axis = alt.Axis(format="d", tickMinStep=1, tickCount=10)
    born, died, at = (
        alt.X(f"{f}:Q", title="step", scale=steps, axis=axis) for f in ("born", "died", "step")
    )
    lane, origin = (
        alt.Y(f"{f}:N", title=None, sort=order)
        .scale(domain=order)
        .axis(domain=False, ticks=False, labelExpr="replace(datum.label, / \\d+$/, '')")
        for f in ("lane", "from")
    )
    base = alt.Chart(alt.InlineData(values=bars))
    role = alt.Color("role:N", legend=None, scale=alt.Scale(domain=["teacher", "student"]))
    tips = [f"{f}:N" for f in ("member", "role", "life", "parents", "operator")]
    bar = base.mark_bar(opacity=0.4, height={"band": 0.6}, cornerRadius=3)
    bar = bar.encode(x=born, x2="died:Q", y=lane, color=role, tooltip=tips)
    founder = bar.transform_filter("!datum.birth")
    child = bar.transform_filter("datum.birth").encode(href="birth:N")
    name = base.mark_text(align="left", dx=6).encode(x=born, y=lane, text="said:N")
    cross = base.transform_filter("datum.replaced").mark_text(dx=-7, fontSize=14, text="×")
    children = alt.Chart(alt.InlineData(values=joints))
    made = [f"{f}:N" for f in ("parent", "child", "operator")]
    line = children.mark_rule(strokeWidth=1.3).encode(x=at, y=origin, y2="lane:N", tooltip=made)
    dot = children.mark_point(filled=True, size=30, opacity=1).encode(
        x=at, y=lane, tooltip=made, color=alt.value("#8a94a0")
    )
    layers = [founder, child, line, dot, name, cross.encode(x=died, y=lane)]
    return alt.LayerChart(layer=layers).properties(
        width=1040, height=alt.Step(32), description="Lineage of the members over steps"
    )


def birth_place(run: Run, child: str) -> str:
    """Return the id of a child's row among the births."""
    return re.sub(r"\W+", "-", f"birth-{run.name}-{child}")


def births_table(run: Run) -> Listing:
    """Return all replacements in their order."""
    head = ("after step", "child", "parents", "operator", "relative change", "replaced")
    rows = [
        (
            birth.step,
            birth.child,
            " × ".join(birth.parents),
            birth.operator,
            "" if birth.relative_change is None else figure(birth.relative_change, share=True),
            birth.removed,
        )
        for birth in run.births
    ]
    return Listing(head, rows, words=len(head))


def _bar(life: Life, run: Run) -> dict[str, object]:
    died = run.last if life.died is None else life.died
    parents = " × ".join(life.birth.parents) if life.birth else ""
    operator = life.birth.operator if life.birth else ""
    words = [life.name]
    if life.birth:
        words.insert(0, f"{life.name} ← {parents}, {operator}")
    room = 155 * (died - life.born) / max(1, run.last)
    until = "alive" if life.died is None else f"replaced after step {life.died}"
    return {
        "member": life.name,
        "role": life.role,
        "born": life.born,
        "died": died,
        "replaced": life.died is not None,
        "life": f"{f'born after step {life.born}' if life.birth else 'from the start'}; {until}",
        "parents": parents,
        "operator": operator,
        "birth": f"#{birth_place(run, life.name)}" if life.birth else "",
        "said": next((text for text in words if len(text) + 2 < room), ""),
    }
