"""Tables of scores: the paper's, as text and as Markdown; and finished runs side by side."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from evals.errors import EvalsError, did_you_mean
from evals.evaluation import BASE
from evals.members import Group
from evals.metrics import (
    Column,
    Comparison,
    Estimate,
    Verdicts,
    aggregates,
    compare,
    population,
    score_members,
)
from evals.recipes import CODE, MATH
from evals.results import FinishedRun, by_question

Kind: TypeAlias = Literal["base", "member", "mean", "weakest", "best"]

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
_PARTS = {"code": CODE, "math": MATH, "total": CODE + MATH}
_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


@dataclass(frozen=True)
class Cell(Estimate):
    """A score in a row. partial: of part of the benchmark. incomplete: an average that lacks one.

    member: of a weakest or best, whose score it is.
    """

    partial: bool = False
    incomplete: bool = False
    member: str | None = None


@dataclass(frozen=True)
class Row:
    """One line; `scores` by column, without the columns that have nothing to show.

    group: of a member of a selfplay run, and of the mean, weakest and best of such members.
    """

    label: str
    kind: Kind
    scores: Mapping[str, Cell]
    group: Group | None = None


@dataclass(frozen=True, repr=False)
class Table:
    """columns: benchmark names, then those of `code`, `math` and `total` that exist, in order.

    measure: what the numbers are (`avg@n` or `pass@k`). notes: sentences that belong below it.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    measure: str
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return to_text(self)

    def _repr_html_(self) -> str:
        lines = [(heading(self), "th"), *((score_cells(self, row), "td") for row in self.rows)]
        rows = "".join(
            f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
            for cells, tag in lines
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table>{rows}</table>{notes}"


def build_table(
    results: Mapping[str, Mapping[str, Verdicts]],
    *,
    base: str | Collection[str] | None = None,
    partial: Collection[tuple[str, str]] = (),
    k: int | None = None,
    groups: Mapping[str, Group | None] | None = None,
) -> Table:
    """Build the table of adapters (name -> benchmark -> verdicts), group by group.

    base: names in `results` of the base model, which is in no group. partial: pairs (name,
    benchmark) that were run with a limit. groups: role and run of adapters; those without are a
    group, too. Mean, weakest and best follow the members of each group of two or more. Raises
    EvalsError when nothing was graded, or for a k that is too large.

        >>> base, member = {"1": [True], "2": [False]}, {"1": [True], "2": [True]}
        >>> table = build_table({"base": {"gsm8k": base}, "s0": {"gsm8k": member}}, base="base")
        >>> [f"{row.label}: {row.scores['gsm8k'].value:.0%}" for row in table.rows]
        ['base: 50%', 's0: 100%']
    """
    bases = {base} if isinstance(base, str) else set(base or ())
    by_group: dict[Group | None, list[str]] = {}
    for name in results:
        if name not in bases:
            by_group.setdefault((groups or {}).get(name), []).append(name)
    several = len({group.run for group in by_group if group is not None}) > 1
    scores, ungraded = _columns(results, k)
    columns = _Columns(scores, frozenset(partial))
    rows = [columns.row(name, "base") for name in results if name in bases]
    for group, members in by_group.items():
        rows += [columns.row(name, "member", group) for name in members]
        if len(members) > 1:
            rows += columns.summaries(members, group, several)
    notes = _notes(scores, rows, columns.missing)
    if ungraded:
        notes.append(f"no sample has a verdict: {', '.join(ungraded)}")
    measure = "avg@n" if k is None else f"pass@{k}"
    share = "share of right samples" if k is None else f"chance that one of {k} samples is right"
    notes.append(f"{measure}: {share}, mean over tasks; in brackets: 95 % interval")
    return Table(tuple(columns.order), tuple(rows), measure, tuple(notes))


class _Columns:
    """The columns of a table in their order, and the rows that they give.

    partial: (name, benchmark) of what was run with a limit. missing: by average, the benchmarks
    that it lacks.
    """

    def __init__(self, scores: Mapping[str, Column], partial: Collection[tuple[str, str]]) -> None:
        self.scores, self.partial = scores, partial
        known = [name for name in TITLES if name in scores]
        self.order = [name for name in scores if name not in TITLES] + known
        self.missing = {
            average: [name for name in parts if name not in scores]
            for average, parts in _PARTS.items()
        }

    def row(self, name: str, kind: Kind, group: Group | None = None) -> Row:
        """Return the row of one adapter."""
        scores = {column: self.scores[column].estimate(name) for column in self.order}
        cells = {c: self._cell(c, score, [name]) for c, score in scores.items() if score}
        return Row(_one_line(name), kind, cells, group)

    def summaries(self, members: Sequence[str], group: Group | None, several: bool) -> list[Row]:
        """Return the mean, the weakest and the best of a group; several: runs are told apart."""
        columns = {column: population(self.scores[column], members) for column in self.order}
        role = "adapter" if group is None else group.role
        of = f" of {group.run}" if group is not None and several and group.run else ""
        labels: dict[Kind, str] = {"mean": f"mean of {len(members)} {role}s{of}"}
        labels |= {"weakest": f"weakest {role}{of}", "best": f"best {role}{of}"}
        rows = []
        for kind, label in labels.items():
            cells = {
                column: self._cell(column, summary[kind][0], members, summary[kind][1])
                for column, summary in columns.items()
                if summary
            }
            rows.append(Row(_one_line(label), kind, cells, group))
        return rows

    def _cell(
        self, column: str, score: Estimate, names: Collection[str], member: str | None = None
    ) -> Cell:
        parts = _PARTS.get(column, (column,))
        limited = any(name in names and where in parts for name, where in self.partial)
        incomplete = bool(self.missing.get(column))
        return Cell(**vars(score), partial=limited, incomplete=incomplete, member=member)


def to_text(table: Table) -> str:
    """Return aligned columns with intervals; a rule above each group, or above the only mean."""
    lines = [score_cells(table, row) for row in table.rows]
    written = align(heading(table), lines, left=1).split("\n")
    rule = "-" * max(map(len, written))
    for number in sorted(ruled(table), reverse=True):
        written.insert(number + 1, rule)
    return "\n".join((*written, *table.notes))


def to_markdown(table: Table) -> str:
    """Return a pipe table with intervals, the notes below it as a list; all names escaped."""
    lines = [heading(table), ["---"] + ["---:"] * len(table.columns)]
    lines += [[_escape(cell) for cell in score_cells(table, row)] for row in table.rows]
    notes = [f"- {_escape(note)}" for note in table.notes]
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join((*rows, *([""] if notes else []), *notes))


def ruled(table: Table) -> set[int]:
    """Return the numbers, from 0, of the rows that begin a group, or the mean of the only one."""
    several = len({row.group for row in table.rows if row.kind == "member"}) > 1
    return {
        number
        for number, (before, row) in enumerate(pairwise(table.rows), 1)
        if (
            row.kind == "member" and (before.kind == "base" or before.group != row.group)
            if several
            else row.kind == "mean"
        )
    }


def align(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 2) -> str:
    """Return columns of equal width; the first `left` to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for row in (head, *rows):
        cells = (
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _columns(
    results: Mapping[str, Mapping[str, Verdicts]], k: int | None
) -> tuple[dict[str, Column], list[str]]:
    """Columns of the benchmarks and their averages; and benchmarks without any verdict."""
    columns: dict[str, Column] = {}
    ungraded = []
    for name in dict.fromkeys(name for by_benchmark in results.values() for name in by_benchmark):
        verdicts = {
            member: by_benchmark[name]
            for member, by_benchmark in results.items()
            if name in by_benchmark
        }
        if (column := score_members(verdicts, name, k)) is not None:
            columns[name] = column
        else:
            ungraded.append(name)
    if not columns:
        raise EvalsError("no verdict on any benchmark; run or grade one first")
    return columns | aggregates(columns), ungraded


def _notes(
    columns: Mapping[str, Column], rows: Sequence[Row], missing: Mapping[str, Sequence[str]]
) -> list[str]:
    """What a reader must know; the marks * and † are explained first."""
    cells = [cell for row in rows for cell in row.scores.values()]
    notes = ["* part of the benchmark (--limit)"] if any(cell.partial for cell in cells) else []
    for group in ("code", "math"):
        if group in columns and missing[group]:
            notes.append(f"† the {group} average is without {', '.join(missing[group])}")
    plain = {name: column for name, column in columns.items() if name not in _PARTS}
    uneven = [name for name, column in plain.items() if column.uneven]
    if uneven:
        notes.append(f"members were not graded on the same problems: {', '.join(uneven)}")
    samples = sum(int(column.ungraded.sum()) for column in plain.values())
    if samples:
        notes.append(f"samples without a verdict, not counted: {samples}")
    if any(row.kind == "weakest" for row in rows):
        notes.append(
            "weakest and best are chosen column by column, by the scores shown, which therefore "
            "look worse and better than they are and have no interval"
        )
        notes.append("intervals of groups resample problems, not members")
    return notes


def heading(table: Table) -> list[str]:
    """Return the measure, and the title of each column."""
    return [f"{table.measure}, %", *(TITLES.get(column, column) for column in table.columns)]


def score_cells(table: Table, row: Row) -> list[str]:
    """Return the label, and each score such as "66.7* (48.3-81.2)"; `-` for none.

    A weakest or best is without an interval.
    """
    texts = [row.label]
    for column in table.columns:
        cell = row.scores.get(column)
        if cell is None:
            texts.append("-")
            continue
        marks = ("*" if cell.partial else "") + ("†" if cell.incomplete else "")
        ends = " ({:.1f}-{:.1f})".format(*(100 * x for x in cell.interval)) if cell.interval else ""
        texts.append(f"{100 * cell.value:.1f}{marks}{ends}")
    return texts


def _one_line(label: str) -> str:
    return " ".join(label.split()) or "(no name)"


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", escape(text, quote=False))


@dataclass(frozen=True)
class Pair:
    """One adapter, of a group, minus another one on a benchmark."""

    adapter: str
    against: str
    benchmark: str
    comparison: Comparison
    group: Group | None


@dataclass(frozen=True)
class SideBySide:
    """named: runs, with what the table calls the adapter of each. table: None where nothing was
    graded. pairs: each other adapter minus the one asked for.
    """

    named: tuple[tuple[str, FinishedRun], ...]
    table: Table | None
    pairs: tuple[Pair, ...]

    def as_json(self) -> dict[str, Any]:
        """Return results, table and comparisons as plain data."""
        return {
            "results": [asdict(run.result) for _, run in self.named],
            "table": self.table and asdict(self.table),
            "comparisons": [
                {"adapter": pair.adapter, "against": pair.against, "benchmark": pair.benchmark}
                | asdict(pair.comparison)
                for pair in self.pairs
            ],
        }


def side_by_side(
    runs: Sequence[FinishedRun], k: int | None = None, against: str | None = None
) -> SideBySide:
    """Put finished runs into one table, and compare them with the adapter called `against`.

    k: pass@k in place of avg@n. Raises EvalsError for two results of one adapter, benchmark and
    folder, for an `against` that is not there, and for a k that is too large.
    """
    names, groups = _names_and_groups(runs)
    named = tuple(zip(names, runs, strict=True))
    verdicts: dict[str, dict[str, Verdicts]] = defaultdict(dict)
    for name, run in named:
        benchmark = run.result.benchmark
        if benchmark in verdicts[name]:
            raise EvalsError(
                f"{name} on {benchmark} was found twice, last in {run.folder}; "
                "name folders with one result each"
            )
        verdicts[name][benchmark] = by_question(run.verdicts)
    if against is not None and against not in verdicts:
        raise EvalsError(f"no results of {against!r}; {did_you_mean(against, verdicts)}")
    other = verdicts[against] if against is not None else {}
    pairs = tuple(
        Pair(name, str(against), benchmark, compare(answers, other[benchmark], k), groups[name])
        for name, results in verdicts.items()
        if name != against
        for benchmark, answers in results.items()
        if benchmark in other
    )
    table = None
    if any(run.result.overall.rate is not None for run in runs):
        partial = {(name, run.result.benchmark) for name, run in named if run.result.partial}
        base = {name for name, run in named if run.result.adapter == BASE}
        table = build_table(verdicts, base=base, partial=partial, k=k, groups=groups)
    return SideBySide(named, table, pairs)


def _names_and_groups(runs: Sequence[FinishedRun]) -> tuple[list[str], dict[str, Group | None]]:
    """Name the row of each run, and the group of each row.

    An adapter has one row, unless a benchmark has two results of it, or they are of members of two
    selfplay runs: then the folder of results is named, too, in the row and in all groups.
    """
    times = Counter((run.result.adapter, run.result.benchmark) for run in runs)
    homes: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        if run.result.group is not None and run.result.group.run is not None:
            homes[run.result.adapter].add(run.result.group.run)
    twice = {adapter for (adapter, _), count in times.items() if count > 1}
    twice |= {adapter for adapter, named in homes.items() if len(named) > 1}
    every_home = set().union(*homes.values())
    names: list[str] = []
    groups: dict[str, Group | None] = {}
    for run in runs:
        name, group, folder = run.result.adapter, run.result.group, run.folder.parents[1].name
        if group is not None and group.run is None and len(every_home) == 1:
            group = replace(group, run=next(iter(every_home)))
        if group is not None and twice - {BASE}:
            group = replace(group, run=f"{group.run} ({folder})" if group.run else folder)
        if name in twice:
            name += f" ({folder})"
        names.append(name)
        groups[name] = group or groups.get(name)
    return names, groups


PAIR_COLUMNS = ("difference, points", "95 %", "better on", "worse on", "same on")


def pair_cells(pair: Pair) -> list[str]:
    """Return the cells below `PAIR_COLUMNS`: points of 100, and numbers of tasks."""
    result = pair.comparison
    return [
        f"{100 * result.difference:+.1f}",
        f"{100 * result.low:+.1f} to {100 * result.high:+.1f}",
        *map(str, (result.wins, result.losses, result.ties)),
    ]
