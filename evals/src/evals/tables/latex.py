"""A table for a paper."""

import re

from evals.tables.cell_text import cell_text, heading
from evals.tables.table import Row, Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"$^{\dagger}$",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}
_PATTERN = re.compile("|".join(map(re.escape, _SPECIAL)))


def to_latex(table: Table, intervals: bool = False) -> str:
    r"""A `tabular` with booktabs' rules (`\usepackage{booktabs}`), notes as lines below it."""

    def line(row: Row) -> str:
        cells = (
            cell_text(
                row.cells.get(column),
                intervals,
                partial=r"$^{*}$",
                incomplete=r"$^{\dagger}$",
                dash="--",
            )
            for column in table.columns
        )
        rule = "\\midrule\n" if row.kind == "mean" else ""
        return f"{rule}{' & '.join((escape(row.label), *cells))} \\\\"

    head = " & ".join(escape(title) for title in heading(table))
    body = "\n".join(map(line, table.rows))
    notes = "".join(f"\\\\ {{\\footnotesize {escape(note)}}}\n" for note in table.notes)
    return (
        f"\\begin{{tabular}}{{l{'r' * len(table.columns)}}}\n\\toprule\n{head} \\\\\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}\n{notes}"
    ).rstrip()


def escape(text: str) -> str:
    """Text that LaTeX sets as it is."""
    return _PATTERN.sub(lambda found: _SPECIAL[found[0]], text)
