"""The page of results: scores with intervals, questions solved, and samples to browse."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evals.benchmark import Verdict
from evals.metrics import problem_scores
from evals.results import FinishedRun, Result, Score, by_question

MOST_BYTES = 4_000_000
"""Bytes of all questions with their samples on a page, at most."""
MOST_TEXT = 4_000
"""Characters shown of a prompt or a response."""
_WIDTH = 900
_NAMES = alt.Axis(labelLimit=160, domain=False, ticks=False)


def page_text(runs: Sequence[FinishedRun]) -> str:
    """Return the page of these runs, one file that works offline; equal runs give equal bytes."""
    groups: dict[str, list[FinishedRun]] = {}
    for run in runs:
        groups.setdefault(run.result.benchmark, []).append(run)
    charts: dict[str, alt.TopLevelMixin] = {"scores": scores(runs)}
    benchmarks = []
    for number, (name, group) in enumerate(groups.items(), 1):
        charts[f"solved-{number}"] = questions_solved(group)
        shown, left_out = questions(group, MOST_BYTES // len(groups))
        benchmarks.append({"name": name, "number": number, "asked": shown, "left_out": left_out})
    environment = Environment(
        loader=PackageLoader("evals"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    head, *rows = _rows([run.result for group in groups.values() for run in group])
    text = environment.get_template("scores.html").render(
        models=len({run.result.adapter for run in runs}),
        head=head,
        rows=rows,
        partial=any(run.result.partial for run in runs),
        benchmarks=benchmarks,
        charts={name: chart.to_dict(validate=False) for name, chart in charts.items()},
        library=Markup(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")),
    )
    return text.encode("utf-8", "backslashreplace").decode()


def scores(runs: Sequence[FinishedRun]) -> alt.LayerChart:
    """Chart the rate of every adapter on every benchmark, with its 95 % interval."""
    named = _adapters(runs)
    rows = [
        {
            "benchmark": run.result.benchmark,
            "adapter": adapter,
            "solved": run.result.overall.rate,
            "low": run.result.overall.interval and run.result.overall.interval[0],
            "high": run.result.overall.interval and run.result.overall.interval[1],
            "tasks": run.result.overall.tasks,
        }
        for adapter, run in zip(named, runs, strict=True)
    ]
    adapters = list(dict.fromkeys(named))
    pick = alt.selection_point(name="pick", fields=["adapter"], bind="legend")
    tips = [alt.Tooltip(f"{name}:Q", format=".1%") for name in ("solved", "low", "high")]
    share = alt.Axis(format="%", tickCount=6, labelOverlap=True)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("benchmark:N", sort=None, title=None, axis=alt.Axis(labelLimit=160)),
        yOffset=alt.YOffset("adapter:N", sort=adapters),
        color=alt.Color("adapter:N", sort=adapters, legend=alt.Legend(title=None)),
        opacity=alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.1)),
        tooltip=["benchmark:N", "adapter:N", *tips, "tasks:Q"],
    )
    low, rate = (alt.X(f"{name}:Q", title=None, axis=share) for name in ("low", "solved"))
    bar = base.mark_bar(height=3, cornerRadius=2).encode(x=low, x2="high:Q").add_params(pick)
    dot = base.mark_point(filled=True, size=55).encode(x=rate)
    height = alt.Step(12, **{"for": "offset"})
    return alt.LayerChart(layer=[bar, dot]).properties(width=_WIDTH, height=height)


def questions_solved(runs: Sequence[FinishedRun]) -> alt.Chart:
    """Chart every question of one benchmark for every adapter, the stronger the more are right.

    runs: of the same benchmark. A question that was not graded is red.
    """
    ids = list(dict.fromkeys(verdict.id for run in runs for verdict in run.verdicts))
    rows = [
        {"adapter": name, "from": at, "to": at + 0.9, "question": question, "solved": rate}
        for name, run in zip(_adapters(runs), runs, strict=True)
        for rates in [problem_scores(by_question(run.verdicts))]
        for at, question in enumerate(ids)
        for rate in [rates.get(question)]
    ]
    strength = alt.Scale(domain=[0, 1], range=[0.12, 1])
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("from:Q", axis=None, scale=alt.Scale(domain=[0, len(ids)], nice=False)),
            x2="to:Q",
            y=alt.Y("adapter:N", sort=None, title=None, axis=_NAMES),
            color=alt.condition(
                "datum.solved === null", alt.value("#c0473a"), alt.value("#2f6fde")
            ),
            opacity=alt.Opacity("solved:Q", legend=None, scale=strength),
            tooltip=["question:N", "adapter:N", alt.Tooltip("solved:Q", format=".0%")],
        )
        .properties(width=_WIDTH, height=alt.Step(22))
    )
    return chart


def questions(runs: Sequence[FinishedRun], budget: int) -> tuple[list[dict[str, Any]], int]:
    """Return the questions of one benchmark that fit into so many bytes, and how many do not.

    Those on which adapters differ come in first; all stay in the order of the benchmark.
    """
    asked: dict[str, dict[str, Any]] = {}
    for name, run in zip(_adapters(runs), runs, strict=True):
        for verdict in run.verdicts:
            prompt = _cut(run.prompts.get(verdict.id, ""))
            empty = {"id": verdict.id, "level": verdict.level, "prompt": prompt, "answers": []}
            response = run.samples[verdict.id, verdict.sample].response
            extracted = verdict.extracted or ""
            asked.setdefault(verdict.id, empty)["answers"].append(
                {
                    "adapter": name,
                    "verdict": _word(verdict),
                    "reason": _cut(verdict.reason),
                    "extracted": "" if extracted == response else _cut(extracted),
                    "response": _cut(response),
                }
            )
    for question in asked.values():
        words = {answer["verdict"] for answer in question["answers"]}
        question["verdicts"] = sorted(words | ({"differ"} if len(words) > 1 else set()))
    kept = set()
    for question in sorted(asked.values(), key=lambda q: "differ" not in q["verdicts"]):
        size = 400 + len(question["prompt"])
        size += sum(400 + len(answer["response"]) for answer in question["answers"])
        if size <= budget:
            budget -= size
            kept.add(question["id"])
    return [asked[name] for name in asked if name in kept], len(asked) - len(kept)


def _rows(results: Sequence[Result]) -> list[list[str]]:
    """A heading and one row a result: rate, interval, rate per level, shares of ill form.

    `*` marks a result on part of the benchmark.
    """
    levels = sorted({level for result in results for level in result.levels})
    head = ["adapter", "benchmark", "tasks", "rate", "95 %"]
    head += [f"level {level}" for level in levels] + ["ill-formed", "truncated"]
    rows = [head]
    for result in results:
        overall = result.overall
        rows.append(
            [
                result.adapter,
                result.benchmark + ("*" if result.partial else ""),
                str(overall.tasks),
                _rate(overall),
                "{:.3f}-{:.3f}".format(*overall.interval) if overall.interval else "-",
                *(_rate(result.levels.get(level)) for level in levels),
                f"{overall.ill_formed:.3f}",
                f"{overall.truncated:.3f}",
            ]
        )
    return rows


def _rate(found: Score | None) -> str:
    return "-" if found is None or found.rate is None else f"{found.rate:.3f}"


def _word(verdict: Verdict) -> str:
    if not verdict.well_formed and not verdict.correct:
        return "ill-formed"
    return {True: "right", False: "wrong", None: "not graded"}[verdict.correct]


def _adapters(runs: Sequence[FinishedRun]) -> list[str]:
    """A name for each run; runs of one adapter and benchmark are numbered from the second on."""
    seen: Counter[tuple[str, str]] = Counter()
    names = []
    for run in runs:
        key = run.result.adapter, run.result.benchmark
        seen[key] += 1
        names.append(key[0] if seen[key] == 1 else f"{key[0]} ({seen[key]})")
    return names


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n… {len(text) - MOST_TEXT:,} more characters"
