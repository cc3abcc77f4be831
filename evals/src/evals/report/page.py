"""The page of results: scores with intervals, questions solved, lengths, and samples to browse."""

from collections.abc import Sequence
from pathlib import Path

from code_verifier.page.frame import Listing, save_charts, written
from evals.atomic import write_text
from evals.errors import EvalsError
from evals.report.charts import chart_names, score_charts
from evals.report.questions import questions
from evals.report.scored_run import ScoredRun, by_benchmark

MOST_BYTES = 4_000_000
"""Bytes of all questions with their samples on a page, at most."""
_HEAD = "benchmark adapter tasks samples solved interval,_95_% ill-formed truncated not_judged"


def write_page(runs: Sequence[ScoredRun], page: Path) -> None:
    """Write the page. Raises EvalsError where that is not possible; an old page then stays."""
    if page.is_dir():
        raise EvalsError(f"{page} is a folder; give the name of a file, such as {page}/evals.html")
    try:
        write_text(page, page_text(runs))
    except OSError as error:
        raise EvalsError(f"cannot write {page}: {error.strerror or error}") from error


def save_score_charts(runs: Sequence[ScoredRun], folder: Path) -> None:
    """Write every chart of the page into a folder, as SVG and PNG. Raises EvalsError."""
    try:
        save_charts(score_charts(runs), folder)
    except OSError as error:
        raise EvalsError(f"cannot write to {folder}: {error.strerror or error}") from error


def page_text(runs: Sequence[ScoredRun]) -> str:
    """The page of these runs; equal runs give equal bytes."""
    groups = by_benchmark(runs)
    budget = MOST_BYTES // max(1, len(groups))
    return written(
        "scores.html",
        score_charts(runs),
        package="evals",
        models=len({run.result.adapter for run in runs}),
        table=Listing(
            [word.replace("_", " ") for word in _HEAD.split()],
            [_row(run) for found in groups.values() for run in found],
            words=2,
        ),
        partial=any(run.result.partial for run in runs),
        benchmarks=[(*names, *questions(groups[names[0]], budget)) for names in chart_names(runs)],
    )


def _row(run: ScoredRun) -> list[object]:
    result, score = run.result, run.result.overall
    low, high = score.interval
    return [
        f"{result.benchmark}{'*' if result.partial else ''}",
        result.adapter,
        score.tasks,
        score.samples,
        "–" if score.rate is None else f"{100 * score.rate:.1f} %",
        f"{100 * low:.1f} – {100 * high:.1f}",
        f"{100 * score.ill_formed:.1f} %",
        f"{100 * score.truncated:.1f} %",
        score.ungraded,
    ]
