"""The page of `league report --html`: charts of a league in one file that works offline, light or
dark as the reader's system."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from league.analysis import Calibration, calibration, tables
from league.errors import LeagueError
from league.league import League
from league.ratings import Z95
from league.selection import Payoff
from league.state import Member
from league.store import write_atomically

try:
    import altair as alt
    import vl_convert
except ModuleNotFoundError as error:
    raise LeagueError(
        f"charts need {error.name}; type: {sys.executable} -m pip install altair vl-convert-python"
    ) from error

PALETTE = (
    *("#3b82d6", "#d1682a", "#259a72", "#a05fc4", "#b38600"),
    *("#c0473a", "#2a9fb5", "#d0669c", "#7a8b2f", "#8a94a0"),
)
"""Colours of members and bars on all pages; each can be seen on white and on a dark page."""
_DRAWN, _RETIRED = 8, 40
_ROWS = 40
_MATRIX_ROWS = 32
_NUMBERS_UP_TO = 14
_CROSS = "M-1,-1L1,1M1,-1L-1,1"
_SKILL = "skill (TrueSkill rating)"
_SHORT = (
    "length(datum.label) > 18 ? slice(datum.label, 0, 8) + '…' + slice(datum.label, -9) "
    ": datum.label"
)
"""A member's name; of a long name, its beginning and its end."""
_NAMES = alt.Axis(labelExpr=_SHORT, labelLimit=130)


class Panel(NamedTuple):
    """A chart with its title and how to read it; `wide` takes a row of its own."""

    title: str
    hint: str
    chart: alt.Chart | alt.LayerChart
    wide: bool = False


def panels(league: League) -> list[Panel]:
    """Return the charts of an open league in the order of a page; skills alone until a match has
    been rated."""
    state, payoff = league.state, league.payoff(top=_MATRIX_ROWS)
    every = [skills_panel(league, role) for role in state.slots]
    if not any(outcome.counted for outcome in state.outcomes.values()):
        return every
    every += [ratings_panel(league, role) for role in state.slots]
    return [*every, payoff_panel(payoff), calibration_panel(calibration(league.directory))]


def skills_panel(league: League, role: str) -> Panel:
    """Return mu of each living member with ± 1.96 sigma, best first."""
    board = league.leaderboard(role)
    base = _chart({"member": row.member} | _interval(row.mu, row.sigma) for row in board[:_ROWS])
    names = [row.member for row in board]
    base = base.encode(y=alt.Y("member:N", sort=names, title=None, axis=_NAMES))
    scale = alt.Scale(zero=False)
    low = alt.X("low:Q", scale=scale, title=_SKILL, axis=alt.Axis(tickCount=5))
    bar = base.mark_bar(height=5, opacity=0.4).encode(x=low, x2="high:Q")
    tips = _tips("member:N", "mu:Q", "low:Q", "high:Q")
    mu = alt.X("mu:Q", scale=scale, title=_SKILL)
    dot = base.mark_point(filled=True, opacity=1).encode(x=mu, tooltip=tips)
    chart = alt.LayerChart(layer=[bar, dot]).properties(height=alt.Step(18))
    hint = (
        "Best first. Dot: the rating μ; bar: μ ± 1.96 σ. Only differences matter: no match shows "
        "the level of all together, and σ includes the doubt about it."
    )
    return Panel(f"Skills of the {role}s{_best(_ROWS, board)}", hint, chart)


