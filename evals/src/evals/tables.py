"""Tables of scores: the paper's, as text and as Markdown; and finished runs side by side."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from itertools import pairwise
from typing import Any

from evals.data import OFFICIAL
from evals.errors import EvalsError, did_you_mean
from evals.members import BASE, Group
from evals.recipes import CODE, MATH
from evals.run import Run
from evals.scores import Kind, Row, Scores, Verdicts, averages, by_question, score_members
from lora_evo.terminal import text_table

TITLES = {name: OFFICIAL[name].title for name in CODE + MATH}
TITLES |= {"code": "code avg", "math": "math avg", "total": "total avg"}
PAIR_COLUMNS = ("difference, points", "95 %", "better on", "worse on", "same on")
_PARTS = {"code": CODE, "math": MATH, "total": CODE + MATH}
_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")
_SCORE = ("value", "low", "high", "problems", "ungraded", "partial", "incomplete", "member")
_DIFFERENCE = ("low", "high", "wins", "losses", "ties", "problems", "ungraded")


@dataclass(frozen=True, repr=False)
class Table:
    """Scores of adapters: a line for each adapter and summary, a column for each benchmark.

    columns: benchmarks, then the averages `code`, `math` and `total` that exist. rows: line by
    line, one for each column: `pandas.DataFrame(table.rows)`. measure: `avg@n` or `pass@k`. notes:
    sentences below the table. differences: a row for each benchmark and adapter that is compared.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    measure: str
    notes: tuple[str, ...]
    differences: tuple[Row, ...] = ()

    @property
    def lines(self) -> list[tuple[Row, ...]]:
        """Return the rows, a tuple for each line of the table."""
        width = len(self.columns)
        return [self.rows[start : start + width] for start in range(0, len(self.rows), width)]

    def __repr__(self) -> str:
        return as_text(self)

    def as_json(self) -> dict[str, Any]:
        """Return the table as plain data, a row for each line with its scores by column."""
        rows: list[dict[str, Any]] = [
            {
                "label": line[0].label,
                "kind": line[0].kind,
                "scores": {row.column: _fields(row, _SCORE) for row in line if row.problems},
                "group": line[0].group and asdict(line[0].group),
            }
            for line in self.lines
        ]
        columns, notes = list(self.columns), list(self.notes)
        return {"columns": columns, "rows": rows, "measure": self.measure, "notes": notes}

    def differences_as_json(self) -> list[dict[str, Any]]:
        """Return the differences as plain data."""
        return [
            {"adapter": row.label, "against": row.against, "benchmark": row.column}
            | {"difference": row.value, **_fields(row, _DIFFERENCE)}
            for row in self.differences
        ]


