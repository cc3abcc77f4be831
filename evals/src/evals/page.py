"""The page of results: a table, charts of scores and differences, and samples to browse."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evals import tables
from evals.members import BASE
from evals.question import SampleVerdict
from evals.run import Run
from evals.scores import Row

MOST_BYTES = 4_000_000
"""Most bytes of all questions with their samples on a page."""
MOST_TEXT = 4_000
"""Most characters of a prompt or a response on a page."""
PALETTE = (
    *("#3b82d6", "#d1682a", "#259a72", "#a05fc4", "#b38600"),
    *("#c0473a", "#2a9fb5", "#d0669c", "#7a8b2f", "#8a94a0"),
)
"""Colours of members and bars on all pages; each can be seen on white and on a dark page."""
_COLOURS = {
    BASE: ("grey", PALETTE[-1]),
    "student": ("blue", PALETTE[0]),
    "teacher": ("orange", PALETTE[1]),
    "agent": ("violet", PALETTE[3]),
    "adapter": ("green", PALETTE[2]),
}
"""By role."""
_NAMES = alt.Axis(labelLimit=130, domain=False, ticks=False)
_ANSWERS: tuple[str, ...] = ("adapter", "benchmark", "tasks", "right answers", "by level, %")
_ANSWERS += ("ill-formed, %", "cut off, %")


def page_text(runs: Sequence[Run], table: tables.Table | None) -> str:
    """Return the page of finished runs, one file that works offline; equal runs, equal bytes. runs,
    table: as `side_by_side.table_of` returns them."""
    charts: dict[str, alt.LayerChart] = {}
    differences = table.differences if table else ()
    if table is not None:
        title = "right answers, %" if table.measure == "avg@n" else f"{table.measure}, % of tasks"
        for column in table.columns:
            rows = [row for row in table.rows if row.column == column and row.interval]
            base = [100 * row.value for row in rows if row.kind == "base"]
            charts[f"score: {tables.TITLES.get(column, column)}"] = intervals(rows, title, base)
    for benchmark in dict.fromkeys(row.column for row in differences):
        rows = [row for row in differences if row.column == benchmark]
        name, title = tables.TITLES.get(benchmark, benchmark), f"points above {rows[0].against}"
        charts[f"difference: {name}"] = intervals(rows, title, [0.0])
    names = dict.fromkeys(run.benchmark for run in runs)
    benchmarks = []
    for name in names:
        group = [run for run in runs if run.benchmark == name]
        entries, left_out = questions(group, MOST_BYTES // len(names))
        benchmarks.append({"name": name, "questions": entries, "left_out": left_out})
    layout: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(
        loader=PackageLoader("evals"), autoescape=True, undefined=StrictUndefined, **layout
    )
    roles = {BASE if run.adapter == BASE else _role(run) for run in runs}
    text = environment.get_template("page.html").render(
        models=sorted({str(run.settings["model"]) for run in runs if run.settings.get("model")}),
        adapters=len({run.name for run in runs if run.adapter != BASE}),
        colours={role: word for role, (word, _) in _COLOURS.items() if role in roles},
        head=tables.heading(table) if table else (),
        lines=list(_lines(table)) if table else (),
        notes=table.notes if table else (),
        pairs=[[row.label, row.column, *tables.pair_cells(row)] for row in differences],
        pair_columns=tables.PAIR_COLUMNS,
        against=", ".join(dict.fromkeys(str(row.against) for row in differences)),
        answers=(_ANSWERS, [_answers(run) for run in runs]),
        benchmarks=benchmarks,
        charts={name: chart.to_dict(validate=False) for name, chart in charts.items()},
        library=_library(),
    )
    return text.encode("utf-8", "backslashreplace").decode()


@cache
def _library() -> Markup:
    """Vega-Lite and its dependencies, as one script."""
    return Markup(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def intervals(rows: Iterable[Row], title: str, references: Sequence[float]) -> alt.LayerChart:
    """Chart rows of a table with their intervals, in points of 100, each on a line of its own.
    title: of the axis. references: values that a broken line marks."""
    figures = ("value", "low", "high")
    data = [
        {
            "adapter": row.label + tables.lost(row),
            "kind": BASE if row.kind == "base" else _role(row),
            "mean": row.kind == "mean",
            **{name: 100 * getattr(row, name) for name in figures},
            "tasks": row.problems,
        }
        for row in rows
    ]
    tooltips = (alt.Tooltip(f"{name}:Q", format=".1f") for name in figures)
    ends = [row[name] for row in data for name in ("low", "high")] + list(references)
    low, high = min(ends), max(ends)
    gap = 0.06 * (high - low) or 5.0
    scale = alt.Scale(domain=[low - gap, high + gap], nice=False)
    axis = alt.Axis(format="~f", tickCount=5, labelOverlap=True)
    colours = alt.Scale(domain=list(_COLOURS), range=[colour for _, colour in _COLOURS.values()])
    base = alt.Chart(alt.InlineData(values=data)).encode(
        y=alt.Y("adapter:N", sort=None, title=None, axis=_NAMES),
        color=alt.Color("kind:N", legend=None, scale=colours),
        tooltip=["adapter:N", *tooltips, "tasks:Q"],
    )
    start, middle = (alt.X(f"{f}:Q", title=title, axis=axis, scale=scale) for f in ("low", "value"))
    shape = alt.when("datum.mean").then(alt.value("diamond")).otherwise(alt.value("circle"))
    size = alt.when("datum.mean").then(alt.value(130)).otherwise(alt.value(60))
    lines = alt.Chart(alt.InlineData(values=[{"at": at} for at in references]))
    layers = [
        lines.mark_rule(strokeDash=[4, 4], color=PALETTE[-1]).encode(x=alt.X("at:Q", scale=scale)),
        base.mark_bar(height=3, cornerRadius=2).encode(x=start, x2="high:Q"),
        base.mark_point(filled=True, opacity=1).encode(x=middle, shape=shape, size=size),
    ]
    fit: dict[str, Any] = {"type": "fit-x", "contains": "padding"}  # as wide as the figure
    chart = alt.LayerChart(layer=layers)
    return chart.properties(height=alt.Step(20), width="container", autosize=fit)


def questions(runs: Sequence[Run], budget: int) -> tuple[list[dict[str, Any]], int]:
    """Return the questions of one benchmark that fit into `budget` bytes, and how many do not.
    Those on which adapters differ are preferred; all stay in the order of the benchmark."""
    entries: dict[str, dict[str, Any]] = {}
    for run in runs:
        for verdict in run.verdicts:
            prompt = _cut(run.prompts.get(verdict.id, ""))
            empty = {"id": verdict.id, "level": verdict.level, "prompt": prompt}
            entry = entries.setdefault(verdict.id, {**empty, "answers": [], "marks": {}})
            response = run.samples[verdict.id, verdict.sample].response
            extracted = "" if verdict.extracted == response else verdict.extracted or ""
            entry["marks"].setdefault(run.name, []).append(_word(verdict))
            texts = {"reason": verdict.reason, "extracted": extracted, "response": response}
            answer = {"adapter": run.name, "verdict": _word(verdict)}
            entry["answers"].append(answer | {name: _cut(text) for name, text in texts.items()})
    for entry in entries.values():
        words = {answer["verdict"] for answer in entry["answers"]}
        entry["verdicts"] = sorted(words | ({"differ"} if len(words) > 1 else set()))
    ids = set()
    for entry in sorted(entries.values(), key=lambda entry: "differ" not in entry["verdicts"]):
        size = 400 + len(entry["prompt"])
        size += sum(400 + len(answer["response"]) for answer in entry["answers"])
        if size <= budget:
            budget -= size
            ids.add(entry["id"])
    return [entry for id, entry in entries.items() if id in ids], len(entries) - len(ids)


def _role(result: Row | Run) -> str:
    return result.group.role if result.group else "adapter"


def _lines(table: tables.Table) -> Iterator[dict[str, Any]]:
    """The lines of a table; a cell has a score, its interval, and the name of a weakest or best."""
    rules = tables.find_rules(table)
    for number, line in enumerate(table.lines):
        texts = (text.partition(" ") for text in tables.score_cells(line)[1:])
        pairs = zip(texts, line, strict=True)
        cells = [(score, ends.replace("-", "–"), r.member or "") for (score, _, ends), r in pairs]
        head = {"label": line[0].label, "kind": line[0].kind, "ruled": number in rules}
        yield head | {"cells": cells}


def _answers(run: Run) -> list[str]:
    """The cells for `_ANSWERS`: counts, rates by level, shares of ill-formed and cut responses."""
    result = run.as_json()
    overall, levels = result["overall"], result["levels"].items()
    rates = ((level, part["rate"]) for level, part in levels)
    by_level = (f"{n}: {'-' if rate is None else f'{100 * rate:.0f}'}" for n, rate in rates)
    lost = f" ({overall['ungraded']:,} not judged)" if overall["ungraded"] else ""
    right = f"{overall['solved']:,} of {overall['samples'] - overall['ungraded']:,}{lost}"
    shares = (f"{100 * overall[share]:.1f}" for share in ("ill_formed", "truncated"))
    benchmark = run.benchmark + "*" * run.partial
    return [run.name, benchmark, str(overall["tasks"]), right, ", ".join(by_level), *shares]


def _word(verdict: SampleVerdict) -> str:
    if not verdict.well_formed and not verdict.correct:
        return "ill-formed"
    return {True: "right", False: "wrong", None: "not graded"}[verdict.correct]


def _cut(text: str) -> str:
    more = len(text) - MOST_TEXT
    return f"{text[:MOST_TEXT]}\n… {more:,} more characters" if more > 0 else text