def ratings_panel(league: League, role: str) -> Panel:
    """Return mu of the members of a role over rounds: the best living ones in colour with ± 1.96
    sigma, the last replaced ones in grey, and lines from parents to children."""
    board = league.leaderboard(role)
    best = [row.member for row in board[:_DRAWN]]
    lives = {m.name: m for m in league.state.members.values() if m.role == role}
    ends = sorted((r.rounds, r.member) for r in league.state.replacements if r.member in lives)
    retired = {name: ended for ended, name in ends[-_RETIRED:]}
    tracks, births = _tracks(league, lives, best, retired)
    columns = max(1, 36 // (4 + max(map(len, best))))
    legend = alt.Legend(orient="bottom", columns=columns, labelLimit=230, symbolOpacity=1)
    x = alt.X("round:Q", title="rounds played", axis=alt.Axis(tickMinStep=1, tickCount=6))
    scale = alt.Scale(zero=False)
    y = alt.Y("mu:Q", scale=scale)
    color = alt.Color("member:N", sort=best, title=None, legend=legend)
    base = _chart(row for name in best for row in tracks[name]).encode(x=x, color=color)
    fields = ("member:N", "parents:N", "round:Q", "mu:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=12)).encode(y=y, tooltip=_tips(*fields))
    past = _chart(
        row | {"last": row is tracks[name][-1], "replaced": ended}
        for name, ended in retired.items()
        for row in tracks.get(name, ())
    ).encode(x=x, y=y, detail="member:N")
    crosses = past.transform_filter("datum.last").mark_point(shape=_CROSS, color="#888", size=30)
    joints = _chart(births).mark_rule(strokeDash=[2, 2], color="#888")
    tips = _tips("parent:N", "member:N", "operator:N", "round:Q")
    joints = joints.encode(x=x, y=y, y2="to:Q", tooltip=tips)
    low = alt.Y("low:Q", scale=scale, title=_SKILL)
    layers = [base.mark_area(opacity=0.1).encode(y=low, y2="high:Q"), line]
    hint = "With μ ± 1.96 σ. Only differences matter: if both sides improve alike, no line moves."
    if retired:
        layers = [past.mark_line(strokeWidth=1, color="#888"), joints, *layers]
        layers.append(crosses.encode(tooltip=_tips(*fields, "replaced:Q")))
        hint += " Grey: members that were replaced (×); a dotted line leads from parent to child."
    chart = alt.LayerChart(layer=layers).properties(height=220)
    return Panel(f"Ratings of the {role}s over rounds{_best(_DRAWN, board)}", hint, chart)


def _tracks(
    league: League, lives: Mapping[str, Member], best: Sequence[str], retired: Mapping[str, int]
) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return the ratings of the best and of the retired members over rounds, by member, and the
    births among them; retired: the round in which each was replaced."""
    history = tables(league)
    columns = (history.ratings[name] for name in ("round", "member", "mu", "sigma"))
    points = [*zip(*columns, strict=True)]
    points += [(n, m, *astuple(lives[m].rating)) for m, n in retired.items()]
    tracks: dict[str, list[dict[str, Any]]] = {}
    for number, member, mu, sigma in points:
        if member in best or member in retired:
            row = {"round": number, "member": member, "parents": " × ".join(lives[member].parents)}
            tracks.setdefault(member, []).append(row | _interval(mu, sigma))
    births = [
        {"round": tracks[name][0]["round"], "mu": near["mu"], "to": tracks[name][0]["mu"]}
        | {"member": name, "parent": parent, "operator": member.operator}
        for name, member in lives.items()
        if name in tracks
        for parent in member.parents
        if parent in tracks
        for near in [min(tracks[parent], key=lambda row: abs(row["round"] - member.born))]
    ]
    return tracks, births


def payoff_panel(payoff: Payoff) -> Panel:
    """Return who solves whose tasks; cells of pairs that have never met are empty."""
    count = len(payoff.students)
    upright = sum(map(len, payoff.students)) > 36
    base = _chart(
        {"teacher": t, "student": s, "solved": payoff.observed[i][j], "tasks": payoff.tasks[i][j]}
        for i, t in enumerate(payoff.teachers)
        for j, s in enumerate(payoff.students)
        if payoff.observed[i][j] is not None
    ).encode(
        x=alt.X("student:N", sort=list(payoff.students), title="student").axis(
            orient="top", labelAngle=-90 if upright else 0, labelExpr=_SHORT, labelLimit=130
        ),
        y=alt.Y("teacher:N", sort=list(payoff.teachers), title="teacher", axis=_NAMES),
        tooltip=_tips("teacher:N", "student:N", "solved:Q", "tasks:Q"),
    )
    scale = alt.Scale(domain=[0, 1], scheme="blueorange", reverse=True)
    legend = alt.Legend(orient="bottom", format="%", titleLimit=400)
    color = alt.Color("solved:Q", scale=scale, title="solved share of attempts", legend=legend)
    layers = [base.mark_rect(stroke="gray", strokeOpacity=0.5).encode(color=color)]
    if max(count, len(payoff.teachers)) <= _NUMBERS_UP_TO:
        size = alt.ExprRef(f"min(12, width / {2 * count})")
        pale = "abs(datum.solved - 0.5) < 0.3"
        ink = alt.when(pale).then(alt.value("#1c2128")).otherwise(alt.value("#ffffff"))
        percent = base.transform_calculate(percent="round(100 * datum.solved)")
        layers.append(percent.mark_text(fontSize=size).encode(text="percent:N", color=ink))
    chart = alt.LayerChart(layer=layers).properties(height=alt.Step(26))
    hint = (
        "Right attempts of each student (column) at each teacher's valid tasks (row), in %. Empty "
        "where the two have never met."
    )
    return Panel("Who solves whose tasks", hint, chart, wide=True)


def calibration_panel(result: Calibration) -> Panel:
    """Return the observed share of the tasks by the predicted share, for fifths of the matches."""
    axis = alt.Axis(format="%", tickCount=5)
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("predicted:Q", scale=unit, axis=axis, title="predicted share of tasks solved")
    y = alt.Y("observed:Q", scale=unit, axis=axis, title="observed share")
    diagonal = _chart({"predicted": at, "observed": at} for at in (0, 1))
    names = ("predicted", "observed", "matches")
    dots = _chart(dict(zip(names, row, strict=True)) for row in result.bins).encode(
        x=x, y=y, tooltip=_tips("predicted:Q", "observed:Q", "matches:Q")
    )
    line = diagonal.mark_line(strokeDash=[5, 4], color="gray").encode(x=x, y=y)
    chart = alt.LayerChart(layer=[line, dots.mark_point(filled=True, size=80)])
    hint = (
        "Each dot is a fifth of the matches, predicted from earlier results. On the dashed line, "
        "predictions come true."
    )
    return Panel("Do predictions come true?", hint, chart.properties(height=240), wide=True)


def _best(most: int, board: Sequence[object]) -> str:
    return f", the best {most} of {len(board)}" if len(board) > most else ""


def _interval(mu: float, sigma: float) -> dict[str, float]:
    return {"mu": mu, "low": mu - Z95 * sigma, "high": mu + Z95 * sigma}


def _chart(rows: Any) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(rows)))


def _tips(*fields: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f, format=".3~f") if f.endswith(":Q") else alt.Tooltip(f) for f in fields]


def write_page(path: Path, league: League) -> None:
    """Write the page of an open league, whole or not at all."""
    sides = ((len(names), role) for role, names in league.state.slots.items())
    title = "League of " + " and ".join(f"{n} {role}{'s' * (n != 1)}" for n, role in sides)
    lead = (
        "Who is best in a league in which teachers set tasks and students solve them. Every match "
        "is a batch of tasks; from its result both sides get a TrueSkill rating. Until now: "
        f"{league.state.played}."
    )
    charts = []
    figures = ""
    for number, panel in enumerate(panels(league)):
        chart = panel.chart.properties(width="container").to_dict()
        chart["autosize"] = {"type": "fit-x", "contains": "padding"}
        charts.append({k: v for k, v in chart.items() if k not in ("$schema", "config")})
        kind = ' class="wide"' if panel.wide else ""
        figures += (
            f"<figure{kind}><h2>{escape(panel.title)}</h2>"
            f'<p class="hint">{escape(panel.hint)}</p><div data-chart="{number}"></div></figure>\n'
        )
    data = json.dumps(charts).replace("<", "\\u003c")
    text = Template(_read("page.html")).substitute(
        title=escape(title), lead=escape(lead), figures=figures, data=data, library=_library()
    )
    write_atomically(path, text.encode(), alone=False)


@cache
def _library() -> str:
    """Vega-Lite with its dependencies, and the script that draws the charts."""
    draw = _read("draw.js").replace("PALETTE", json.dumps(PALETTE))
    return str(vl_convert.javascript_bundle(draw))


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
