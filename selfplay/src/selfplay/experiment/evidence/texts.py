"""A comparison as text, Markdown and JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from selfplay.experiment.design.plan import Plan
from selfplay.experiment.evidence.comparison import Column, Table, groups, tables
from selfplay.experiment.evidence.findings import paper_findings
from selfplay.experiment.evidence.quantities import Quantity
from selfplay.experiment.evidence.statistics import Estimate
from selfplay.experiment.evidence.trials import Trial
from selfplay.experiment.evidence.verdict import Finding
from selfplay.report.words import figure

MARK = "*"
MARKED = f"{MARK} A run of it is missing or not finished: it is shown as far as it got."
READING = (
    "Mean over seeds [95 % interval, drawn over seeds and tasks within them; with one seed over "
    "tasks only]."
)


@dataclass(frozen=True)
class Comparison:
    """Everything that is said about an experiment's runs."""

    plan: Plan
    trials: Sequence[Trial]
    tables: Sequence[Table]
    findings: Sequence[Finding]


def compare(plan: Plan, trials: Sequence[Trial]) -> Comparison:
    """Return tables, and findings if the plan asks for them."""
    findings = paper_findings(plan, trials) if plan.findings == "paper" else []
    return Comparison(plan, trials, tables(plan, trials), findings)


def to_text(comparison: Comparison, *, markdown: bool = False) -> str:
    """Return the whole comparison as aligned text, or as Markdown."""
    grid = markdown_grid if markdown else text_grid
    mark = "## " if markdown else ""
    parts = [f"{mark}{comparison.plan.name}", comparison.plan.question]
    parts.append("\n".join(f"- {line}" for line in arm_lines(comparison)))
    if comparison.findings:
        parts.append(f"{mark}Findings")
        for question, some in groupby(comparison.findings, lambda f: f.question):
            title = f"**{question}**\n\n" if markdown else f"{question}\n"
            parts.append(title + grid(FINDINGS_HEAD, [finding_row(f) for f in some]))
    parts.append(READING)
    for table in comparison.tables:
        head = ["", "unit", *(column_title(c) for c in table.columns)]
        title = f"{mark}{table.heading}\n" + ("\n" if markdown else "")
        parts.append(title + grid(head, table_rows(table)))
    marked = any(c.marked for t in comparison.tables for c in t.columns)
    return "\n\n".join(part for part in [*parts, MARKED if marked else ""] if part)


def to_json(comparison: Comparison) -> str:
    """Return all numbers as JSON."""
    data: dict[str, Any] = {
        "name": comparison.plan.name,
        "question": comparison.plan.question,
        "runs": [
            {"arm": t.group.arm, "control": t.group.control, "seed": t.seed, "steps": t.run.last}
            for t in comparison.trials
        ],
        "findings": [
            {
                "question": f.question,
                "compared": f.compared,
                **_described(f.quantity),
                "predicted": f"{'above' if f.predicted > 0 else 'below'} {f.threshold:g}",
                "estimate": f.estimate and asdict(f.estimate),
                "verdict": f.verdict,
                "incomplete": f.incomplete,
                "note": f.note,
            }
            for f in comparison.findings
        ],
        "tables": [
            {
                "heading": t.heading,
                "rows": [
                    _described(quantity)
                    | {
                        "estimates": {
                            c.title: cell and asdict(cell)
                            for c, cell in zip(t.columns, cells, strict=True)
                        }
                    }
                    for quantity, cells in t.rows
                ],
                "incomplete": [c.title for c in t.columns if c.marked],
            }
            for t in comparison.tables
        ],
    }
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)


def arm_lines(comparison: Comparison) -> list[str]:
    """Return one line an arm: what sets it apart, and how many of its runs are done."""
    plan, lines = comparison.plan, []
    for group in groups(plan):
        mine = [t for t in comparison.trials if t.group == group]
        wanted = plan.control_seeds if group.control else plan.seeds
        going = [f"seed {t.seed} at step {t.run.last} of {t.steps}" for t in mine if not t.complete]
        done = f"{sum(t.complete for t in mine)} of {len(wanted)} runs done"
        apart = plan.controls[group.control] if group.control else plan.arms[group.arm]
        settings = ", ".join(f"{key} {value}" for key, value in apart.items())
        about = f" ({settings})" if settings else ""
        lines.append(f"{group}{about}: {'; '.join([done, *going])}")
    return lines


FINDINGS_HEAD = ["compared", "measure", "predicted", "found", "verdict"]


def finding_row(f: Finding) -> list[str]:
    """Return the cells of a finding."""
    q = f.quantity
    found = cell(q, f.estimate) or f.note
    return [
        f.compared,
        q.titled,
        f"{'above' if f.predicted > 0 else 'below'} {f.threshold * q.factor:g}",
        found + (MARK if f.incomplete and f.estimate else ""),
        f.verdict,
    ]


def table_rows(table: Table) -> list[list[str]]:
    """Return the cells of a table: title, unit, and one a column."""
    return [[q.title, q.unit, *(cell(q, e) or "–" for e in cells)] for q, cells in table.rows]


def column_title(column: Column) -> str:
    """Return the column's name, with a mark where its runs are not all done."""
    return column.title + (MARK if column.marked else "")


def cell(quantity: Quantity, estimate: Estimate | None) -> str:
    """Return `+4.2 [+1.0, +7.3]` in the quantity's unit; empty where there is no number."""
    if estimate is None:
        return ""
    e = estimate.scaled(quantity.factor)
    interval = "" if e.low is None or e.high is None else f" [{_number(e.low)}, {_number(e.high)}]"
    return f"{_number(e.value)}{interval}"


def text_grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)


def markdown_grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    escaped = [
        [text.replace("|", "\\|") for text in row] for row in (head, ["---"] * len(head), *rows)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in escaped)


def _described(quantity: Quantity) -> dict[str, str]:
    unit = "share" if quantity.factor != 1.0 else quantity.unit
    return {"measure": quantity.title, "unit": unit, "definition": quantity.definition}


def _number(value: float) -> str:
    return figure(value).replace("-", "−") if abs(value) >= 5e-5 else "0"
