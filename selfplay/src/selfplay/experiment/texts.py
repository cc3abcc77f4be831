"""A comparison as text, Markdown and JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from selfplay.experiment.comparison import Column, Table, groups, tables
from selfplay.experiment.findings import paper_findings
from selfplay.experiment.plan import Plan
from selfplay.experiment.quantities import Quantity
from selfplay.experiment.statistics import Estimate
from selfplay.experiment.trials import Trial
from selfplay.experiment.verdict import Finding
from selfplay.report.markup import figure

MARK = "*"
MARKED = f"{MARK} a run of it is missing or not finished: it is shown as far as it got."
READING = (
    "mean over seeds [95 % interval, drawn over seeds and tasks within them; with one seed over "
    "tasks only]"
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
    parts = [f"{mark}{comparison.plan.name}", comparison.plan.question, arms_text(comparison)]
    if comparison.findings:
        parts += [f"{mark}Findings", grid(FINDINGS_HEAD, finding_rows(comparison.findings))]
    parts.append(f"Every number: {READING}.")
    for table in comparison.tables:
        head = ["", "unit", *(column_title(c) for c in table.columns)]
        parts += [f"{mark}{table.heading}", grid(head, table_rows(table))]
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


def arms_text(comparison: Comparison) -> str:
    """Return one line an arm: how many of its runs are done."""
    lines = []
    for group in groups(comparison.plan):
        mine = [t for t in comparison.trials if t.group == group]
        wanted = comparison.plan.control_seeds if group.control else comparison.plan.seeds
        going = [f"seed {t.seed} at step {t.run.last} of {t.steps}" for t in mine if not t.complete]
        done = sum(t.complete for t in mine)
        lines.append(f"- {group}: {'; '.join([f'{done} of {len(wanted)} runs done', *going])}")
    return "\n".join(lines)


FINDINGS_HEAD = ["question", "compared", "measure", "predicted", "found", "verdict"]


def finding_rows(findings: Sequence[Finding]) -> list[list[str]]:
    """Return the cells of the findings; a question stands in its first row only."""
    rows, before = [], ""
    for f in findings:
        q = f.quantity
        unit = "" if q.unit in q.title else f" ({q.unit})"
        limit = f"{f.threshold * q.factor:g}"
        rows.append(
            [
                f.question if f.question != before else "",
                f.compared,
                q.title + unit,
                f"{'above' if f.predicted > 0 else 'below'} {limit}",
                (cell(q, f.estimate) or f.note) + (MARK if f.incomplete and f.estimate else ""),
                f.verdict,
            ]
        )
        before = f.question
    return rows


def table_rows(table: Table) -> list[list[str]]:
    """Return the cells of a table: title, unit, and one a column."""
    return [[q.title, q.unit, *(cell(q, e) for e in cells)] for q, cells in table.rows]


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
    return figure(value).replace("-", "−")
