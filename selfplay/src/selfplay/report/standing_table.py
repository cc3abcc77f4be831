"""The top of the page: living members against the frozen base, one table a run."""

from collections.abc import Sequence

from selfplay.report.markup import element, escape
from selfplay.report.reading.run_data import Run
from selfplay.report.reading.standing import (
    Standing,
    conclusion,
    latest,
    rate_text,
    solvers,
    teachers,
)


def standing_tables(runs: Sequence[Run]) -> str:
    """Return the conclusion and tables of every run; empty where nothing was measured."""
    return "".join(_of_run(run, len(runs) > 1) for run in runs if run.standings)


def _of_run(run: Run, named: bool) -> str:
    last = latest(run.standings)
    base = [s for s in run.standings if s.role == "base" and s.valid_share is not None]
    parts = [element("h3", escape(run.name))] if named else []
    parts.append(element("p", escape(conclusion(run.standings)), class_="lead"))
    tables = _solving(solvers(last)) + _teaching([*base[:1], *teachers(last)])
    parts.append(element("div", tables, class_="tables"))
    return "".join(parts)


def _solving(standings: Sequence[Standing]) -> str:
    if not standings:
        return ""
    kinds = sorted({kind for s in standings for kind in s.kinds})
    rows = [
        [
            s.member,
            rate_text(s.rate) if s.rate else "",
            *(f"{100 * s.kinds[k].difference:+.1f}" if k in s.kinds else "" for k in kinds),
            "" if s.tokens is None else f"{s.tokens:.0f}",
        ]
        for s in standings
    ]
    first = standings[0]
    note = (
        f"{first.tasks} held-out tasks, {first.samples} samples each with the same seeds; "
        "differences in points, ± the standard error over tasks, paired with the frozen base."
    )
    return _table(["", "base → member", *kinds, "tokens an answer"], rows, note)


def _teaching(standings: Sequence[Standing]) -> str:
    rows = [
        [
            s.member,
            _percent(s.base_solve_rate),
            _percent(s.valid_share),
            "" if s.reward is None else f"{s.reward:+.2f}",
            "" if s.new_structures is None else f"{s.new_structures:.0f}",
        ]
        for s in standings
    ]
    note = (
        "Proposals after references that never change. Reward as if the frozen base were the "
        "student; new: structures of programs that the run has not seen before."
    )
    head = ["", "solved by the base", "valid", "reward", "new structures"]
    return _table(head, rows, note) if len(rows) > 1 else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> str:
    lines = [element("tr", "".join(element("th", escape(name)) for name in head))]
    lines += [
        element(
            "tr",
            element("td", escape(row[0]))
            + "".join(element("td", escape(cell), class_="number") for cell in row[1:]),
        )
        for row in rows
    ]
    table = element("div", element("table", "".join(lines)), class_="scroll")
    return element("div", table + element("p", escape(note), class_="hint"))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
