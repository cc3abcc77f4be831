"""Finished runs side by side: their lines in one table, with whom each is compared, and what they
do not have in common."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from evals.errors import EvalsError, did_you_mean
from evals.members import BASE
from evals.question import NO_ROOM
from evals.run import Run
from evals.scores import Measure, Verdicts, by_question, majority
from evals.tables import Table, build_table


def table_of(
    runs: Sequence[Run],
    k: int | None = None,
    against: str | None = None,
    measure: Measure = "pass@k",
) -> tuple[list[Run], Table | None]:
    """Put finished runs into one table, and compare them with the adapter called `against`.

    Returns the runs with their names and groups in the table, and the table, None where nothing was
    graded. against: a name in the table, or an adapter: where several folders of results have it,
    each run is compared with that of its own. Runs with other questions are not compared. Raises
    EvalsError for two results of an adapter, benchmark and folder, and unknown `against`, large k.
    """
    runs = list(_with_names(runs))
    verdicts: dict[str, dict[str, Verdicts]] = defaultdict(dict)
    for run in runs:
        if run.benchmark in verdicts[run.name]:
            twice = f"{run.name} on {run.benchmark} was found twice, last in {run.folder}"
            raise EvalsError(f"{twice}; name folders with one result each")
        votes = majority(run.verdicts, k) if k is not None and measure == "maj@k" else None
        verdicts[run.name][run.benchmark] = votes or by_question(run.verdicts)
    if all(verdict.correct is None for run in runs for verdict in run.verdicts):
        return runs, None
    opponents, apart = _opponents(runs, against)
    table = build_table(
        verdicts,
        base={run.name for run in runs if run.adapter == BASE},
        partial={(run.name, run.benchmark) for run in runs if run.partial},
        strange={(r.name, r.benchmark) for r in runs if r.settings.get("published") is False},
        k=k,
        measure=measure,
        groups={run.name: run.group for run in runs},
        against=opponents,
    )
    return runs, replace(table, notes=(*_unlike(runs), *apart, *table.notes))


_ASKED = {
    "benchmark_hash": "questions", "recipe": "recipe", "template": "prompt", "grading": "grading",
    "temperature": "temperature", "top_p": "top-p", "top_k": "top-k", "max_tokens": "max-tokens",
    "chat_template_args": "chat template arguments", "engine": "engine", "dtype": "dtype",
}  # fmt: skip
"""Settings that change scores, and their names."""


def _unlike(runs: Sequence[Run]) -> Iterator[str]:
    """A note for each benchmark that was not asked in one way, or has prompts that do not fit."""
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        group = [run for run in runs if run.benchmark == benchmark]
        names = []
        for key, name in _ASKED.items():
            values = list(dict.fromkeys(json.dumps(run.settings.get(key)) for run in group))
            texts = f"{name} ({', '.join(values)})"
            names += [texts if len(texts) < 80 else name] * (len(values) > 1)
        if names:
            differ = "; ".join(names)
            yield f"{benchmark}: results that were asked in different ways stand together: {differ}"
        if count := sum(v.reason == NO_ROOM for run in group for v in run.verdicts):
            yield f"{benchmark}: of {count} samples the prompt does not fit, which counts as wrong"


def _opponents(
    runs: Sequence[Run], against: str | None
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """The adapter with which each pair (name, benchmark) is compared, and notes on those that have
    other questions. Raises EvalsError for an unknown `against`, and where it is not one."""
    opponents, notes = {}, []
    rivals = [run for run in runs if against in (run.name, run.adapter)]
    if against is not None and not rivals:
        hint = did_you_mean(against, [run.name for run in runs])
        raise EvalsError(f"no results of {against!r}; {hint}")
    for run in runs:
        choices = [rival for rival in rivals if rival.benchmark == run.benchmark]
        choices = [rival for rival in choices if _home(rival) == _home(run)] or choices
        if len(choices) > 1:
            names = ", ".join(rival.name for rival in choices)
            raise EvalsError(f"{run.name} can be compared with {names}; type one of these names")
        for other in choices:
            if run.settings.get("benchmark_hash") != other.settings.get("benchmark_hash"):
                pair = f"{run.name} and {other.name} are not compared on {run.benchmark}"
                unlike = "their questions or right answers come from different files"
                notes.append(f"{pair}: {unlike}, or their graders differ")
            elif other is not run:
                opponents[run.name, run.benchmark] = other.name
    return opponents, notes


def _home(run: Run) -> Path | None:
    return run.folder and run.folder.parents[1]


def _with_names(runs: Sequence[Run]) -> Iterator[Run]:
    """Name the line of each run, and its group: with the folder of results if a benchmark has two
    results of an adapter, or members of two selfplay runs have its name."""
    results = Counter((run.adapter, run.benchmark) for run in runs)
    homes = Counter(name for name, _ in {(run.adapter, run.group) for run in runs})
    twice = {adapter for (adapter, _), count in results.items() if count > 1}
    twice |= {adapter for adapter, count in homes.items() if count > 1}
    for run in runs:
        folder, group = f" ({run.folder.parents[1].name})" if run.folder else "", run.group
        if group is not None and twice - {BASE}:
            group = replace(group, run=f"{group.run or ''}{folder}".strip())
        name = run.adapter + (folder if run.adapter in twice else "")
        yield replace(run, name=name, group=group)