def _fields(row: Row, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def build_table(
    results: Mapping[str, Mapping[str, Verdicts]],
    *,
    base: str | Collection[str] | None = None,
    partial: Collection[tuple[str, str]] = (),
    k: int | None = None,
    groups: Mapping[str, Group | None] | None = None,
    against: str | None = None,
) -> Table:
    """Build the table of adapters (name -> benchmark -> verdicts), group by group.

    base: names in `results` of the base model, which is in no group. partial: pairs (name,
    benchmark) that were run with a limit. k: pass@k in place of avg@n. groups: role and run of
    adapters; adapters without one form a group, too. A group of two or more gets a mean, a weakest
    and a best. against: the adapter with which all others are compared. Raises EvalsError when
    nothing was graded, for a k that is too large, and for an unknown `against`.

        >>> base, member = {"1": [True], "2": [False]}, {"1": [True], "2": [True]}
        >>> table = build_table({"base": {"gsm8k": base}, "s0": {"gsm8k": member}}, base="base")
        >>> [f"{row.label}: {row.value:.0%}" for row in table.rows if row.column == "gsm8k"]
        ['base: 50%', 's0: 100%']
    """
    if against is not None and against not in results:
        raise EvalsError(f"no results of {against!r}; {did_you_mean(against, results)}")
    benchmarks = dict.fromkeys(name for by_name in results.values() for name in by_name)
    scores = {}
    for benchmark in benchmarks:
        verdicts = {m: by_name[benchmark] for m, by_name in results.items() if benchmark in by_name}
        if (members_scores := score_members(verdicts, benchmark, k)) is not None:
            scores[benchmark] = members_scores
    if not scores:
        raise EvalsError("no verdict on any benchmark; run or grade one first")
    everything = scores | averages(scores)
    columns = [name for name in everything if name not in TITLES]
    columns += [name for name in TITLES if name in everything]
    missing = {part: [name for name in _PARTS[part] if name not in scores] for part in _PARTS}
    bases = {base} if isinstance(base, str) else set(base or ())
    by_group: dict[Group | None, list[str]] = {}
    for name in results:
        if name not in bases:
            by_group.setdefault((groups or {}).get(name), []).append(name)
    several = len({group.run for group in by_group if group is not None}) > 1

    def line(
        cells: Iterable[Row], label: str, kind: Kind, group: Group | None, names: Sequence[str]
    ) -> list[Row]:
        return [
            replace(
                row,
                label=" ".join(label.split()) or "(no name)",
                kind=kind,
                group=group,
                partial=any(n in names and b in _PARTS.get(row.column, row.column) for n, b in cut),
                incomplete=bool(missing.get(row.column)),
            )
            for row in cells
        ]

    def member(name: str, kind: Kind, group: Group | None = None) -> list[Row]:
        return line((everything[c].row(name) for c in columns), name, kind, group, [name])

    cut = set(partial)
    rows = [row for name in results if name in bases for row in member(name, "base")]
    for group, members in by_group.items():
        rows += [row for name in members for row in member(name, "member", group)]
        if len(members) > 1:
            summaries = [everything[column].summary(members) for column in columns]
            for kind, label in _labels(group, len(members), several).items():
                rows += line((rows[kind] for rows in summaries), label, kind, group, members)
    notes = _notes(everything, rows, missing)
    for name, of in scores.items():
        lost_ones = [m for m, count in of.ungraded.items() if count and m not in of.members]
        notes += [f"no sample of {member} has a verdict: {name}" for member in lost_ones]
    if ungraded := [name for name in benchmarks if name not in scores]:
        notes.append(f"no sample has a verdict: {', '.join(ungraded)}")
    measure = "avg@n" if k is None else f"pass@{k}"
    share = "share of right samples" if k is None else f"chance that one of {k} samples is right"
    notes.append(f"{measure}: {share}, mean over tasks; in brackets: 95 % interval")
    differences = tuple(
        replace(
            scores[benchmark].difference(name, against),
            kind="base" if name in bases else "member",
            group=(groups or {}).get(name),
        )
        for name in (results if against is not None else ())
        for benchmark in results[name]
        if against is not None and name != against and benchmark in results[against]
        if benchmark in scores
    )
    if any(row.ungraded for row in differences):
        notes.append("comparisons count only tasks that are judged on both sides")
    return Table(tuple(columns), tuple(rows), measure, tuple(notes), differences)


def _labels(group: Group | None, count: int, several: bool) -> dict[Kind, str]:
    """The names of a group's summaries. several: with the name of the run."""
    role = "adapter" if group is None else group.role
    of = f" of {group.run}" if group is not None and several and group.run else ""
    weakest, best = f"weakest {role}{of}", f"best {role}{of}"
    return {"mean": f"mean of {count} {role}s{of}", "weakest": weakest, "best": best}


def _notes(
    scores: Mapping[str, Scores], rows: Sequence[Row], missing: Mapping[str, Sequence[str]]
) -> list[str]:
    """The notes below a table; the marks * and † are explained first."""
    notes = []
    if any(row.partial and row.problems for row in rows):
        notes.append("* part of the benchmark (--limit)")
    for average in ("code", "math"):
        if average in scores and missing[average]:
            notes.append(f"† the {average} average is without {', '.join(missing[average])}")
    benchmarks = [s for s in scores.values() if not s.is_average]
    if uneven := [s.name for s in benchmarks if (s.values != s.values).any()]:
        notes.append(f"members were not graded on the same problems: {', '.join(uneven)}")
    if ungraded := sum(sum(s.ungraded.values()) for s in benchmarks):
        notes.append(f"samples without a verdict, not counted: {ungraded}")
    if any(row.kind == "weakest" for row in rows):
        notes.append(
            "weakest and best are chosen column by column, by the scores shown, which therefore "
            "look worse and better than they are and have no interval"
        )
        notes.append("intervals of groups resample problems, not members")
    return notes


def as_text(table: Table) -> str:
    """Return aligned columns with intervals; a rule above each group, or above the only mean."""
    head, *lines = text_table(heading(table), map(score_cells, table.lines)).split("\n")
    rules, rule = find_rules(table), "-" * max(map(len, (head, *lines)))
    grid = [text for at, line in enumerate(lines) for text in [*[rule] * (at in rules), line]]
    return "\n".join((head, *grid, *table.notes))


def as_markdown(table: Table) -> str:
    """Return a pipe table with intervals, the notes below it as a list; all names escaped."""
    lines = [heading(table), ["---"] + ["---:"] * len(table.columns)]
    lines += [list(map(_escape, score_cells(line))) for line in table.lines]
    notes = [f"- {_escape(note)}" for note in table.notes]
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join((*rows, *([""] if notes else []), *notes))


def find_rules(table: Table) -> set[int]:
    """Return the numbers, from 0, of the lines below a rule: the first of each group, or the mean
    where there is one group."""
    firsts = [line[0] for line in table.lines]
    means = {at for at, row in enumerate(firsts) if row.kind == "mean"}
    if len({row.group for row in firsts if row.kind == "member"}) < 2:
        return means
    return {
        at
        for at, (before, row) in enumerate(pairwise(firsts), 1)
        if row.kind == "member" and (before.kind == "base" or before.group != row.group)
    }


def heading(table: Table) -> list[str]:
    """Return the measure, and the title of each column."""
    return [f"{table.measure}, %", *(TITLES.get(column, column) for column in table.columns)]


def score_cells(line: Sequence[Row]) -> list[str]:
    """Return the label, and each score such as "66.7* (48.3-81.2)"; `-` for none.

    A weakest or best is without an interval. Where samples have no verdict, their number follows.
    """
    texts = [line[0].label]
    for row in line:
        marks = ("*" if row.partial else "") + ("†" if row.incomplete else "")
        ends = " ({:.1f}-{:.1f})".format(*(100 * x for x in row.interval)) if row.interval else ""
        score = f"{100 * row.value:.1f}{marks}{ends}" if row.problems else "-"
        texts.append(score + lost(row))
    return texts


def lost(row: Row) -> str:
    """Return a part of a text: how many samples of a score are not judged, or ""."""
    return f" {row.ungraded} not judged" if row.ungraded else ""


def pair_cells(row: Row) -> list[str]:
    """Return the cells of a difference for `PAIR_COLUMNS`: points of 100, and numbers of tasks."""
    low, high = row.interval or (row.value, row.value)
    points = f"{100 * row.value:+.1f}", f"{100 * low:+.1f} to {100 * high:+.1f}"
    return [points[0], points[1] + lost(row), *map(str, (row.wins, row.losses, row.ties))]


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", escape(text, quote=False))


def table_of(
    runs: Sequence[Run], k: int | None = None, against: str | None = None
) -> tuple[list[Run], Table | None]:
    """Put finished runs into one table, and compare them with the adapter called `against`.

    Returns the runs with their names and groups in the table, and the table, None where nothing was
    graded. Raises EvalsError for two results of one adapter, benchmark and folder, for an unknown
    `against`, and for a k that is too large.
    """
    runs = _with_names(runs)
    verdicts: dict[str, dict[str, Verdicts]] = defaultdict(dict)
    for run in runs:
        if run.benchmark in verdicts[run.name]:
            raise EvalsError(
                f"{run.name} on {run.benchmark} was found twice, last in {run.folder}; "
                "name folders with one result each"
            )
        verdicts[run.name][run.benchmark] = by_question(run.verdicts)
    if all(verdict.correct is None for run in runs for verdict in run.verdicts):
        return runs, None
    table = build_table(
        verdicts,
        base={run.name for run in runs if run.adapter == BASE},
        partial={(run.name, run.benchmark) for run in runs if run.partial},
        k=k,
        groups={run.name: run.group for run in runs},
        against=against,
    )
    return runs, table


def _with_names(runs: Sequence[Run]) -> list[Run]:
    """Name the line of each run, and its group.

    An adapter has one line, unless a benchmark has two results of it, or its name is that of
    members of two selfplay runs: then lines and groups also name the folder of results.
    """
    results = Counter((run.adapter, run.benchmark) for run in runs)
    homes = Counter(name for name, _ in {(run.adapter, run.group) for run in runs})
    twice = {adapter for (adapter, _), count in results.items() if count > 1}
    twice |= {adapter for adapter, count in homes.items() if count > 1}
    renamed = []
    for run in runs:
        folder = f" ({run.folder.parents[1].name})" if run.folder else ""
        group = run.group
        if group is not None and twice - {BASE}:
            group = replace(group, run=f"{group.run or ''}{folder}".strip())
        name = run.adapter + (folder if run.adapter in twice else "")
        renamed.append(replace(run, name=name, group=group))
    return renamed
