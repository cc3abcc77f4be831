"""Rating bands over rounds: what the league believes of each member, and how surely."""

import math
from collections.abc import Iterable
from typing import Any

import altair as alt
import numpy as np

from league.basics.data import Floats
from league.history.drift import jumps
from league.history.history import History, Life
from league.pages.gathered import Gathered
from league.rating.normal import Z95

LIVING = 8
"""So many living members of a role are drawn, the best."""
LIVES = 40
"""At most so many lives of a role are drawn."""
_POINTS = 1200


def rating_bands(gathered: Gathered, role: str, *, centred: bool = False) -> alt.LayerChart:
    """Return mu of a role's members over rounds, each in its 95 % band, and its frozen anchors.

    Long lives are thinned. centred: without the jumps of a role's mean at replacements, which are
    ticks on top, and without anchors. Both roles share one vertical range.
    """
    past = gathered.history
    lives = shown_lives(gathered, role)
    living = [row.member for row in gathered.boards[role]]
    moved = jumps(past, role) if centred else np.zeros(len(past.sampled))
    rows = list(_rows(past, lives, moved))
    last = list({row["member"]: row for row in rows}.values())
    pick = alt.selection_point(name="pick", fields=["member"], bind="legend")
    on, off = alt.value(1.0), alt.value(0.05)
    x = alt.X("round:Q", title="rounds", scale=alt.Scale(domain=[0, max(1, past.rounds)]))
    y, low = (
        alt.Y(f"{f}:Q", title="mu, relative", scale=alt.Scale(domain=_range(gathered, centred)))
        for f in ("mu", "low")
    )
    keys = alt.Legend(title=None, values=[name for name in living if name in {*_names(lives)}])
    colour = alt.Color("member:N", legend=keys, sort=_names(lives))
    tips = [alt.Tooltip(f"{f}:Q", format=".1f") for f in ("mu", "low", "high")]
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, color=colour)
    band = base.mark_area(clip=True).encode(
        y=low,
        y2="high:Q",
        opacity=alt.when(pick).then(alt.value(0.12)).otherwise(alt.value(0.0)),
    )
    shown = alt.when(pick).then(on).otherwise(off)
    line = base.mark_line(clip=True, strokeWidth=1.6).encode(y=y, opacity=shown)
    line = line.properties(name="lines").add_params(pick)
    dots = base.mark_point(clip=True, filled=True, size=40, opacity=0).encode(
        y=y, tooltip=["member:N", "round:Q", *tips]
    )
    ends = alt.Chart(alt.InlineData(values=last)).mark_point(clip=True, size=30)
    shape = alt.Shape("end:N", legend=None).scale(domain=["lives", "replaced"], range=_MARKS)
    crosses = ends.encode(x=x, y=y, color=colour, shape=shape, opacity=shown)
    layers = [band, *_others(gathered, role, moved, centred, x, y), line, crosses, dots]
    return alt.LayerChart(layer=layers).properties(
        width=480,
        height=230,
        description=f"Ratings of {role}s over rounds, each with its 95 % band",
    )


_MARKS = ["circle", "M-1,-1L1,1M-1,1L1,-1"]


def shown_lives(gathered: Gathered, role: str) -> list[Life]:
    """The lives of a role that are drawn, in order of arrival."""
    living = [row.member for row in gathered.boards[role]]
    everyone = gathered.history.everyone(role)
    kept = set(living[:LIVING])
    if len(living) <= LIVING:
        gone = [life.name for life in everyone if life.ended is not None]
        kept |= set(gone[max(0, len(gone) + len(living) - LIVES) :])
    return [life for life in everyone if life.name in kept]


def left_out(gathered: Gathered) -> list[str]:
    """What the pictures of the two roles leave out, in words."""
    words = []
    for role, board in gathered.boards.items():
        everyone, kept = len(gathered.history.everyone(role)), len(shown_lives(gathered, role))
        if len(board) > LIVING:
            words.append(f"the {LIVING} best of {len(board)} living {role}s")
        elif everyone > kept:
            words.append(f"the {kept} latest of {everyone} {role}s")
    return words


def _names(lives: Iterable[Life]) -> list[str]:
    return [life.name for life in lives]


def _rows(past: History, lives: list[Life], moved: Floats) -> Iterable[dict[str, Any]]:
    column = {life.name: i for i, life in enumerate(past.lives)}
    alive = int((~np.isnan(past.mu[:, [column[x.name] for x in lives]])).sum())
    every = max(1, math.ceil(alive / _POINTS))
    for life in lives:
        mu = past.mu[:, column[life.name]] - moved
        reach = Z95 * past.sigma[:, column[life.name]]
        where = np.flatnonzero(~np.isnan(mu)).tolist()
        for k, i in enumerate(where):
            if k % every == 0 or k == len(where) - 1:
                yield {
                    "member": life.name,
                    "round": int(past.sampled[i]),
                    "mu": round(float(mu[i]), 3),
                    "low": round(float(mu[i] - reach[i]), 3),
                    "high": round(float(mu[i] + reach[i]), 3),
                    "end": "lives" if life.ended is None else "replaced",
                }


def _range(gathered: Gathered, centred: bool) -> list[float]:
    """What all bands need, without the widest of the beginning: those run out of the picture."""
    past = gathered.history
    column = {life.name: i for i, life in enumerate(past.lives)}
    known = ~np.isnan(past.sigma)
    usual = 1.5 * float(np.median(past.sigma[known])) if known.any() else 0.0
    ends = [] if centred else [life.rating.mu for life in gathered.anchors]
    for role in gathered.boards:
        moved = jumps(past, role) if centred else np.zeros(len(past.sampled))
        for life in shown_lives(gathered, role):
            reach = Z95 * np.minimum(past.sigma[:, column[life.name]], usual)
            for side in (-1.0, 1.0):
                edge = past.mu[:, column[life.name]] - moved + side * reach
                ends += edge[~np.isnan(edge)].tolist()
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = 0.04 * (high - low) if high - low > 1e-9 else 0.5
    return [low - room, high + room]


def _others(
    gathered: Gathered, role: str, moved: Floats, centred: bool, x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    """Anchors as dashed lines, the mean of a large role in grey, ticks where children came."""
    past, found = gathered.history, []
    frozen = [
        {"member": life.name, "round": life.born, "until": past.rounds, "mu": life.rating.mu}
        for life in gathered.anchors
        if life.role == role and not centred
    ]
    if frozen:
        rule = alt.Chart(alt.InlineData(values=frozen)).mark_rule(strokeDash=[5, 4], clip=True)
        tips = [alt.Tooltip("member:N", title="frozen"), alt.Tooltip("mu:Q", format=".1f")]
        found.append(rule.encode(x=x, x2="until:Q", y=y, tooltip=tips))
    if len(gathered.boards[role]) > LIVING:
        drift = gathered.drift
        mean = np.array(drift.teacher_mean if role == "teacher" else drift.student_mean) - moved
        rows = [
            {"round": int(at), "mu": value}
            for at, value in zip(drift.rounds, mean.tolist(), strict=True)
        ]
        line = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=2.4, clip=True)
        found.append(line.encode(x=x, y=y, color=alt.value("#8a94a0")))
    births = sorted({life.born for life in past.everyone(role) if life.parents})
    if births:
        ticks = alt.Chart(alt.InlineData(values=[{"round": at} for at in births]))
        tips = [alt.Tooltip("round:Q", title="a child came in round")]
        found.append(ticks.mark_tick(size=8).encode(x=x, y=alt.value(0), tooltip=tips))
    return found
