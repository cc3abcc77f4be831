"""The page: one HTML file that needs nothing else, neither network nor scripts for its pictures."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from evals.atomic import write_text
from selfplay.errors import SelfplayError
from selfplay.report.curves import colour, curve_grid
from selfplay.report.gallery import MOST_BYTES, gallery
from selfplay.report.lineage_tree import lineage_panel
from selfplay.report.markup import element, escape
from selfplay.report.measures import COMPLEXITY, HEALTH, REWARDS, YARDSTICK, solve_rates
from selfplay.report.rating_bands import rating_panels
from selfplay.report.reading.run_data import Run, read_runs
from selfplay.report.shares import rejected_panel, rho_panel, seconds_panel
from selfplay.report.standing_table import standing_tables
from selfplay.report.summary_section import guide, run_summaries

MOST_PAGE_BYTES = 1_900_000
"""Size of a page that the gallery fills up to."""
REWARDS_MAY_FALL = (
    "Rewards may fall while skill grows: teachers are paid for tasks that their students fail, and "
    "references drift towards harder tasks. Read them after the curves above."
)
LEAST_BYTES = 200_000
"""Bytes for the gallery when many curves fill the page already."""


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


def report_page(runs: Sequence[Run], gallery_steps: Sequence[int] = ()) -> str:
    """Return the page of these runs."""
    kinds = sorted({kind for run in runs for kind in run.kinds})
    before = [
        _section("Against the frozen base", standing_tables(runs) + curve_grid(runs, YARDSTICK)),
        _section("What moved", run_summaries(runs) + guide()),
        _section(
            "Rewards and valid tasks",
            element("p", REWARDS_MAY_FALL, class_="hint") + curve_grid(runs, REWARDS),
        ),
        _section("Solve rates", curve_grid(runs, solve_rates(kinds))),
        _section("Complexity and coverage of the programs", curve_grid(runs, COMPLEXITY)),
        *(_population(run, len(runs) > 1) for run in runs),
        _section("Time", seconds_panel(runs)),
    ]
    after = [
        _folded("Health of the training", curve_grid(runs, HEALTH)),
        _folded("Settings", _settings(runs)),
    ]
    title = "PopuLoRA run " + runs[0].name if len(runs) == 1 else f"{len(runs)} PopuLoRA runs"
    legend = _legend(runs) if len(runs) > 1 else ""
    size = sum(len(part.encode()) for part in [*before, *after])
    budget = min(MOST_BYTES, max(MOST_PAGE_BYTES - size, LEAST_BYTES))
    tasks = _section("Gallery of tasks", gallery(runs, gallery_steps, budget))
    body = element("h1", escape(title)) + legend + "".join([*before, tasks, *after])
    return _document(title, element("main", body))


def _document(title: str, body: str) -> str:
    style, script = _packaged("style.css"), _packaged("page.js")
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}"
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n"
        f"<body>{body}\n<script>{script}</script></body></html>\n"
    )


def _population(run: Run, named: bool) -> str:
    tasks = element("div", rejected_panel(run) + rho_panel(run), class_="grid-of-panels wide")
    title = f"Population and tasks of {run.name}" if named else "Population and tasks"
    return _section(title, rating_panels(run) + lineage_panel(run) + tasks)


def _section(title: str, content: str) -> str:
    return element("section", element("h2", escape(title)) + content) if content else ""


def _folded(title: str, content: str) -> str:
    summary = element("summary", element("h2", escape(title)))
    return element("section", element("details", summary + content))


def _legend(runs: Sequence[Run]) -> str:
    keys = [
        element("li", element("span", class_=f"swatch {colour(i)}") + escape(run.name))
        for i, run in enumerate(runs)
    ]
    return element("ul", "".join(keys), class_="legend top")


def _settings(runs: Sequence[Run]) -> str:
    flat = [_flat(run.config) for run in runs]
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    head = [element("th", "setting"), *(element("th", escape(run.name)) for run in runs)]
    rows = [element("tr", "".join(head))]
    for name in names:
        values = [settings.get(name, "") for settings in flat]
        cells = "".join(element("td", escape(value)) for value in values)
        differs = "differs" if len(set(values)) > 1 else None
        rows.append(element("tr", element("td", escape(name)) + cells, class_=differs))
    note = element("p", "Rows in bold differ between the runs.", class_="hint")
    table = element("div", element("table", "".join(rows)), class_="scroll")
    return (note if len(runs) > 1 else "") + table


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            flat[f"{prefix}{name}"] = shown
    return flat


def _packaged(name: str) -> str:
    return (files("selfplay.report") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the policy's name for this very text: nothing else may style or run on the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
