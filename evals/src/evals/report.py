"""The page of results: a table, charts of scores and differences, and samples to browse."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evals import tables
from evals.benchmark import Verdict
from evals.evaluation import BASE
from evals.members import Group
from evals.metrics import problem_scores
from evals.results import FinishedRun, Score, by_question

MOST_BYTES = 4_000_000
"""Bytes of all questions with their samples on a page, at most."""
MOST_TEXT = 4_000
"""Characters shown of a prompt or a response."""
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
_WHOLE: dict[str, Any] = {
    "width": "container",
    "autosize": {"type": "fit-x", "contains": "padding"},
}
"""As wide as its place."""
_NAMES = alt.Axis(labelLimit=130, domain=False, ticks=False)
Named: TypeAlias = Sequence[tuple[str, FinishedRun]]
"""Runs, with what the page calls the adapter of each."""


def page_text(shown: tables.SideBySide) -> str:
    """Return the page of finished runs, one file that works offline; equal runs, equal bytes."""
    groups: dict[str, list[tuple[str, FinishedRun]]] = {}
    for name, run in shown.named:
        groups.setdefault(run.result.benchmark, []).append((name, run))
    charts: dict[str, alt.LayerChart | alt.Chart] = {}
    if shown.table is not None:
        charts |= {f"score: {title}": chart for title, chart in scores(shown.table).items()}
    charts |= {f"difference: {name}": chart for name, chart in differences(shown.pairs).items()}
    benchmarks = []
    for name, group in groups.items():
        charts[f"solved: {name}"] = questions_solved(group)
        kept, left_out = questions(group, MOST_BYTES // len(groups))
        benchmarks.append({"name": name, "asked": kept, "left_out": left_out})
    environment = Environment(
        loader=PackageLoader("evals"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    settings = [run.result.settings for _, run in shown.named]
    kinds = {_kind(run.result.adapter == BASE, run.result.group) for _, run in shown.named}
    text = environment.get_template("scores.html").render(
        models=sorted({str(one["model"]) for one in settings if one.get("model")}),
        adapters=len({name for name, run in shown.named if run.result.adapter != BASE}),
        colours={kind: word for kind, (word, _) in _COLOURS.items() if kind in kinds},
        table=shown.table and _table(shown.table),
        pairs=[[pair.adapter, pair.benchmark, *tables.pair_cells(pair)] for pair in shown.pairs],
        pair_columns=tables.PAIR_COLUMNS,
        against=shown.pairs[0].against if shown.pairs else "",
        answers=_answers(shown.named),
        benchmarks=benchmarks,
        charts={name: chart.to_dict(validate=False) for name, chart in charts.items()},
        library=_library(),
    )
    return text.encode("utf-8", "backslashreplace").decode()


@cache
def _library() -> Markup:
    """Vega-Lite and all it needs."""
    return Markup(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def scores(table: tables.Table) -> dict[str, alt.LayerChart]:
    """Chart every column of a table: adapters and means, each with its 95 % interval."""
    charts = {}
    for column in table.columns:
        rows = [
            _bar(row.label, row.kind, row.group, cell.value, cell.interval, cell.problems)
            for row in table.rows
            if (cell := row.scores.get(column)) is not None and cell.interval is not None
        ]
        base = [row["value"] for row in rows if row["kind"] == BASE]
        title = "right answers, %" if table.measure == "avg@n" else f"{table.measure}, % of tasks"
        charts[tables.TITLES.get(column, column)] = intervals(rows, title, base)
    return charts


def differences(pairs: Sequence[tables.Pair]) -> dict[str, alt.LayerChart]:
    """Chart what adapters have above the one that they are compared with, by benchmark."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for pair in pairs:
        kind = "base" if pair.adapter.startswith(BASE) else "member"
        of = pair.comparison
        row = _bar(pair.adapter, kind, pair.group, of.difference, (of.low, of.high), of.problems)
        rows.setdefault(pair.benchmark, []).append(row)
    title = f"points above {pairs[0].against}" if pairs else ""
    return {name: intervals(lines, title, [0.0]) for name, lines in rows.items()}


