"""The comparison as one self-contained page: question, arms, verdicts, curves, tables."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from evals.atomic import write_text
from selfplay.experiment.evidence.comparison import Table, groups
from selfplay.experiment.evidence.curves import gain_panel
from selfplay.experiment.evidence.gains import population_mean, weakest_member
from selfplay.experiment.evidence.quantities import Quantity
from selfplay.experiment.evidence.texts import (
    FINDINGS_HEAD,
    MARKED,
    READING,
    Comparison,
    arm_lines,
    column_title,
    finding_row,
    table_rows,
)
from selfplay.experiment.evidence.trials import Group
from selfplay.experiment.evidence.verdict import REFUTED, SHOWN
from selfplay.report.curves import colour
from selfplay.report.markup import element, escape

BAND = "Line: mean over seeds; band: lowest to highest seed."
VERDICTS = (
    "shown: the 95 % interval lies on the predicted side; refuted: it lies on the other side; "
    "undecided: neither, or fewer than three seeds. Of forty claims with nothing "
    "in them about one is shown and one refuted by chance."
)


def write_page(comparison: Comparison, page: Path) -> None:
    """Write the page; equal comparisons give equal bytes."""
    write_text(page, page_text(comparison))


def page_text(comparison: Comparison) -> str:
    """Return the page as HTML that needs no other file, no network and no script."""
    plan = comparison.plan
    arms = "".join(element("li", escape(line)) for line in arm_lines(comparison))
    headings: dict[str, list[Table]] = {
        heading: list(some)
        for heading, some in groupby(comparison.tables, lambda t: t.heading.rpartition(": ")[0])
    }
    body = [
        element("h1", escape(plan.name)),
        element("p", escape(plan.question), class_="lead"),
        element("ul", arms, class_="hint"),
        _section("Findings", _findings(comparison)) if comparison.findings else "",
        *(_section(heading, _tables(some)) for heading, some in headings.items()),
        _section("Held-out gain over the steps", _curves(comparison)),
    ]
    return _document(plan.name, "".join(body))


def _findings(comparison: Comparison) -> str:
    rows = []
    for question, some in groupby(comparison.findings, lambda f: f.question):
        rows.append(element("tr", element("th", escape(question), colspan=5.0)))
        for finding in some:
            compared, _, *numbers, verdict = finding_row(finding)
            colour_of = {SHOWN: "right", REFUTED: "wrong"}.get(verdict, "quiet")
            cells = [
                element("td", escape(compared)),
                element("td", _named(finding.quantity)),
                *(element("td", escape(text), class_="number") for text in numbers),
                element("td", verdict, class_=f"clear {colour_of}"),
            ]
            rows.append(element("tr", "".join(cells)))
    return _grid(FINDINGS_HEAD, rows) + element(
        "p", f"{READING} {VERDICTS} {MARKED}", class_="hint"
    )


def _tables(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        rows = [
            element(
                "tr",
                element("td", escape(quantity.titled), class_="number")
                + "".join(element("td", escape(text), class_="number") for text in cells[2:]),
            )
            for (quantity, _), cells in zip(table.rows, table_rows(table), strict=True)
        ]
        head = [table.heading.rpartition(": ")[2], *map(column_title, table.columns)]
        parts.append(_grid(head, rows))
    meanings = "".join(
        element("dt", escape(q.title)) + element("dd", escape(q.definition), class_="quiet")
        for q, _ in tables[0].rows
    )
    parts.append(element("dl", meanings, class_="hint"))
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
    shown = [
        ("Population mean", "All held-out tasks.", arms, population_mean),
        ("Weakest member", "The same of the member with the lowest mean.", arms, weakest_member),
        ("Controls", "Population mean of the arms' controls.", every[len(arms) :], population_mean),
    ]
    panels = "".join(
        gain_panel(title, f"{hint} {BAND}", comparison.trials, some, who)
        for title, hint, some, who in shown
        if some
    )
    legend = element("ul", "".join(keys), class_="legend")
    return legend + element("div", panels, class_="grid-of-panels wide") if panels else ""


def _named(quantity: Quantity) -> str:
    definition = element("div", escape(quantity.definition), class_="hint")
    return escape(quantity.titled) + definition


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
