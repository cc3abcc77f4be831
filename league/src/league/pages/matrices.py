"""Heat maps of solve rates, and bars of members' skills and shares."""

from collections.abc import Iterable, Sequence

import altair as alt

from league.history.generations import Cohort
from league.pages.gathered import Gathered
from league.rating.normal import Z95
from league.selection.leaderboard import Standing
from league.state.records import ROLES

ROWS = 40
"""At most so many members of a role are listed."""
_NUMBERS_UP_TO = 14
_BARS = 10
_LEAST = 0.005


def role_colour() -> alt.Color:
    """Return the encoding of a role: teachers in the theme's first colour, students in the next."""
    return alt.Color("role:N", legend=None, scale=alt.Scale(domain=list(ROLES)))


def payoff_matrix(gathered: Gathered) -> alt.LayerChart:
    """Return who solves whose tasks: teachers down, students across, best first."""
    grid = gathered.grid
    about = "Share of rollouts that solved the teacher's valid tasks"
    return heat_map(grid.teachers, grid.students, grid.solve_rate, grid.tasks, about)


def generations_matrix(gathered: Gathered) -> alt.LayerChart:
    """Return later members against earlier ones, grouped by the rounds in which they came."""
    found = gathered.generations
    rows, columns = ([_span(c) for c in side] for side in (found.teachers, found.students))
    rows = [f"born {row}" for row in rows]
    return heat_map(rows, columns, found.solve_rate, found.tasks, "Solve rates by generation")


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[float | None]],
    tasks: Sequence[Sequence[int]],
    about: str,
) -> alt.LayerChart:
    """Return solve rates, shape [rows, columns], as cells from orange (none) to blue (all).

    Cells that are None are left empty; numbers stand in the cells as long as they have room.
    """
    values = [
        {"teacher": t, "student": s, "rate": cells[i][j], "tasks": tasks[i][j]}
        for i, t in enumerate(rows)
        for j, s in enumerate(columns)
    ]
    numbered = max(len(rows), len(columns)) <= _NUMBERS_UP_TO
    top = alt.Axis(orient="top", labelAngle=-50, labelLimit=120, domain=False, ticks=False)
    side = alt.Axis(labelLimit=120, domain=False, ticks=False)
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("student:N", sort=list(columns), axis=top, title=None),
        y=alt.Y("teacher:N", sort=list(rows), axis=side, title=None),
        tooltip=["teacher:N", "student:N", alt.Tooltip("rate:Q", format=".1%"), "tasks:Q"],
    )
    legend = alt.Legend(format="%", title="solved", gradientLength=200, values=[0, 0.5, 1])
    scale = alt.Scale(domain=[0, 1], domainMid=0.5, interpolate="rgb")
    colour = alt.Color("rate:Q", scale=scale, legend=legend)
    blank = base.transform_filter("datum.rate === null").mark_rect(
        filled=False, stroke="#8a94a0", strokeWidth=0.6, strokeDash=[2, 3]
    )
    played = base.transform_filter("datum.rate !== null")
    layers = [blank, played.mark_rect().encode(color=colour)]
    if numbered:
        layers.append(
            played.transform_calculate(shown="round(100 * datum.rate)")
            .mark_text()
            .encode(text="shown:Q")
        )
    cell = alt.Step(44 if numbered else 20)
    return alt.LayerChart(layer=layers).properties(width=cell, height=cell, description=about)


def skills(gathered: Gathered, role: str) -> alt.LayerChart:
    """Return where each living member's skill lies with 95 % probability, best first."""
    every = [row for board in gathered.boards.values() for row in board[:ROWS]]
    domain = [min(_reach(r, -1.0) for r in every), max(_reach(r, 1.0) for r in every)]
    board = gathered.boards[role][:ROWS]
    values = [
        {"member": r.member, "role": role, "mu": r.mu, "low": low, "high": high}
        for r in board
        for low, high in [(_reach(r, -1.0), _reach(r, 1.0))]
    ]
    tips = [alt.Tooltip(f"{f}:Q", format=".1f") for f in ("mu", "low", "high")]
    low, mu = (alt.X(f, title="skill, 95 %").scale(domain=domain) for f in ("low:Q", "mu:Q"))
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("member:N", sort=[r.member for r in board], title=None),
        color=role_colour(),
        tooltip=["member:N", *tips],
    )
    bar = base.mark_bar(height=6, opacity=0.45, cornerRadius=3).encode(x=low, x2="high:Q")
    dot = base.mark_point(filled=True, size=50, opacity=1).encode(x=mu)
    about = f"Skills of the {role}s with 95 % intervals"
    return alt.LayerChart(layer=[bar, dot]).properties(
        width=480, height=alt.Step(20), description=about
    )


def nash_shares(gathered: Gathered, role: str) -> alt.LayerChart:
    """Return each member's share in the mixture that its opponents can exploit least."""
    assert gathered.nash is not None
    side = gathered.nash.teachers if role == ROLES[0] else gathered.nash.students
    return _shares(gathered, role, ((x.member, x.weight) for x in side))


def alpha_rank_shares(gathered: Gathered, role: str) -> alt.LayerChart:
    """Return the share of time for which each member would rule its role."""
    found = gathered.alpha_rank
    assert found is not None
    if role == ROLES[0]:
        return _shares(gathered, role, zip(found.teachers, found.teacher_mass, strict=True))
    return _shares(gathered, role, zip(found.students, found.student_mass, strict=True))


def _shares(gathered: Gathered, role: str, members: Iterable[tuple[str, float]]) -> alt.LayerChart:
    ranked = sorted(members, key=lambda x: -x[1])
    kept = [x for x in ranked if x[1] >= _LEAST][:_BARS]
    values = [
        {"member": name, "role": role, "share": share, "said": f"{100 * share:.0f} %{doubt}"}
        for name, share in kept
        for doubt in [", not played yet" if name in gathered.unplayed else ""]
    ]
    rest = ranked[len(kept) :]
    more = f"{len(rest)} more with {100 * sum(share for _, share in rest):.0f} % in all"
    x = alt.X("share:Q", axis=None, scale=alt.Scale(domain=[0, 1.6 * kept[0][1]]))
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=x,
        y=alt.Y("member:N", sort=None, title=None),
        tooltip=["member:N", alt.Tooltip("share:Q", format=".1%")],
    )
    return alt.LayerChart(
        layer=[
            base.mark_bar(cornerRadius=2).encode(color=role_colour()),
            base.mark_text(align="left", dx=5).encode(text="said:N"),
        ]
    ).properties(
        width=480,
        height=alt.Step(22),
        title=alt.TitleParams(more if rest else "", fontSize=11, anchor="start", orient="bottom"),
        description=f"Shares of the {role}s",
    )


def _reach(row: Standing, side: float) -> float:
    return round(row.mu + side * Z95 * row.sigma, 3)


def _span(cohort: Cohort) -> str:
    return str(cohort.first) if cohort.first == cohort.last else f"{cohort.first}–{cohort.last}"
