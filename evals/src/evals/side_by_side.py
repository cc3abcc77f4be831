"""Finished runs side by side: one table, and adapters compared with one of them task by task."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evals.errors import EvalsError, did_you_mean
from evals.evaluation import BASE
from evals.members import Group
from evals.metrics import Comparison, Verdicts, compare
from evals.results import FinishedRun, by_question
from evals.tables import Table, build_table


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
    """table: None where nothing was graded. pairs: each other adapter minus the one asked for."""

    runs: tuple[FinishedRun, ...]
    names: tuple[str, ...]
    """What the table calls the adapter of each run."""
    table: Table | None
    pairs: tuple[Pair, ...]

    def as_json(self) -> dict[str, Any]:
        """Return results, table and comparisons as plain data."""
        return {
            "results": [asdict(run.result) for run in self.runs],
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
    verdicts: dict[str, dict[str, Verdicts]] = defaultdict(dict)
    for name, run in zip(names, runs, strict=True):
        benchmark = run.result.benchmark
        if benchmark in verdicts[name]:
            raise EvalsError(
                f"{name} on {benchmark} was found twice, last in {run.folder}; "
                "name folders with one result each"
            )
        verdicts[name][benchmark] = by_question(run.verdicts)
    pairs = () if against is None else tuple(_pairs(verdicts, groups, against, k))
    table = None
    if any(run.result.overall.rate is not None for run in runs):
        named = list(zip(names, runs, strict=True))
        partial = {(name, run.result.benchmark) for name, run in named if run.result.partial}
        base = {name for name, run in named if run.result.adapter == BASE}
        table = build_table(verdicts, base=base, partial=partial, k=k, groups=groups)
    return SideBySide(tuple(runs), tuple(names), table, pairs)


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


def _pairs(
    verdicts: Mapping[str, Mapping[str, Verdicts]],
    groups: Mapping[str, Group | None],
    against: str,
    k: int | None,
) -> list[Pair]:
    if against not in verdicts:
        raise EvalsError(f"no results of {against!r}; {did_you_mean(against, verdicts)}")
    other = verdicts[against]
    return [
        Pair(name, against, benchmark, compare(answers, other[benchmark], k), groups[name])
        for name, results in verdicts.items()
        if name != against
        for benchmark, answers in results.items()
        if benchmark in other
    ]


PAIR_COLUMNS = ("difference, points", "95 %", "better on", "worse on", "same on")


def pair_cells(pair: Pair) -> list[str]:
    """Return the cells below `PAIR_COLUMNS`: points of 100, and numbers of tasks."""
    result = pair.comparison
    return [
        f"{100 * result.difference:+.1f}",
        f"{100 * result.low:+.1f} to {100 * result.high:+.1f}",
        *map(str, (result.wins, result.losses, result.ties)),
    ]
