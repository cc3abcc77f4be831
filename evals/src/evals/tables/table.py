"""The paper's table as data: who scored what, before it is written in some format."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evals.errors import EvalsError
from evals.metrics.aggregate import CODE, MATH, aggregates, missing
from evals.metrics.counts import Verdicts
from evals.metrics.estimate import Estimate
from evals.metrics.population import population
from evals.metrics.scoreboard import Column, score_members

Kind = Literal["base", "baseline", "member", "mean", "weakest", "best"]

TITLES = {
    "humaneval_plus": "HEval+",
    "mbpp_plus": "MBPP+",
    "livecodebench": "LCB",
    "aime24": "AIME24",
    "aime25": "AIME25",
    "amc23": "AMC23",
    "math500": "MATH500",
    "olympiadbench": "Olympiad",
    "minerva_math": "Minerva",
    "gsm8k": "GSM8K",
    "code": "code avg",
    "math": "math avg",
    "total": "total avg",
}


@dataclass(frozen=True)
class Cell:
    """A score in a row. partial: of part of the benchmark. incomplete: an average that lacks one.

    member: of a weakest or best, whose score it is.
    """

    score: Estimate
    partial: bool = False
    incomplete: bool = False
    member: str | None = None


@dataclass(frozen=True)
class Row:
    """One line; `cells` by column, without the columns that have nothing to show."""

    label: str
    kind: Kind
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Table:
    """columns: benchmark names, then those of `code`, `math` and `total` that exist, in order.

    measure: what the numbers are (`avg@n` or `pass@k`). notes: sentences that belong below it.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    measure: str
    notes: tuple[str, ...]


def build_table(
    results: Mapping[str, Mapping[str, Verdicts]],
    *,
    base: str | None = None,
    baseline: str | None = None,
    partial: Collection[tuple[str, str]] = (),
    k: int | None = None,
    seed: int = 0,
) -> Table:
    """Table of members (name -> benchmark -> verdicts).

    base, baseline: names in `results` that are no members of the population. partial: pairs
    (name, benchmark) that were run with a limit. Population rows appear from two members on.
    Raises EvalsError when nothing was graded, for a name that is not there, or for a k that is
    too large.
    """
    for role, name in (("base", base), ("baseline", baseline)):
        if name is not None and name not in results:
            raise EvalsError(
                f"{role} {name!r} has no results; found {', '.join(results) or 'none'}"
            )
    members = [name for name in results if name not in (base, baseline)]
    columns = _columns(results, k, seed)
    order = [name for name in TITLES if name in columns]
    order = [name for name in columns if name not in TITLES] + order
    marks = _partial(columns, partial)
    lacking = {group: names for group, names in missing(columns).items() if group in columns}

    def cell(column: str, score: Estimate, names: Collection[str], who: str | None = None) -> Cell:
        short = any(lacking[group] for group in _groups(column) if group in lacking)
        return Cell(score, bool(marks[column].intersection(names)), short, who)

    def own(name: str, kind: Kind) -> Row:
        found = ((column, columns[column].estimate(name)) for column in order)
        return Row(
            _one_line(name),
            kind,
            {column: cell(column, score, [name]) for column, score in found if score is not None},
        )

    rows = [own(base, "base")] if base is not None else []
    rows += [own(baseline, "baseline")] if baseline is not None and baseline != base else []
    rows += [own(name, "member") for name in members]
    if len(members) > 1:
        groups = {column: population(columns[column], members) for column in order}
        known = {column: group for column, group in groups.items() if group is not None}
        mean = {c: cell(c, g.mean, members) for c, g in known.items()}
        weakest = {c: cell(c, g.weakest, members, g.weakest_member) for c, g in known.items()}
        best = {c: cell(c, g.best, members, g.best_member) for c, g in known.items()}
        rows += [
            Row(f"population mean of {len(members)}", "mean", mean),
            Row("weakest member", "weakest", weakest),
            Row("best member", "best", best),
        ]
    measure = "avg@n" if k is None else f"pass@{k}"
    notes = _notes(columns, rows, lacking)
    ungraded = [name for name in _benchmarks(results) if name not in columns]
    if ungraded:
        notes.append(f"no sample has a verdict: {', '.join(ungraded)}")
    return Table(tuple(order), tuple(rows), measure, tuple(notes))


def _columns(
    results: Mapping[str, Mapping[str, Verdicts]], k: int | None, seed: int
) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for name in _benchmarks(results):
        verdicts = {member: own[name] for member, own in results.items() if name in own}
        if any(v is not None for own in verdicts.values() for s in own.values() for v in s):
            columns[name] = score_members(verdicts, name, k, seed)
    if not columns:
        raise EvalsError("no verdict on any benchmark; run or grade one first")
    averages = aggregates(columns).items()
    return columns | {name: column for name, column in averages if column is not None}


def _benchmarks(results: Mapping[str, Mapping[str, Verdicts]]) -> list[str]:
    return list(dict.fromkeys(name for own in results.values() for name in own))


def _partial(
    columns: Mapping[str, Column], partial: Collection[tuple[str, str]]
) -> dict[str, set[str]]:
    """Column -> names whose score there is of part of a benchmark."""
    return {
        column: {name for name, where in partial if where == column or where in _parts(column)}
        for column in columns
    }


def _parts(column: str) -> tuple[str, ...]:
    return {"code": CODE, "math": MATH, "total": CODE + MATH}.get(column, ())


def _groups(column: str) -> tuple[str, ...]:
    return {"code": ("code",), "math": ("math",), "total": ("code", "math")}.get(column, ())


def _notes(
    columns: Mapping[str, Column], rows: Sequence[Row], lacking: Mapping[str, Sequence[str]]
) -> list[str]:
    """What a reader must know; the marks * and † are explained first."""
    cells = [cell for row in rows for cell in row.cells.values()]
    notes = ["* part of the benchmark (--limit)"] if any(cell.partial for cell in cells) else []
    for group, names in lacking.items():
        if names:
            notes.append(f"† the {group} average is without {', '.join(names)}")
    plain = {name: column for name, column in columns.items() if not _groups(name)}
    uneven = [name for name, column in plain.items() if column.uneven]
    if uneven:
        notes.append(f"members were not graded on the same problems: {', '.join(uneven)}")
    samples = sum(sum(column.ungraded) for column in plain.values())
    if samples:
        notes.append(f"samples without a verdict, not counted: {samples}")
    if any(row.kind == "weakest" for row in rows):
        notes.append(
            "weakest and best are chosen column by column; population intervals resample problems"
        )
    return notes


def _one_line(label: str) -> str:
    return " ".join(label.split()) or "(no name)"
