"""The page: one HTML file that works offline, and its charts as files of their own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from altair.utils.schemapi import debug_mode

from evals.atomic import write_text
from league.drawing.frame import Charts, save_charts, written
from selfplay.errors import SelfplayError
from selfplay.report.gallery import MOST_BYTES, gallery
from selfplay.report.measures import COMPLEXITY, HEALTH, REWARDS, YARDSTICK, solve_rates
from selfplay.report.panels import Panels
from selfplay.report.reading.run_data import Run, read_runs
from selfplay.report.standing_table import overview_of, standing_of


class ReportError(SelfplayError):
    """A page that cannot be written."""


def write_report(runs: Sequence[Path], page: Path, *, gallery_steps: Sequence[int] = ()) -> None:
    """Write the report of one or more run directories as one HTML page.

    The gallery shows tasks of `gallery_steps`, or of the first, middle and last step. Equal runs
    give equal bytes. Raises `RunDirectoryError` for a run that cannot be read, `ReportError` for a
    page that cannot be written; an old page then stays as it was.
    """
    if not runs:
        raise ReportError("no run to report; give at least one run directory")
    _refuse_run_files(runs, page)
    text = report_page(read_runs(runs), gallery_steps)
    try:
        write_text(page, text)
    except OSError as error:
        raise ReportError(f"cannot write {page}: {error.strerror or error}") from error


def save_report_charts(runs: Sequence[Path], folder: Path) -> None:
    """Write every chart of the page into a folder, as SVG and PNG."""
    save_charts(report_charts(read_runs(runs)), folder)


def report_charts(runs: Sequence[Run]) -> Charts:
    """Return every chart of the page by name."""
    charts, _ = _drawn(runs)
    return charts


def report_page(runs: Sequence[Run], gallery_steps: Sequence[int] = ()) -> str:
    """Return the page of these runs."""
    cards, left_out = gallery(runs, gallery_steps, MOST_BYTES)
    charts, places = _drawn(runs)
    return written(
        "run.html",
        charts,
        package="selfplay",
        **places,
        title="PopuLoRA run " + runs[0].name if len(runs) == 1 else f"{len(runs)} PopuLoRA runs",
        runs=runs,
        measured=[(run, standing_of(run)) for run in runs if run.standings],
        summaries=[(run, overview_of(run)) for run in runs],
        cards=cards,
        left_out=left_out,
        settings=_settings(runs),
    )


def _drawn(runs: Sequence[Run]) -> tuple[Charts, dict[str, object]]:
    """Return the charts by name, and the panels that show them by their place on the page."""
    panels = Panels()
    kinds = sorted({kind for run in runs for kind in run.kinds})
    sections = {
        "yardstick": YARDSTICK,
        "rewards": REWARDS,
        "rates": solve_rates(kinds),
        "complexity": COMPLEXITY,
        "health": HEALTH,
    }
    with debug_mode(False):  # a schema checked at every step of building takes half of the time
        places: dict[str, object] = {
            "curves": {name: panels.curves(runs, measures) for name, measures in sections.items()},
            "populations": [(run, panels.population(run)) for run in runs],
            "times": [found for run in runs for found in panels.time(run, len(runs) > 1)],
        }
    return panels.charts, places


def _settings(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    flat = [_flat(run.config) for run in runs]
    names = dict.fromkeys(name for settings in flat for name in settings)
    return [(name, [settings.get(name, "") for settings in flat]) for name in names]


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            flat[f"{prefix}{name}"] = shown
    return flat


def _refuse_run_files(runs: Sequence[Path], page: Path) -> None:
    if page.is_dir():
        raise ReportError(
            f"{page} is a folder; give the name of a file, such as {page}/report.html"
        )
    if not page.parent.is_dir():
        raise ReportError(f"{page.parent} is not a folder; make it first, or choose another page")
    data = {"config.yaml", "metrics.jsonl", "tasks.jsonl"}
    if page.name in data and any(page.resolve().parent == run.resolve() for run in runs):
        raise ReportError(f"{page} belongs to the run itself; choose a name such as report.html")
