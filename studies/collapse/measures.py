"""What the teachers of a run wrote, and gains by family: measures for the plans of this study.

`MEASURES` is what the plans name as `measures`: `selfplay compare` adds them to its own. Those of
families are there in runs of the world of niches alone.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
from studies.collapse.niches import FAMILIES, LEAKED, TRAP_NAME, family_of

from selfplay import RunRecord
from selfplay.files.rows import TaskRow

BIN = 20
"""Steps of a point of a curve."""
LEAST = 100
"""Teachers with fewer tasks say too little of what they write."""
MOST_EXAMPLES = 3
_NUMBER = re.compile(r"(?<![\w])-?\d+")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Written:
    """What is said of a run's tasks.

    - numbers: of those of the last third of the steps, by the name of their measure; None where
      there is too little, and for families in worlds without any.
    - traps: share of all accepted tasks, by the last step of every `BIN` steps; none without
      families.
    - examples: the commonest late programs, their numbers apart: their share of the tasks, and one
      of each with its input and solve rate.
    """

    numbers: Mapping[str, float | None]
    traps: Mapping[int, float]
    examples: Sequence[tuple[float, str]]


def written(run: RunRecord) -> Written:
    """Read what a run's teachers wrote up to its last step."""
    kinds = run.config.get("rollout", {}).get("kinds", ())
    size = (run.directory / "tasks.jsonl").stat().st_size
    return _written(run.directory, size, run.last, any("niches:" in kind for kind in kinds))


