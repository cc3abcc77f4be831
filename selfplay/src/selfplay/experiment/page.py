"""The comparison as one self-contained page: question, arms, verdicts, curves, tables."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from selfplay.experiment.comparison import Table, groups
from selfplay.experiment.curves import gain_panel
from selfplay.experiment.gains import population_mean, weakest_member
from selfplay.experiment.quantities import Quantity
from selfplay.experiment.texts import (
    FINDINGS_HEAD,
    MARKED,
    READING,
    Comparison,
    arms_text,
    column_title,
    finding_rows,
    table_rows,
)
from selfplay.experiment.trials import Group
from selfplay.report.curves import colour
from selfplay.report.markup import element, escape
from selfplay.run_directory import write_text

VERDICTS = (
    "shown: the 95 % interval lies on the predicted side; refuted: it lies on the other side; "
    "undecided: neither, or fewer than two seeds. Of forty claims without any truth in them about "
    "one is shown and one refuted by chance."
)
BAND = "Line: mean over seeds. Band: from the lowest to the highest seed. Dashed: controls."


def write_page(comparison: Comparison, page: Path) -> None:
    """Write the page; equal comparisons give equal bytes."""
    write_text(page, page_text(comparison))


def page_text(comparison: Comparison) -> str:
    """Return the page as HTML that needs no other file, no network and no script."""
    plan = comparison.plan
    arms = element("p", escape(arms_text(comparison)).replace("\n", "<br>"), class_="hint")
    headings: dict[str, list[Table]] = {
        heading: list(some)
        for heading, some in groupby(comparison.tables, lambda t: t.heading.rpartition(": ")[0])
    }
    body = [
        element("h1", escape(plan.name)),
        element("p", escape(plan.question), class_="lead"),
        _section("Findings", _findings(comparison)) if comparison.findings else "",
        _section("Over the steps", _curves(comparison)),
        *(_section(heading, _tables(some)) for heading, some in headings.items()),
        _section("Runs", arms),
    ]
    return _document(plan.name, "".join(body))


def _findings(comparison: Comparison) -> str:
    rows = []
    for finding, cells in zip(comparison.findings, finding_rows(comparison.findings), strict=True):
        question, compared, _, predicted, found, verdict = cells
        if question:
            rows.append(element("tr", element("th", escape(question), colspan=5.0)))
        good = {"shown": "right", "refuted": "wrong"}.get(verdict, "quiet")
        rows.append(
            element(
                "tr",
                element("td", escape(compared))
                + element("td", _named(finding.quantity))
                + element("td", escape(predicted), class_="number")
                + element("td", escape(found), class_="number")
                + element("td", element("span", verdict, class_=f"clear {good}")),
            )
        )
    return _grid(FINDINGS_HEAD[1:], rows) + element("p", f"{READING}. {VERDICTS}", class_="hint")


def _tables(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        rows = [
            element(
                "tr",
                element("td", _named(quantity))
                + "".join(element("td", escape(text), class_="number") for text in cells[2:]),
            )
            for (quantity, _), cells in zip(table.rows, table_rows(table), strict=True)
        ]
        head = [table.heading.rpartition(": ")[2], *map(column_title, table.columns)]
        parts.append(_grid(head, rows))
    if any(column.marked for table in tables for column in table.columns):
        parts.append(element("p", escape(MARKED), class_="hint"))
    return "".join(parts)


def _curves(comparison: Comparison) -> str:
    arms = [Group(arm) for arm in comparison.plan.arms]
    every = groups(comparison.plan)
    keys = [
        element("li", element("span", class_=f"swatch {colour(i)}") + escape(str(arm)))
        for i, arm in enumerate(arms)
    ]
    panels = [
        gain_panel("Population mean", hint, comparison.trials, arms, population_mean)
        for hint in ("Held-out gain over the frozen base. Line: mean over seeds; band: all seeds.",)
    ]
    panels += [
        gain_panel(
            "Weakest member",
            "The same, of the member with the lowest mean.",
            comparison.trials,
            arms,
            weakest_member,
        )
    ]
    if len(every) > len(arms):
        panels.append(
            gain_panel(
                "Controls",
                "Population mean of each arm with its control; colours as the arms'.",
                comparison.trials,
                every[len(arms) :],
                population_mean,
            )
        )
    legend = element("ul", "".join(keys), class_="legend")
    shown = "".join(panels)
    return legend + element("div", shown, class_="grid-of-panels wide") if shown else ""


def _named(quantity: Quantity) -> str:
    unit = f" ({quantity.unit})" if quantity.unit and quantity.unit not in quantity.title else ""
    title = escape(quantity.title + unit)
    return title + element("div", escape(quantity.definition), class_="hint")


def _grid(head: Sequence[str], rows: Sequence[str]) -> str:
    top = element("tr", "".join(element("th", escape(name)) for name in head))
    return element("div", element("table", top + "".join(rows)), class_="scroll compact")


def _section(title: str, content: str) -> str:
    return element("section", element("h2", escape(title)) + content) if content else ""


def _document(title: str, body: str) -> str:
    style = (files("selfplay.report") / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n"
        f"<body>{element('main', body)}</body></html>\n"
    )
