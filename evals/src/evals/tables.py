"""Tables of scores: the paper's, as text, Markdown and CSV."""

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from html import escape
from itertools import pairwise, product
from typing import Any

from evals.data import OFFICIAL
from evals.errors import EvalsError, did_you_mean
from evals.members import Group
from evals.recipes import CODE, MATH
from evals.scores import Kind, Measure, Row, Scores, Verdicts, adjust, averages, score_members
from lora_evo.terminal import text_table

TITLES = {name: OFFICIAL[name].title for name in CODE + MATH}
TITLES |= {"code": "code avg", "math": "math avg", "total": "total avg"}
PAIR_COLUMNS = ("difference, points", "95 %", "p", "better on", "worse on", "same on")
_PARTS = {"code": CODE, "math": MATH, "total": CODE + MATH}
_MEANINGS = {
    "pass@k": "chance that one of {} samples is right",
    "pass^k": "chance that all of {} samples are right",
    "maj@k": "whether the commonest answer of {} samples is right",
}
_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")
_SCORE = str.split("value low high problems ungraded partial strange incomplete member")
_DIFFERENCE = str.split("low high p wins losses ties problems ungraded")


@dataclass(frozen=True, repr=False)
class Table:
    """Scores of adapters: a line for each adapter and summary, a column for each benchmark.

    columns: benchmarks, then the averages `code`, `math` and `total` that exist. rows: line by
    line, one for each column: `pandas.DataFrame(table.rows)`. measure: such as `pass@4`. notes:
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
                **_fields(line[0], ("label", "kind")),
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
    strange: Collection[tuple[str, str]] = (),
    k: int | None = None,
    measure: Measure = "pass@k",
    groups: Mapping[str, Group | None] | None = None,
    against: str | Mapping[tuple[str, str], str] | None = None,
) -> Table:
    """Build the table of adapters (name -> benchmark -> verdicts), group by group.

    base: names in `results` of the base model, which is in no group. partial: pairs (name,
    benchmark) that were run with a limit. k: pass@k, or `measure`, in place of avg@n; maj@k needs
    verdicts of `scores.majority`. groups: role and run of adapters; those without one form a group,
    too. A group of two or more gets a mean, a weakest and a best. against: the adapter with which
    all others are compared, or by pairs (name, benchmark) the one with which that is. Raises
    EvalsError when nothing was graded, for a k that is too large, and for an unknown `against`.

        >>> base, member = {"1": [True], "2": [False]}, {"1": [True], "2": [True]}
        >>> table = build_table({"base": {"gsm8k": base}, "s0": {"gsm8k": member}}, base="base")
        >>> [f"{row.label}: {row.value:.0%}" for row in table.rows if row.column == "gsm8k"]
        ['base: 50%', 's0: 100%']
    """
    if isinstance(against, str):
        if against not in results:
            raise EvalsError(f"no results of {against!r}; {did_you_mean(against, results)}")
        names = [name for name in results if name != against]
        against = {(n, b): against for n in names for b in results[n] if b in results[against]}
    benchmarks = dict.fromkeys(name for by_name in results.values() for name in by_name)
    scores, many = {}, None if measure == "maj@k" else k
    for benchmark in benchmarks:
        verdicts = {m: by_name[benchmark] for m, by_name in results.items() if benchmark in by_name}
        if (members_scores := score_members(verdicts, benchmark, many, measure)) is not None:
            scores[benchmark] = members_scores
    if not scores:
        raise EvalsError("no verdict on any benchmark; run or grade one first")
    bases = {base} if isinstance(base, str) else set(base or ())
    layout = _Layout(scores | averages(scores), set(partial), set(strange), bases, groups or {})
    rows = list(layout.rows(results))
    differences = layout.differences(against or {})
    notes = list(layout.notes(rows, [name for name in benchmarks if name not in scores]))
    title = "avg@n" if k is None else f"{measure[:-1]}{k}"
    meaning = "share of right samples" if k is None else _MEANINGS[measure].format(k)
    notes.append(f"{title}: {meaning}, mean over tasks; in brackets: 95 % interval")
    if differences:
        notes.append(f"p: of no difference, adjusted for {len(differences)} comparisons (Holm)")
    if any(row.ungraded for row in differences):
        notes.append("comparisons count only tasks that are judged on both sides")
    return Table(tuple(layout.columns), tuple(rows), title, tuple(notes), tuple(differences))


@dataclass(frozen=True)
class _Layout:
    """What becomes a table. scores: of benchmarks and averages. Others: as in `build_table`."""

    scores: Mapping[str, Scores]
    partial: set[tuple[str, str]]
    strange: set[tuple[str, str]]
    bases: Collection[str]
    groups: Mapping[str, Group | None]

    @property
    def columns(self) -> list[str]:
        names = [name for name in self.scores if name not in TITLES]
        return names + [name for name in TITLES if name in self.scores]

    def missing(self, column: str) -> list[str]:
        """The benchmarks that an average lacks."""
        return [name for name in _PARTS.get(column, ()) if name not in self.scores]

    def rows(self, names: Iterable[str]) -> Iterator[Row]:
        """The lines of the base, then of each group: its members, mean, weakest and best."""
        by_group: dict[Group | None, list[str]] = {}
        scores = [self.scores[column] for column in self.columns]
        for name in names:
            if name in self.bases:
                yield from self._line([s.row(name) for s in scores], name, "base", None, [name])
            else:
                by_group.setdefault(self.groups.get(name), []).append(name)
        several = len({group.run for group in by_group if group is not None}) > 1
        for group, members in by_group.items():
            for name in members:
                yield from self._line([s.row(name) for s in scores], name, "member", group, [name])
            if len(members) < 2:
                continue
            summaries = [s.summary(members) for s in scores]
            role = "adapter" if group is None else group.role
            of = f" of {group.run}" if group is not None and several and group.run else ""
            for kind in summaries[0]:
                label = f"mean of {len(members)} {role}s" if kind == "mean" else f"{kind} {role}"
                cells = [summary[kind] for summary in summaries]
                yield from self._line(cells, label + of, kind, group, members)

    def _line(
        self, cells: list[Row], label: str, kind: Kind, group: Group | None, of: Sequence[str]
    ) -> Iterator[Row]:
        """The scores of one line. of: the adapters that they are of."""
        label = " ".join(label.split()) or "(no name)"
        for row in cells:
            pairs = set(product(of, _PARTS.get(row.column, (row.column,))))
            partial, strange = bool(pairs & self.partial), bool(pairs & self.strange)
            row = replace(row, label=label, kind=kind, group=group, partial=partial)
            yield replace(row, strange=strange, incomplete=bool(self.missing(row.column)))

    def differences(self, against: Mapping[tuple[str, str], str]) -> list[Row]:
        """The difference of each pair (name, benchmark) from the adapter that `against` names."""
        rows = []
        for (name, benchmark), other in against.items():
            if benchmark in self.scores:
                row, group = self.scores[benchmark].difference(name, other), self.groups.get(name)
                kind: Kind = "base" if name in self.bases else "member"
                rows.append(replace(row, kind=kind, group=group))
        return adjust(rows)

    def notes(self, rows: Sequence[Row], without_verdict: Sequence[str]) -> Iterator[str]:
        """The notes below a table; the marks * and † are explained first."""
        if any(row.partial and row.problems for row in rows):
            yield "* part of the benchmark (--limit)"
        if any(row.strange and row.problems for row in rows):
            yield "‡ with other rows than the published ones (--data)"
        for average in ("code", "math"):
            if average in self.scores and (missing := self.missing(average)):
                yield f"† the {average} average is without {', '.join(missing)}"
        benchmarks = [scores for name, scores in self.scores.items() if name not in _PARTS]
        if uneven := [s.name for s in benchmarks if not s.judged.all()]:
            yield f"members were not graded on the same problems: {', '.join(uneven)}"
        if ungraded := sum(sum(s.ungraded.values()) for s in benchmarks):
            yield f"samples without a verdict, not counted: {ungraded}"
        if any(row.kind == "weakest" for row in rows):
            yield (
                "weakest and best are chosen column by column, by the scores shown, which "
                "therefore look worse and better than they are and have no interval"
            )
            yield "intervals of groups resample problems, not members"
        for scores in benchmarks:
            for member, count in scores.ungraded.items():
                if count and member not in scores.members:
                    yield f"no sample of {member} has a verdict: {scores.name}"
        if without_verdict:
            yield f"no sample has a verdict: {', '.join(without_verdict)}"


def as_text(table: Table) -> str:
    """Return aligned columns with intervals; a rule above each group, or above the only mean."""
    head, *lines = text_table(heading(table), map(score_cells, table.lines)).split("\n")
    rules, rule = find_rules(table), "-" * max(map(len, (head, *lines)))
    grid = [f"{rule}\n" * (at in rules) + line for at, line in enumerate(lines)]
    return "\n".join((head, *grid, *table.notes))


def as_markdown(table: Table) -> str:
    """Return a pipe table with intervals, the notes below it as a list; all names escaped."""
    lines = [heading(table), ["---"] + ["---:"] * len(table.columns)]
    lines += [list(map(_escape, score_cells(line))) for line in table.lines]
    notes = [f"- {_escape(note)}" for note in table.notes]
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join((*rows, *([""] if notes else []), *notes))


def as_csv(tables: Iterable[Table]) -> str:
    """Return all scores and differences, a row each, with the names of columns above."""
    file = io.StringIO()
    skipped = ("group", "interval")
    names = ["measure", "role", "run", *(f.name for f in fields(Row) if f.name not in skipped)]
    writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for table in tables:
        for row in (*table.rows, *table.differences):
            of = asdict(row.group) if row.group else {}
            value = row.value if row.problems else None
            writer.writerow({"measure": table.measure, **vars(row), **of, "value": value})
    return file.getvalue()


def find_rules(table: Table) -> set[int]:
    """Return the lines, from 0, below a rule: the first of each group, or an only group's mean."""
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
    """Return the label, and each score such as "66.7* (48.3-81.2)"; `-` for none. A weakest or best
    is without an interval. Where samples have no verdict, their number follows."""
    texts = [line[0].label]
    for row in line:
        marks = "*" * row.partial + "†" * row.incomplete + "‡" * row.strange
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
    p = "<0.001" if row.p is not None and row.p < 0.001 else f"{row.p:.3f}"
    return [points[0], points[1] + lost(row), p, *map(str, (row.wins, row.losses, row.ties))]


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", escape(text, quote=False))
