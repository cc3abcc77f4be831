"""Charts of what moved over time, and of whether the predictions came true."""

import altair as alt

from league.drawing.words import number, plural
from league.pages.gathered import Gathered
from league.pages.matrices import role_colour


def rating_gap(gathered: Gathered) -> alt.LayerChart:
    """Return the students' mean rating minus the teachers' over rounds.

    Drawn without the jumps at replacements; dashed with them, where there were any.
    """
    found = gathered.drift
    names = ["without the jumps at replacements", "with them"]
    gaps = [found.gap_centred, *([found.gap] if gathered.replacements else [])]
    values = [
        {"round": int(at), "gap": gap, "counted": name, "role": "student"}
        for name, series in zip(names, gaps, strict=False)
        for at, gap in zip(found.rounds, series, strict=True)
    ]
    x = alt.X("round:Q", title="rounds", scale=alt.Scale(domain=[0, max(1, gathered.rounds)]))
    y = alt.Y("gap:Q", title="rating units")
    legend = alt.Legend(title=None, columns=1, labelLimit=300) if len(gaps) > 1 else None
    pick = alt.selection_point(name="pick", fields=["counted"], bind="legend")
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=x, y=y, tooltip=["round:Q", alt.Tooltip("gap:Q", format=".2f"), "counted:N"]
    )
    line = base.mark_line(strokeWidth=2.2).encode(
        color=role_colour(),
        strokeDash=alt.StrokeDash("counted:N", legend=legend)
        .sort(names)
        .scale(domain=names[: len(gaps)], range=[[1, 0], [5, 4]][: len(gaps)]),
        opacity=alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.1)),
    )
    zero = alt.Chart(alt.InlineData(values=[{"gap": 0}])).mark_rule().encode(y=y)
    line = line.properties(name="lines").add_params(pick)
    dots = base.mark_point(filled=True, size=40, opacity=0)
    return alt.LayerChart(layer=[zero, line, dots]).properties(
        width=480, height=220, description="Mean rating of students minus that of teachers"
    )


def against_anchors(gathered: Gathered) -> alt.LayerChart:
    """Return solve rates of our students and of our teachers' tasks in matches with anchors."""
    values = [
        {
            "round": min((x.first + x.last + 1) / 2, float(gathered.rounds)),
            "solved": x.solve_rate,
            "role": x.role,
            "who": f"our {x.role}s",
            "rounds": f"{x.first} to {x.last}",
            "played": plural(x.matches, "match"),
        }
        for x in gathered.drift.against_anchors
        if x.solve_rate is not None
    ]
    domain = [f"our {role}s" for role in gathered.boards]
    pick = alt.selection_point(name="pick", fields=["who"], bind="legend")
    legend = alt.Legend(title=None)
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("round:Q", title="rounds").scale(domain=[0, max(1, gathered.rounds)]),
        y=alt.Y("solved:Q", title="tasks solved", axis=alt.Axis(format="%")).scale(domain=[0, 1]),
        color=alt.Color("who:N", legend=legend, scale=alt.Scale(domain=domain)),
        opacity=alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.1)),
        tooltip=["who:N", "rounds:N", alt.Tooltip("solved:Q", format=".1%"), "played:N"],
    )
    line = base.mark_line(strokeWidth=2.2).properties(name="lines").add_params(pick)
    return alt.LayerChart(layer=[line, base.mark_point(filled=True, size=50)]).properties(
        width=480, height=220, description="Solve rates in matches with anchors"
    )


def calibration_plot(gathered: Gathered) -> alt.LayerChart:
    """Return the observed over the expected share of the tasks; numbers count the matches."""
    deciles = gathered.calibration.deciles
    values = [
        {
            "expected": x.predicted,
            "observed": x.observed,
            "middle": (x.low + x.high) / 2,
            "matches": x.matches,
            "tasks": x.tasks,
            "role": "student",
        }
        for x in deciles
        if x.predicted is not None and x.observed is not None
    ]
    unit, share = alt.Scale(domain=[0, 1]), alt.Axis(format="%", tickCount=5)
    name = "expected share for the student"
    x = alt.X("expected:Q", title=name, scale=unit, axis=share)
    y = alt.Y("observed:Q", title="observed", scale=unit, axis=share)
    corners = alt.InlineData(values=[{"expected": at, "observed": at} for at in (0, 1)])
    diagonal = (
        alt.Chart(corners)
        .mark_line(strokeDash=[5, 4], strokeWidth=1)
        .encode(x=x, y=y, color=alt.value("#8a94a0"))
    )
    tips = [alt.Tooltip(f"{f}:Q", format=".1%") for f in ("expected", "observed")]
    base = alt.Chart(alt.InlineData(values=values))
    dots = base.mark_point(filled=True, opacity=0.9).encode(
        x=x,
        y=y,
        size=alt.Size("matches:Q", legend=None).scale(range=[30, 260]),
        color=role_colour(),
        tooltip=[*tips, "matches:Q", "tasks:Q"],
    )
    counts = base.mark_text(fontSize=10, opacity=0.75).encode(
        x=alt.X("middle:Q", title=name), y=alt.value(273), text=alt.Text("matches:Q", format=",")
    )
    return alt.LayerChart(layer=[diagonal, dots, counts]).properties(
        width=480, height=280, description="Observed over expected share of the tasks"
    )


def drift_words(gathered: Gathered) -> str:
    """The course of the gap, and whether ratings were conserved, in words."""
    found = gathered.drift
    words = found.statement
    if found.conserved:
        words += (
            f" In all {plural(found.checked, 'match')} that were checked, what one side gained the "
            "other lost, as it must be."
        )
    elif found.conserved is not None:
        words += (
            f" The weighted mean of two ratings moved by up to {found.largest_imbalance:.2g} in a "
            "match, which it must not."
        )
    return words


def offset_words(gathered: Gathered) -> str:
    """The sums of the replacement offsets, in words."""
    found = gathered.drift
    return (
        f"Replacements moved the mean of the teachers by {number(found.teacher_offset)} and that "
        f"of the students by {number(found.student_offset)} in all: a change of the zero point."
    )
