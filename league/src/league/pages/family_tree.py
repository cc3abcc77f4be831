"""Who lived when and descends from whom: a bar for each life, hung under its main parent."""

from typing import Literal

import altair as alt

from league.drawing.words import number, short
from league.history.history import Life
from league.pages.gathered import Gathered
from league.pages.matrices import role_colour

LIVES = 48
"""At most so many lives of a role are drawn: the living, their ancestors, the latest dead."""


_PLACES = ("after", "inside", "before")
_ALIGNS: tuple[Literal["left", "right"], ...] = ("left", "left", "right")


def family_tree(gathered: Gathered, role: str) -> alt.LayerChart:
    """Return the lives of a role as bars from birth to replacement, joined to their parents."""
    rounds = max(1, gathered.rounds)
    lives = _ordered(kept_lives(gathered, role))
    order = [life.name for life in lives]
    bars = [_bar(life, rounds) for life in lives]
    joints = [
        {"born": life.born, "parent": parent, "member": life.name, "main": kind}
        for life in lives
        for parent in life.parents
        if parent in order
        for kind in ["main parent" if parent == life.main_parent else "further parent"]
    ]
    born, until = (
        alt.X(f"{f}:Q", title="rounds").scale(domain=[0, rounds]) for f in ("born", "until")
    )
    member, parent = (
        alt.Y(f"{f}:N", title=None, sort=order)
        .scale(domain=order)
        .axis(labelLimit=110, ticks=False, domain=False)
        for f in ("member", "parent")
    )
    tips = [alt.Tooltip(f"{name}:N") for name in ("member", "rounds", "made", "parents")]
    alive = alt.Opacity("alive:N", legend=None)
    alive = alive.scale(domain=["alive", "replaced"], range=[0.95, 0.4])
    base = alt.Chart(alt.InlineData(values=bars))
    bar = base.mark_bar(height={"band": 0.7}, cornerRadius=2).encode(
        x=born, x2="until:Q", y=member, color=role_colour(), opacity=alive, tooltip=tips
    )
    dash = alt.StrokeDash("main:N", legend=None)
    dash = dash.scale(domain=["main parent", "further parent"], range=[[1, 0], [4, 3]])
    joined = alt.Chart(alt.InlineData(values=joints)).mark_rule(strokeWidth=1.3)
    lines = joined.encode(x=born, y=parent, y2="member:N", strokeDash=dash)
    words = [
        base.transform_filter(f"datum.place === '{place}'")
        .mark_text(align=align, dx=4 if align == "left" else -4, fontSize=10.5)
        .encode(x=at, y=member, text="made:N")
        for place, at, align in zip(_PLACES, (until, born, born), _ALIGNS, strict=True)
    ]
    return alt.LayerChart(layer=[bar, lines, *words]).properties(
        width=480, height=alt.Step(20), description=f"Lives of the {role}s and their descent"
    )


def survival_words(gathered: Gathered) -> str:
    """Whose descendants live, and how long members last."""
    parts = []
    for side in (gathered.survival.teachers, gathered.survival.students):
        founders = sum(1 for life in gathered.history.everyone(side.role) if not life.parents)
        verb = "has" if side.founders_alive == 1 else "have"
        text = (
            f"{side.founders_alive} of {founders} founding {side.role}s {verb} living descendants"
        )
        if side.takeover is not None and founders > 1:
            text += f"; since round {side.takeover} all descend from {side.takeover_by}"
        if side.median_life is not None:
            text += f"; half of all {side.role}s are replaced within {side.median_life} rounds"
        parts.append(text + ".")
    return " ".join(parts)


def kept_lives(gathered: Gathered, role: str) -> list[Life]:
    """The lives of a role that its tree draws, in order of arrival."""
    everyone = gathered.history.everyone(role)
    named = {life.name: life for life in everyone}
    queue = sorted((x for x in everyone if x.ended is None), key=lambda x: -x.born)
    kept: dict[str, Life] = {}
    for life in queue:  # grows while it is read
        if len(kept) < LIVES and life.name not in kept:
            kept[life.name] = life
            queue += [named[p] for p in life.parents if p in named]
    for life in reversed(everyone):
        if len(kept) < LIVES:
            kept.setdefault(life.name, life)
    return [life for life in everyone if life.name in kept]


def _ordered(lives: list[Life]) -> list[Life]:
    """Children directly under their main parent, the latest nearest, so that no line crosses."""
    names = {life.name for life in lives}
    children: dict[str, list[Life]] = {}
    roots = []
    for life in lives:
        if life.main_parent in names:
            children.setdefault(life.main_parent, []).append(life)
        else:
            roots.append(life)
    ordered: list[Life] = []
    stack = list(reversed(roots))
    while stack:
        life = stack.pop()
        ordered.append(life)
        stack += children.get(life.name, [])  # the latest is taken first
    return ordered


def _bar(life: Life, rounds: int) -> dict[str, object]:
    until = rounds if life.ended is None else life.ended
    made, room = short(life.operator, 22), 0.015 * len(short(life.operator, 22)) * rounds
    places = {"after": rounds - until, "inside": until - life.born, "before": life.born}
    shares = zip(life.parents, life.weights, strict=True)
    return {
        "member": life.name,
        "role": life.role,
        "born": life.born,
        "until": until,
        "alive": "alive" if life.ended is None else "replaced",
        "rounds": f"{life.born} to {'now' if life.ended is None else until}",
        "made": made,
        "parents": " + ".join(f"{name} ({number(weight)})" for name, weight in shares),
        "place": next((place for place, free in places.items() if free > room), "inside"),
    }