def _bar(
    label: str,
    kind: str,
    group: Group | None,
    value: float,
    ends: tuple[float, float],
    tasks: int,
) -> dict[str, Any]:
    """A row of `intervals`, in points of 100."""
    return {
        "adapter": label,
        "kind": _kind(kind == "base", group),
        "mean": kind == "mean",
        "value": 100 * value,
        "low": 100 * ends[0],
        "high": 100 * ends[1],
        "tasks": tasks,
    }


def intervals(
    rows: Sequence[Mapping[str, Any]], title: str, references: Sequence[float]
) -> alt.LayerChart:
    """Chart rows with `adapter`, `kind`, `mean`, `value`, `low`, `high`, `tasks`, one a line.

    title: of the axis. references: values with a broken line through all rows.
    """
    ends = [row[name] for row in rows for name in ("low", "high")] + list(references)
    low, high = min(ends), max(ends)
    gap = 0.06 * (high - low) or 5.0
    scale = alt.Scale(domain=[low - gap, high + gap], nice=False)
    axis = alt.Axis(format="~f", tickCount=5, labelOverlap=True)
    colours = [colour for _, colour in _COLOURS.values()]
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        y=alt.Y("adapter:N", sort=None, title=None, axis=_NAMES),
        color=alt.Color(
            "kind:N", legend=None, scale=alt.Scale(domain=list(_COLOURS), range=colours)
        ),
        tooltip=[
            "adapter:N",
            *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("value", "low", "high")),
            "tasks:Q",
        ],
    )
    start, middle = (alt.X(f"{f}:Q", title=title, axis=axis, scale=scale) for f in ("low", "value"))
    shape = alt.when("datum.mean").then(alt.value("diamond")).otherwise(alt.value("circle"))
    size = alt.when("datum.mean").then(alt.value(130)).otherwise(alt.value(60))
    lines = alt.Chart(alt.InlineData(values=[{"at": at} for at in references]))
    layers = [
        lines.mark_rule(strokeDash=[4, 4], color=_COLOURS[BASE][1]).encode(
            x=alt.X("at:Q", scale=scale)
        ),
        base.mark_bar(height=3, cornerRadius=2).encode(x=start, x2="high:Q"),
        base.mark_point(filled=True, opacity=1).encode(x=middle, shape=shape, size=size),
    ]
    return alt.LayerChart(layer=layers).properties(height=alt.Step(20), **_WHOLE)


def questions_solved(runs: Named) -> alt.Chart:
    """Chart every question of one benchmark for every adapter, the stronger the more are right.

    runs: of the same benchmark. A question that was not graded is red.
    """
    ids = list(dict.fromkeys(verdict.id for _, run in runs for verdict in run.verdicts))
    rows = [
        {"adapter": name, "from": at, "to": at + 0.9, "question": question, "solved": rate}
        for name, run in runs
        for rates in [problem_scores(by_question(run.verdicts))]
        for at, question in enumerate(ids)
        for rate in [rates.get(question)]
    ]
    strength = alt.Scale(domain=[0, 1], range=[0.12, 1])
    order = alt.Axis(labels=False, ticks=False, domain=False, grid=False)
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect()
        .encode(
            x=alt.X(
                "from:Q",
                title=f"the {len(ids)} questions, in the order of the benchmark",
                axis=order,
                scale=alt.Scale(domain=[0, len(ids)], nice=False),
            ),
            x2="to:Q",
            y=alt.Y("adapter:N", sort=None, title=None, axis=_NAMES),
            color=alt.condition(
                "datum.solved === null", alt.value(PALETTE[5]), alt.value(_COLOURS["student"][1])
            ),
            opacity=alt.Opacity("solved:Q", legend=None, scale=strength),
            tooltip=["question:N", "adapter:N", alt.Tooltip("solved:Q", format=".0%")],
        )
        .properties(height=alt.Step(22), **_WHOLE)
    )
    return chart


