"""Charts of runs, and HTML pages that work offline; how numbers and tables are written.

Every text of a page is escaped, and characters that cannot be seen are spelt out: programs and
answers come from models. Charts are data in an element that no text can close, and the policy of
the page admits its own style and script alone. A chart's function returns None where there is
nothing to show.
"""

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lora_evo import check_output, write_text
from selfplay.run_record import Points, RunRecord, smooth, thin

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""A head and rows."""
MOST_POINTS, MOST_COLUMNS = 200, 40
RATE_BINS = ("0", "0 to ¼", "¼ to ½", "½ to ¾", "¾ to 1", "1")
"""The bins of `StepRow.solve_rates`."""
RATE_COLOURS = ["#b3541e", "#2b4f8c", "#4f7fb5", "#82aed3", "#bcd6ea", "#e3a23a"]
WHOLE_STEPS = alt.Axis(format="d", tickMinStep=1)
PHASES = ("match", "propose", "verify", "solve", "update", "evolve", "weight_sync", "save")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_DRAW = """
const charts = JSON.parse(document.getElementById("charts").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
async function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    await vegaEmbed(place, charts[place.dataset.chart], {
      mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false,
      tooltip: { disableDefaultStyle: true },
      theme: dark.matches ? "dark" : undefined, config: { background: "transparent" },
    });
  }
}
dark.addEventListener("change", draw);
draw();
document.addEventListener("toggle", () => dispatchEvent(new Event("resize")), true);
"""
"""Draws every chart in its place; what was folded away had no width to draw in."""


def write_page(
    path: Path, template: str, charts: Mapping[str, alt.TopLevelMixin], **values: object
) -> None:
    """Write the page of a template with these values; `data-chart` places a chart by its name.

    Equal values give equal bytes. Raises LoraEvoError for a place that cannot hold the page.
    """
    check_output(path)
    style, script = _source("page.css"), _library() + _source("gallery.js")
    data = json.dumps({name: _specification(chart) for name, chart in charts.items()})
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}"
    text = (
        _environment()
        .get_template(template)
        .render(
            values,
            charts=Markup(data.replace("<", "\\u003c")),
            style=Markup(style),
            script=Markup(script),
            policy=f"{policy}; base-uri 'none'; form-action 'none'",
        )
    )
    write_text(path, text)


def visible(text: str) -> str:
    """Return the text with characters that cannot be seen, or turn others around, spelt out."""
    return _INVISIBLE.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def clip(text: str, most: int) -> str:
    """Return the text cut to `most` characters, with a note of what was left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} more characters"


def figure(value: float | None, *, share: bool = False, signed: bool = False) -> str:
    """Return a number with three significant digits, or a percentage for a share."""
    if value is None:
        return "–"
    plus = "+" if signed and value > 0 else ""
    if share:
        return f"{plus}{100 * value:.1f} %".replace("-", "−")
    if abs(value) < 5e-5:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{plus}{value:.{min(max(digits, 0), 4)}f}".replace("-", "−")


def duration(seconds: float) -> str:
    """Return seconds as `4.8 s`, `4 min 10 s` or `2 h 5 min`."""
    whole = round(seconds)
    if seconds < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)


def _specification(chart: alt.TopLevelMixin) -> Any:
    """Return a chart as plain data for the page, as wide as its place."""
    plain = {
        k: v for k, v in chart.to_dict(validate=False).items() if k not in ("$schema", "config")
    }
    plain |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return _shortened(plain)


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shortened(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.5g}")
    return visible(value) if isinstance(value, str) else value