@lru_cache(maxsize=512)
def _written(directory: Path, size: int, last: int, has_families: bool) -> Written:
    """size: of the file, as a run may still be going on."""
    after = last - -(-last // 3)
    late: dict[str, list[Any]] = defaultdict(list)
    trapped: dict[int, list[bool]] = defaultdict(list)
    proposed = 0
    for row in RunRecord(directory, "", {}, ()).tasks():
        proposed += after < row.step <= last
        if row.status == "ok" and row.step <= last:
            trapped[-(-row.step // BIN) * BIN].append(family_of(row.program or "") == TRAP_NAME)
            if row.step > after:
                late[row.teacher].append(row)
    every = [row for rows in late.values() for row in rows]
    numbers = {"valid proposals": len(every) / proposed if proposed else None}
    for who, groups in (("one teacher", [*late.values()]), ("all teachers", [every])):
        programs = [Counter(row.program for row in rows) for rows in groups if len(rows) >= LEAST]
        numbers[f"duplicates, {who}"] = _mean(1 - len(p) / p.total() for p in programs)
        numbers[f"entropy, {who}"] = _mean(map(_bits, programs))
    traps: dict[int, float] = {}
    if has_families:
        traps = {step: sum(flags) / len(flags) for step, flags in sorted(trapped.items())}
        numbers |= _of_families([*late.values()], traps)
    return Written(numbers, traps, _examples(every))


def _of_families(
    late: Sequence[Sequence[Any]], traps: Mapping[int, float]
) -> dict[str, float | None]:
    """Return the numbers of a world that has families; late: the tasks of each teacher.

    Until most are traps: the end of the first `BIN` steps in which most tasks are, else of the
    last. Extinct: less than a tenth of an even share. Divergence: Jensen-Shannon's (Lin 1991), the
    entropy of the mean of the teachers' shares minus the mean of their entropies.
    """
    by_teacher = [Counter(family_of(row.program or "") for row in rows) for rows in late]
    counts = sum(by_teacher, Counter[str]())
    total, least = counts.total(), counts.total() / (10 * (len(FAMILIES) + 1))
    numbers: dict[str, float | None] = {}
    if traps:
        most = [step for step, share in traps.items() if share > 0.5]
        numbers["until most are traps"] = float(min(most or [max(traps)]))
    if total:
        numbers["traps"] = counts[TRAP_NAME] / total
        numbers["leaked"] = sum(row.reason == LEAKED for rows in late for row in rows) / total
        numbers["families extinct"] = float(sum(counts[family] < least for family in FAMILIES))
    writers = [families for families in by_teacher if families.total() >= LEAST]
    if len(writers) > 1:
        mixed = {f: sum(w[f] / w.total() for w in writers) for f in counts}
        numbers["divergence"] = _bits(mixed) - sum(map(_bits, writers)) / len(writers)
    return numbers


def _examples(late: Sequence[Any]) -> list[tuple[float, str]]:
    shapes: dict[str, list[Any]] = defaultdict(list)
    for row in late:
        shapes[_NUMBER.sub("#", row.program or "")].append(row)
    examples = []
    for rows in sorted(shapes.values(), key=len, reverse=True)[:MOST_EXAMPLES]:
        first, rate = rows[0], rows[0].solve_rate
        solved = "" if rate is None else f"  solved {100 * rate:.0f} %"
        examples.append((len(rows) / len(late), f"{first.program}\ninput {first.input}{solved}"))
    return examples


def _bits(weights: Mapping[Any, float]) -> float:
    """Return the entropy of shares that are proportional to these weights."""
    total = sum(weights.values())
    return -sum(w / total * log2(w / total) for w in weights.values() if w) + 0.0


def _mean(values: Any) -> float | None:
    known = [*values]
    return fmean(known) if known else None


def on_family(trial: Any, family: str) -> Floats | None:
    """Return the population's gain at the last evaluation on each held-out task of a family."""
    mask = np.array([task.task.id.startswith(f"niches/{family}/") for task in trial.tasks], bool)
    if not trial.gains or not mask.any():
        return None
    gains = np.mean([*[*trial.gains.values()][-1].values()], axis=0)
    return np.asarray(gains[mask])


def weakest_family(trial: Any) -> float | None:
    """gain at the last evaluation on the family on which it is lowest."""
    gains = [on_family(trial, family) for family in FAMILIES]
    return min((float(np.nanmean(g)) for g in gains if g is not None), default=None)


def _gain_on(family: str) -> Callable[[Any], Floats | None]:
    return lambda trial: on_family(trial, family)


def _number(name: str, meaning: str) -> Callable[[Any], float | None]:
    def of(trial: Any) -> float | None:
        return written(trial.run).numbers.get(name)

    of.__doc__ = meaning
    return of


_OF_TASKS = {
    "valid proposals": (
        "% of tasks",
        "share of all proposals, as all that follows in the last third.",
    ),
    "traps": ("%", "share of accepted tasks that luck alone solves."),
    "until most are traps": ("steps", "of twenty; where that never happens, all steps."),
    "leaked": ("% of tasks", "share of accepted tasks that the gate should have refused."),
    "families extinct": ("of 8", "those with less than a tenth of an even share."),
    "duplicates, one teacher": (
        "% of tasks",
        "programs that were there before, of the same teacher.",
    ),
    "duplicates, all teachers": ("% of tasks", "programs that were there before, of any teacher."),
    "entropy, one teacher": ("bits", "of programs; at most the logarithm of how many there are."),
    "entropy, all teachers": ("bits", "the same of all programs together."),
    "divergence": ("bits", "Jensen-Shannon, of teachers' choices of family."),
}
MEASURES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **{f"family {family}": ("points", _gain_on(family)) for family in FAMILIES},
    "weakest family": ("points", weakest_family),
    **{name: (unit, _number(name, meaning)) for name, (unit, meaning) in _OF_TASKS.items()},
}
"""By name: unit, and what it is of a trial."""


def tasks_in_bins(run: RunRecord, steps: int) -> dict[int, list[TaskRow]]:
    """Return what teachers proposed, in order, by the last of every so many steps."""
    bins: dict[int, list[TaskRow]] = {}
    for row in run.tasks():
        bins.setdefault(-(-row.step // steps) * steps, []).append(row)
    return dict(sorted(bins.items()))
