"""The comparison as one self-contained page: question, arms, verdicts, curves, tables."""

from itertools import groupby
from pathlib import Path

from evals.atomic import write_text
from league.drawing.frame import save_charts, written
from league.drawing.words import Listing
from selfplay.experiment.evidence.comparison import Table
from selfplay.experiment.evidence.curves import gain_panels
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

VERDICTS = (
    "shown: the 95 % interval lies on the predicted side; refuted: it lies on the other side; "
    "undecided: neither, or fewer than three seeds. Of forty claims with nothing "
    "in them about one is shown and one refuted by chance."
)


def write_page(comparison: Comparison, page: Path) -> None:
    """Write the page; equal comparisons give equal bytes."""
    write_text(page, page_text(comparison))


def save_comparison_charts(comparison: Comparison, folder: Path) -> None:
    """Write every chart of the page into a folder, as SVG and PNG."""
    save_charts(gain_panels(comparison)[0].charts, folder)


def page_text(comparison: Comparison) -> str:
    """Return the page as HTML that needs no other file and no network."""
    panels, curves = gain_panels(comparison)
    headings = groupby(comparison.tables, lambda table: table.heading.rpartition(": ")[0])
    findings = groupby(comparison.findings, lambda finding: finding.question)
    return written(
        "comparison.html",
        panels.charts,
        package="selfplay",
        plan=comparison.plan,
        arms=arm_lines(comparison),
        head=FINDINGS_HEAD,
        findings=[(q, [(f.quantity, finding_row(f)) for f in some]) for q, some in findings],
        reading=f"{READING} {VERDICTS} {MARKED}",
        sections=[_section(heading, list(some)) for heading, some in headings],
        marked=MARKED,
        curves=curves,
    )


def _section(heading: str, tables: list[Table]) -> dict[str, object]:
    """The tables of a heading, what their rows mean, and whether a column of theirs is marked."""
    return {
        "heading": heading,
        "tables": [
            Listing(
                [table.heading.rpartition(": ")[2], *map(column_title, table.columns)],
                [
                    (quantity.titled, *cells[2:])
                    for (quantity, _), cells in zip(table.rows, table_rows(table), strict=True)
                ],
            )
            for table in tables
        ],
        "meanings": [(quantity.title, quantity.definition) for quantity, _ in tables[0].rows],
        "marked": any(column.marked for table in tables for column in table.columns),
    }