@cache
def _environment() -> Environment:
    def shown(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Markup):
            return visible(value)
        return "" if value is None else value

    made = Environment(
        loader=PackageLoader("selfplay", "templates"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"clip": clip, "figure": figure, "duration": duration}
    return made


def _source(name: str) -> str:
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


@cache
def _library() -> str:
    """Vega-Lite and all it needs, and the script that draws the charts."""
    import vl_convert

    return str(vl_convert.javascript_bundle(_DRAW))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def curves(points: Mapping[str, Points], unit: str) -> alt.LayerChart | None:
    """Return a light raw line and a strong smoothed one for each named series."""
    rows: list[dict[str, Any]] = []
    for name, series in points.items():
        short = thin(series, MOST_POINTS)
        means = dict(smooth(short))
        rows += [
            {"run": name, "step": step, "value": value, "mean": means.get(step)}
            for step, value in short
        ]
    if all(row["value"] is None for row in rows):
        return None
    share = unit.startswith("%")
    axis = alt.Axis(format="%" if share else alt.Undefined, tickCount=4)
    value, mean = (
        alt.Y(f"{f}:Q", title=unit, axis=axis).scale(zero=False) for f in ("value", "mean")
    )
    base, pick, shown = _switched(rows, "run", list(points))
    numbers = [alt.Tooltip(f"{f}:Q", format=".1%" if share else ",.4~r") for f in ("value", "mean")]
    alone = sum(row["value"] is not None for row in rows) <= len(points)
    dots = base.mark_point(filled=True, size=35, opacity=float(alone))
    line = base.transform_filter("isValid(datum.mean)").mark_line(strokeWidth=2.2)
    layers = [
        base.mark_line(strokeWidth=1, strokeOpacity=0.38).encode(y=value),
        line.encode(y=mean, opacity=shown).properties(name="lines").add_params(pick),
        dots.encode(y=value, tooltip=["run:N", "step:Q", *numbers]),
    ]
    return alt.LayerChart(layer=layers).properties(width=340, height=165)


def bands(
    rows: Sequence[dict[str, Any]], name: str, names: Sequence[str], unit: str
) -> alt.LayerChart | None:
    """Return lines with bands of rows with `step`, `low`, `middle` and `high`, one a `name`."""
    if not rows:
        return None
    base, pick, shown = _switched(rows, name, names)
    low, middle = (alt.Y(f"{f}:Q", title=unit).scale(zero=False) for f in ("low", "middle"))
    faint = alt.when(pick).then(alt.value(0.16)).otherwise(alt.value(0.0))
    tooltip = [alt.Tooltip(f"{name}:N"), alt.Tooltip("step:Q")]
    tooltip += [alt.Tooltip(f"{f}:Q", format=",.4~r") for f in ("middle", "low", "high")]
    line = base.mark_line(strokeWidth=2.2).encode(y=middle, opacity=shown)
    layers = [
        base.mark_area().encode(y=low, y2=alt.Y2("high:Q"), opacity=faint),
        line.properties(name="lines").add_params(pick),
        base.mark_point(filled=True, size=40, opacity=0).encode(y=middle, tooltip=tooltip),
    ]
    return alt.LayerChart(layer=layers).properties(width=480, height=230)


def ratings(run: RunRecord, role: str) -> alt.LayerChart | None:
    """Return the rating of every member of a role over the steps of its life, mu in mu ± sigma."""
    rows = []
    lives = [life for life in run.lives() if life.role == role]
    for life in lives:
        end = run.last if life.died is None else life.died
        track = [
            (step.step, *step.ratings[life.name])
            for step in run.steps
            if life.born <= step.step <= end and life.name in step.ratings
        ]
        rows += [
            {"step": step, "member": life.name, "middle": mu, "low": mu - sigma, "high": mu + sigma}
            for step, mu, sigma in track[:: -(-len(track) // MOST_POINTS) or 1]
        ]
    return bands(rows, "member", [life.name for life in lives], "TrueSkill rating, μ ± σ")


def lineage(run: RunRecord) -> alt.LayerChart | None:
    """Return the lives of a run's members as bars, and lines from parents to children."""
    lives = {life.name: life for life in run.lives()}
    if not lives:
        return None
    bars, joints = [], []
    for name, life in lives.items():
        died = run.last if life.died is None else life.died
        parents = life.birth.parents if life.birth else ()
        operator = life.birth.operator if life.birth else ""
        bars.append(
            {"member": name, "role": life.role, "place": life.place, "born": life.born}
            | {"life": f"steps {life.born} to {died}" + (", replaced" if life.died else "")}
            | {"died": died, "parents": " × ".join(parents), "operator": operator}
        )
        joints += [
            {"step": life.born, "from": lives[parent].place, "place": life.place}
            | {"parent": parent, "child": name, "operator": operator}
            for parent in parents
            if parent in lives
        ]
    scale = alt.Scale(domain=[0, run.last])
    born, at = (
        alt.X(f"{f}:Q", title="step", scale=scale, axis=WHOLE_STEPS) for f in ("born", "step")
    )
    place = alt.Y("place:O", title=None, axis=None)
    base, children = (alt.Chart(alt.InlineData(values=rows)) for rows in (bars, joints))
    role = alt.Color("role:N", legend=alt.Legend(title=None), sort=["teacher", "student"])
    tips = [f"{f}:N" for f in ("member", "role", "life", "parents", "operator")]
    bar = base.mark_bar(opacity=0.4, height={"band": 0.6}, cornerRadius=3)
    made = ["parent:N", "child:N", "operator:N"]
    line = children.mark_rule(strokeWidth=1.3).encode(x=at, y2="place:O", tooltip=made)
    layers = [
        bar.encode(x=born, x2="died:Q", y=place, color=role, tooltip=tips),
        line.encode(y=alt.Y("from:O", axis=None)),
        children.mark_point(filled=True, size=30).encode(x=at, y=place, tooltip=made),
        base.mark_text(align="left", dx=6).encode(x=born, y=place, text="member:N"),
    ]
    return alt.LayerChart(layer=layers).properties(width=1040, height=alt.Step(32))


def rejected(run: RunRecord) -> alt.Chart | None:
    """Return why proposals were rejected, as shares of all proposals of a span of steps."""
    totals = sum((Counter(step.rejected) for step in run.steps), Counter[str]())
    names = [name for name, count in totals.most_common(8) if count]
    counts = [
        (
            [step.rejected.get(name, 0) for name in names],
            sum(k.proposed for k in step.kinds.values()),
        )
        for step in run.steps
    ]
    return _stack(run, "% of proposals", names, counts)


def solve_rates(run: RunRecord) -> alt.Chart | None:
    """Return the histogram of the tasks' solve rates over steps."""
    counts = [(step.solve_rates or (0,) * 6, sum(step.solve_rates or ())) for step in run.steps]
    return _stack(run, "% of valid tasks", RATE_BINS, counts, RATE_COLOURS)


def phase_times(run: RunRecord) -> alt.Chart | None:
    """Return the share of the time that each phase of the steps took."""
    totals = phase_seconds(run)
    whole = sum(totals.values())
    rows = [
        {"phase": name, "order": i, "seconds": seconds}
        | {"time": f"{duration(seconds)} ({figure(seconds / whole, share=True)})"}
        for i, (name, seconds) in enumerate(totals.items())
        if whole
    ]
    bar = alt.Chart(alt.InlineData(values=rows)).mark_bar(height=24)
    x = alt.X("seconds:Q", stack="normalize", axis=None)
    colour = alt.Color("phase:N", sort=list(totals), legend=alt.Legend(title=None, orient="bottom"))
    bar = bar.encode(x=x, color=colour, order="order:O", tooltip=["phase:N", "time:N"])
    return bar.properties(width=480, height=30) if rows else None


def phase_seconds(run: RunRecord) -> dict[str, float]:
    """Return the seconds per phase over the whole run, known phases first, in their order."""
    found = {name for step in run.steps for name in step.seconds}
    names = [name for name in PHASES if name in found] + sorted(found - set(PHASES))
    return {name: sum(step.seconds.get(name, 0.0) for step in run.steps) for name in names}


def _switched(
    rows: Iterable[dict[str, Any]], name: str, names: Sequence[str]
) -> tuple[alt.Chart, alt.Parameter, Any]:
    """Return a chart of rows over steps, coloured by a field; its legend switches the series.

    With it come the selection, which one layer has to add, and the opacity that follows it.
    """
    pick = alt.selection_point(name="pick", fields=[name], bind="legend")
    legend = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=3, orient="bottom")
    scale = alt.Scale(domain=list(names))
    colour = alt.Color(f"{name}:N", legend=legend if len(names) > 1 else None, scale=scale)
    step = alt.X("step:Q", title="step", axis=WHOLE_STEPS)
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(x=step, color=colour)
    return base, pick, alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.05))


