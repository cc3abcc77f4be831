"""A table as JSON knows it, for `--json`."""

from typing import Any

from evals.tables.table import Cell, Table


def to_dict(table: Table) -> dict[str, Any]:
    """Scores as shares in [0, 1], with error, interval and counts; NaN is None."""
    return {
        "measure": table.measure,
        "columns": list(table.columns),
        "rows": [
            {
                "label": row.label,
                "kind": row.kind,
                "scores": {column: _cell(cell) for column, cell in row.cells.items()},
            }
            for row in table.rows
        ],
        "notes": list(table.notes),
    }


def _cell(cell: Cell) -> dict[str, Any]:
    found = cell.score.to_dict() | {"partial": cell.partial, "incomplete": cell.incomplete}
    return found if cell.member is None else found | {"member": cell.member}
