"""Charts of a league, as Altair charts that show themselves in a notebook.

`league_chart(league).save("league.html", inline=True)` writes a page that works offline.
"""

from collections.abc import Mapping
from typing import Any

import altair as alt

from league.analysis import Calibration, calibration, tables
from league.game_theory import LIMIT, Payoff, alpha_rank, nash
from league.league import League
from league.probability import Z95

_DRAWN = 8
_ROWS = 40
_NUMBERS_UP_TO = 14
_WIDTH = 460


def league_chart(league: League) -> alt.VConcatChart:
    """Return all charts of an open league; matrix and game theory take the best 32 of a side."""
    state, payoff = league.state, league.payoff(top=LIMIT)
    anchors = sum(member.anchor for member in state.members.values())
    title = alt.TitleParams(
        f"League of {' and '.join(f'{len(names)} {role}s' for role, names in state.slots.items())}",
        subtitle=f"{len(state.rounds)} rounds, {len(state.outcomes)} matches, "
        f"{len(state.replacements)} replacements, {anchors} anchors",
        anchor="start",
    )
    matrix: list[alt.LayerChart] = [payoff_chart(payoff)]
    if any(outcome.counted for outcome in state.outcomes.values()):
        matrix.append(calibration_chart(calibration(league.directory)))
    rows = [
        _row(*(skills_chart(league, role) for role in state.slots)),
        _row(*(ratings_chart(league, role) for role in state.slots)),
        _row(*matrix),
    ]
    for found, name in (
        (nash(payoff, fill=True), "Nash equilibrium: weight"),
        (alpha_rank(payoff, fill=True), "alpha-rank: share of time"),
    ):
        sides = (("teachers", found.teachers), ("students", found.students))
        rows.append(_row(*(shares_chart(shares, f"{name} of {side}") for side, shares in sides)))
    return alt.VConcatChart(vconcat=rows, title=title)


def skills_chart(league: League, role: str) -> alt.LayerChart:
    """Return the skill of each living member with its 95 % interval, best first."""
    board = league.leaderboard(role)[:_ROWS]
    base = _chart({"member": row.member} | _interval(row.mu, row.sigma) for row in board)
    base = base.encode(y=alt.Y("member:N", sort=[row.member for row in board], title=None))
    scale, title = alt.Scale(zero=False), "skill with 95 % interval"
    bar = base.mark_bar(height=5, opacity=0.4).encode(
        x=alt.X("low:Q", scale=scale, title=title), x2="high:Q"
    )
    dot = base.mark_point(filled=True, opacity=1).encode(
        x=alt.X("mu:Q", scale=scale, title=title), tooltip=_tips("member:N", "mu:Q", "low:Q")
    )
    return alt.LayerChart(layer=[bar, dot]).properties(
        width=_WIDTH, height=alt.Step(18), title=f"Skills of the {role}s"
    )


def ratings_chart(league: League, role: str) -> alt.LayerChart:
    """Return mu of the best living members of a role over rounds, each in its 95 % band."""
    board = league.leaderboard(role)
    kept = [row.member for row in board[:_DRAWN]]
    table = tables(league).ratings
    columns = (table[name] for name in ("round", "member", "mu", "sigma"))
    base = _chart(
        {"round": number, "member": member} | _interval(mu, sigma)
        for number, member, mu, sigma in zip(*columns, strict=True)
        if member in kept
    ).encode(x=alt.X("round:Q", title="rounds"), color=alt.Color("member:N", sort=kept, title=None))
    scale = alt.Scale(zero=False)
    line = base.mark_line().encode(
        y=alt.Y("mu:Q", scale=scale), tooltip=_tips("member:N", "round:Q", "mu:Q")
    )
    band = base.mark_area(opacity=0.1).encode(
        y=alt.Y("low:Q", scale=scale, title="mu"), y2="high:Q"
    )
    more = f", the best {_DRAWN}" if len(board) > _DRAWN else ""
    return alt.LayerChart(layer=[band, line]).properties(
        width=_WIDTH, height=220, title=f"Ratings of the {role}s over rounds{more}"
    )


def payoff_chart(payoff: Payoff) -> alt.LayerChart:
    """Return who solves whose tasks; cells of pairs that have never met are left empty."""
    base = _chart(
        {"teacher": t, "student": s, "solved": payoff.observed[i][j], "tasks": payoff.tasks[i][j]}
        for i, t in enumerate(payoff.teachers)
        for j, s in enumerate(payoff.students)
        if payoff.observed[i][j] is not None
    ).encode(
        x=alt.X("student:N", sort=list(payoff.students), axis=alt.Axis(orient="top")),
        y=alt.Y("teacher:N", sort=list(payoff.teachers)),
        tooltip=_tips("teacher:N", "student:N", "solved:Q", "tasks:Q"),
    )
    numbered = max(len(payoff.teachers), len(payoff.students)) <= _NUMBERS_UP_TO
    scale = alt.Scale(domain=[0, 1], scheme="blueorange", reverse=True)
    layers = [base.mark_rect().encode(color=alt.Color("solved:Q", scale=scale))]
    if numbered:
        layers.append(base.mark_text().encode(text=alt.Text("solved:Q", format=".0%")))
    cell = alt.Step(44 if numbered else 20)
    return alt.LayerChart(layer=layers).properties(
        width=cell, height=cell, title="Share of rollouts that solved the teacher's tasks"
    )


def calibration_chart(found: Calibration) -> alt.LayerChart:
    """Return the observed against the predicted share of the tasks, by fifths of the matches."""
    unit = alt.Scale(domain=[0, 1])
    x, y = alt.X("predicted:Q", scale=unit), alt.Y("observed:Q", scale=unit)
    diagonal = _chart({"predicted": at, "observed": at} for at in (0, 1))
    dots = _chart(
        {"predicted": predicted, "observed": observed, "matches": matches}
        for predicted, observed, matches in found.bins
    )
    layers = [
        diagonal.mark_line(strokeDash=[5, 4], color="gray").encode(x=x, y=y),
        dots.mark_point(filled=True, size=80).encode(
            x=x, y=y, tooltip=_tips("predicted:Q", "observed:Q", "matches:Q")
        ),
    ]
    return alt.LayerChart(layer=layers).properties(
        width=240, height=240, title="Predicted and observed share of tasks"
    )


def shares_chart(shares: Mapping[str, float], title: str) -> alt.Chart:
    """Return shares by member as bars, the largest first."""
    ranked = sorted(shares.items(), key=lambda item: -item[1])[:_DRAWN]
    base = _chart({"member": name, "share": share} for name, share in ranked)
    bars: alt.Chart = base.mark_bar().encode(
        x=alt.X("share:Q", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("member:N", sort=None, title=None),
        tooltip=_tips("member:N", "share:Q"),
    )
    return bars.properties(width=_WIDTH, height=alt.Step(18), title=title)


def _row(*charts: alt.Chart | alt.LayerChart) -> alt.HConcatChart:
    resolve = alt.Resolve(scale={"color": "independent"})
    return alt.HConcatChart(hconcat=list(charts), resolve=resolve)


def _interval(mu: float, sigma: float) -> dict[str, float]:
    return {"mu": mu, "low": mu - Z95 * sigma, "high": mu + Z95 * sigma}


def _chart(rows: Any) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(rows)))


def _tips(*fields: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip(name, format=".3~f") if name.endswith(":Q") else alt.Tooltip(name)
        for name in fields
    ]
