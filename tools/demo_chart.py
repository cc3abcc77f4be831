"""Draw the chart of README.md: `python tools/demo_chart.py runs/demo docs/screens/demo.png`.

The mean of the living students at each measurement on held-out tasks, and the frozen base.
"""

import sys
from statistics import fmean

import altair as alt

from selfplay import read_run


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


def chart(points: list[dict[str, float]], base: float) -> alt.LayerChart:
    """Return lines with their names at the right end."""
    last = points[-1]
    steps = alt.Scale(domain=[0, last["step"]], nice=False)
    x = alt.X("step:Q", title="training step", scale=steps, axis=alt.Axis(grid=False, tickCount=4))
    percent = alt.Scale(domain=[30, 55], zero=False)
    y = alt.Y("mean:Q", title="tasks solved, %", scale=percent, axis=alt.Axis(tickCount=5))
    low = alt.Y("low:Q", title="tasks solved, %", scale=percent)
    data = alt.Chart(alt.Data(values=points))
    flat = [{"step": 0, "mean": base}, {"step": last["step"], "mean": base}]
    named = [
        {"step": last["step"], "mean": last["mean"], "name": f"students {last['mean']:.0f} %"},
        {"step": last["step"], "mean": base, "name": f"frozen base {base:.0f} %"},
    ]
    return (
        alt.layer(
            data.mark_area(opacity=0.18, color="#1a73e8").encode(x, low, y2="high:Q"),
            alt.Chart(alt.Data(values=flat))
            .mark_line(color="#777", strokeDash=[6, 4], strokeWidth=2)
            .encode(x, y),
            data.mark_line(
                color="#1a73e8", strokeWidth=3, point={"size": 70, "color": "#1a73e8"}
            ).encode(x, y),
            alt.Chart(alt.Data(values=named))
            .mark_text(align="left", dx=10, fontSize=15, fontWeight="bold")
            .encode(
                x,
                y,
                text="name:N",
                color=alt.Color("name:N", scale=alt.Scale(range=["#666", "#1a73e8"]), legend=None),
            ),
        )
        .properties(
            width=560,
            height=230,
            padding={"left": 10, "top": 10, "right": 10, "bottom": 8},
            background="white",
            title=alt.Title(
                "make demo: students get better at held-out tasks",
                subtitle="144 programming tasks that no member is trained on; mean of two "
                "students, band: ± one standard error",
                anchor="start",
                fontSize=17,
                subtitleFontSize=12,
                subtitleColor="#555",
            ),
        )
        .configure_view(stroke=None, clip=False)
        .configure_axis(labelFontSize=12, titleFontSize=12, gridColor="#e8e8e8")
    )


if __name__ == "__main__":
    chart(*students(sys.argv[1])).save(sys.argv[2], scale_factor=2)