def _stack(
    run: RunRecord,
    unit: str,
    names: Sequence[str],
    counts: Sequence[tuple[Sequence[int], int]],
    colours: list[str] | None = None,
) -> alt.Chart | None:
    """Return stacked columns over spans of steps; counts: by name, and whole."""
    rows: list[dict[str, Any]] = []
    size = -(-len(counts) // MOST_COLUMNS)
    for i in range(0, len(counts), size):
        whole = sum(of for _, of in counts[i : i + size])
        for order, name in enumerate(names):
            n = sum(found[order] for found, _ in counts[i : i + size])
            column = {"step": run.steps[i].step, "name": name, "order": order}
            rows += [column | {"n": n, "of": whole, "share": n / max(1, whole)}] * bool(n)
    scale = alt.Scale(domain=list(names), range=colours or alt.Undefined)
    chart = alt.Chart(alt.InlineData(values=rows)).mark_bar()
    chart = chart.encode(
        x=alt.X("step:O", title="step", axis=alt.Axis(labelOverlap=True, labelAngle=0)),
        y=alt.Y("share:Q", title=unit, axis=alt.Axis(format="%", tickCount=4)),
        color=alt.Color("name:N", legend=alt.Legend(title=None, orient="bottom"), scale=scale),
        order="order:O",
        tooltip=["name:N", "n:Q", "of:Q"],
    )
    return chart.properties(width=480, height=200) if rows else None
