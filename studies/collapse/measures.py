"""What the teachers of a run wrote, forgetting, and gains by family: measures of this study.

Those of families are there in runs of the world of niches alone.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
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
from selfplay.experiments.measures import MEASURES as OURS
from selfplay.experiments.measures import Of, population_mean
from selfplay.files.intervals import Floats
from selfplay.files.rows import TaskRow
from selfplay.tasks.held_out import held_out_tasks

BIN = 20
"""Steps of a point of a curve."""
LEAST = 100
"""Teachers with fewer tasks say too little of what they write."""
MOST_EXAMPLES = 3
_NUMBER = re.compile(r"(?<![\w])-?\d+")


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
    for row in RunRecord(directory, {}, ()).tasks():
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
    numbers = [*values]
    return fmean(numbers) if numbers else None


def forgetting(run: RunRecord) -> Floats | None:
    """Return the best the population was minus what it is at the end, each over three evaluations.

    The best of many is above the last by chance, too: compare it between arms.
    """
    track = [population_mean(of) for of in run.held_out_gains().values()]
    if len(track) < 3:
        return None
    means = [np.mean(track[i : i + 3], axis=0) for i in range(len(track) - 2)]
    return np.asarray(max(means, key=np.nanmean) - means[-1])


def families_of(run: RunRecord) -> npt.NDArray[np.str_]:
    """Return the family of each held-out task of a run; nothing in another world."""
    settings = run.config["eval"]
    tasks = held_out_tasks(tuple(settings["held_out"]), int(settings["tasks"]))
    ids = [task.id.split("/") for task in tasks]
    return np.array([i[1] for i in ids if i[0] == "niches"])


def weakest_family(run: RunRecord) -> Floats | None:
    """Return the population's gain at the end on the family on which it is lowest."""
    family, gains = families_of(run), run.held_out_gains()
    if not gains or not family.size:
        return None
    last = population_mean([*gains.values()][-1])
    return np.array([min(float(np.nanmean(last[family == name])) for name in {*family.tolist()})])


def _number(name: str) -> Of:
    def of(run: RunRecord) -> Floats | None:
        value = written(run).numbers.get(name)
        return None if value is None else np.array([value])

    return of


MEASURES: Mapping[str, Of] = {
    **{name.removeprefix("gain, "): of for name, (_, of) in OURS.items() if name[:5] == "gain,"},
    "weakest family": weakest_family,
    "forgetting": forgetting,
    **{
        name: _number(name)
        for name in (
            *("valid proposals", "traps", "until most are traps", "leaked", "families extinct"),
            *("duplicates, one teacher", "duplicates, all teachers"),
            *("entropy, one teacher", "entropy, all teachers", "divergence"),
        )
    },
}
"""By name, as in `selfplay.experiments.measures`: gains of `selfplay compare`, and our own."""
MOST = {"traps": 1.0, "families extinct": float(len(FAMILIES))}
"""Measures that may be all or nothing in a run, and what is all."""
NO_SHARES = ("until most are traps", "families extinct", "divergence")
"""Measures in units of their own, as entropies are; all others are shares."""


def tasks_in_bins(run: RunRecord, steps: int) -> dict[int, list[TaskRow]]:
    """Return what teachers proposed, in order, by the last of every so many steps."""
    bins: dict[int, list[TaskRow]] = {}
    for row in run.tasks():
        bins.setdefault(-(-row.step // steps) * steps, []).append(row)
    return dict(sorted(bins.items()))
