"""The top of the page: living members against the frozen base, one table a run."""

from collections.abc import Sequence

from selfplay.records.yardstick_row import YardstickRow
from selfplay.report.markup import element, escape
from selfplay.report.reading.run_data import Run
from selfplay.report.reading.standing import (
    base_teaching,
    conclusion,
    latest,
    rate_text,
    sampling,
    solvers,
    teachers,
)


def standing_tables(runs: Sequence[Run]) -> str:
    """Return the conclusion and tables of every run; empty where nothing was measured."""
    return "".join(_of_run(run, len(runs) > 1) for run in runs if run.standings)


def _of_run(run: Run, named: bool) -> str:
    last = latest(run.standings)
    parts = [element("h3", escape(run.name))] if named else []
    parts.append(element("p", escape(conclusion(run.standings)), class_="lead"))
    tables = _solving(solvers(last)) + _teaching([*base_teaching(run.standings), *teachers(last)])
    parts.append(element("div", tables, class_="tables"))
    return "".join(parts)


def _solving(standings: Sequence[YardstickRow]) -> str:
    if not standings:
        return ""
    rates = {s.member: s.rate for s in standings if s.rate}
    kinds = sorted({kind for rate in rates.values() for kind in rate.kinds})
    rows = [
        [
            member,
            rate_text(rate),
            *(_points(rate.kinds[k].difference) if k in rate.kinds else "" for k in kinds),
            "" if rate.tokens is None else f"{rate.tokens:.0f}",
        ]
        for member, rate in rates.items()
    ]
    tasks, samples = sampling(standings[0])
    note = (
        f"{tasks} held-out tasks, {samples} samples each with the same seeds; "
        "differences in points, ± the standard error over tasks, paired with the frozen base."
    )
    return _table(["", "base → member", *kinds, "tokens an answer"], rows, note)


def _teaching(standings: Sequence[YardstickRow]) -> str:
    rows = [
        [
            s.member,
            _percent(t.base_solve_rate),
            _percent(t.valid_share),
            "" if t.reward is None else f"{t.reward:+.2f}",
            "" if t.new_structures is None else f"{t.new_structures}",
        ]
        for s in standings
        if (t := s.taught)
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


def _points(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