def questions(runs: Named, budget: int) -> tuple[list[dict[str, Any]], int]:
    """Return the questions of one benchmark that fit into `budget` bytes, and how many do not.

    Those on which adapters differ come in first; all stay in the order of the benchmark.
    """
    entries: dict[str, dict[str, Any]] = {}
    for name, run in runs:
        for verdict in run.verdicts:
            prompt = _cut(run.prompts.get(verdict.id, ""))
            empty = {"id": verdict.id, "level": verdict.level, "prompt": prompt, "answers": []}
            response = run.samples[verdict.id, verdict.sample].response
            extracted = verdict.extracted or ""
            entries.setdefault(verdict.id, empty)["answers"].append(
                {
                    "adapter": name,
                    "verdict": _word(verdict),
                    "reason": _cut(verdict.reason),
                    "extracted": "" if extracted == response else _cut(extracted),
                    "response": _cut(response),
                }
            )
    for question in entries.values():
        marks: dict[str, list[str]] = {}
        for answer in question["answers"]:
            marks.setdefault(answer["adapter"], []).append(answer["verdict"])
        question["marks"] = marks
        words = {answer["verdict"] for answer in question["answers"]}
        question["verdicts"] = sorted(words | ({"differ"} if len(words) > 1 else set()))
    kept = set()
    for question in sorted(entries.values(), key=lambda q: "differ" not in q["verdicts"]):
        size = 400 + len(question["prompt"])
        size += sum(400 + len(answer["response"]) for answer in question["answers"])
        if size <= budget:
            budget -= size
            kept.add(question["id"])
    return [entries[name] for name in entries if name in kept], len(entries) - len(kept)


def _kind(base: bool, group: Group | None) -> str:
    return BASE if base else group.role if group else "adapter"


def _table(table: tables.Table) -> dict[str, Any]:
    """The table as cells of (score, interval), whose the weakest and best are, and its notes."""
    rules = tables.ruled(table)
    rows = []
    for number, row in enumerate(table.rows):
        _, *texts = tables.score_cells(table, row)
        members = [getattr(row.scores.get(column), "member", None) for column in table.columns]
        cells = [
            (text.partition(" ")[0], text.partition(" ")[2].replace("-", "–"), member or "")
            for text, member in zip(texts, members, strict=True)
        ]
        rows.append(
            {"label": row.label, "kind": row.kind, "ruled": number in rules, "cells": cells}
        )
    return {"head": tables.heading(table), "rows": rows, "notes": table.notes}


def _answers(runs: Named) -> tuple[list[str], list[list[str]]]:
    """A heading and one row a run: counts, rates of levels, shares of what went wrong."""
    head = ["adapter", "benchmark", "tasks", "right answers", "by level, %"]
    head += ["ill-formed, %", "cut off, %"]
    rows = []
    for name, run in runs:
        overall = run.result.overall
        rows.append(
            [
                name,
                run.result.benchmark + ("*" if run.result.partial else ""),
                str(overall.tasks),
                f"{overall.solved:,} of {overall.samples:,}",
                ", ".join(f"{level}: {_rate(of)}" for level, of in run.result.levels.items()),
                f"{100 * overall.ill_formed:.1f}",
                f"{100 * overall.truncated:.1f}",
            ]
        )
    return head, rows


def _rate(score: Score) -> str:
    return "-" if score.rate is None else f"{100 * score.rate:.0f}"


def _word(verdict: Verdict) -> str:
    if not verdict.well_formed and not verdict.correct:
        return "ill-formed"
    return {True: "right", False: "wrong", None: "not graded"}[verdict.correct]


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n… {len(text) - MOST_TEXT:,} more characters"
