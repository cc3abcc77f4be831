"""What the teachers of a run wrote: traps, duplicates, entropy, divergence, examples."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from pathlib import Path
from typing import Any

from msgspec import Struct

from selfplay.directory import TASKS, size
from selfplay.prompts.niches import FAMILIES, LEAKED, TRAP_NAME, family_of
from selfplay.rows import mean, read_rows
from selfplay.run_record import RunRecord

BIN = 20
"""Steps of a point of a curve."""
LEAST = 100
"""Teachers with fewer tasks say too little of what they write."""
MOST_EXAMPLES = 3
_NUMBER = re.compile(r"(?<![\w])-?\d+")


class _Row(Struct, frozen=True):
    """What is needed of a TaskRow."""

    step: int
    teacher: str
    status: str
    program: str | None = None
    input: str | None = None
    reason: str = ""
    solve_rate: float | None = None


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
    path = run.directory / TASKS
    return _written(path, size(path), run.last, run.config.get("template") == "nano-niches")


@lru_cache(maxsize=512)
def _written(path: Path, size: int, last: int, has_families: bool) -> Written:
    """size: of the file, as a run may still be going on."""
    after = last - -(-last // 3)
    late: dict[str, list[_Row]] = defaultdict(list)
    found: dict[int, list[bool]] = defaultdict(list)
    proposed = 0
    for row in read_rows(path, _Row):
        proposed += after < row.step <= last
        if row.status == "ok" and row.step <= last:
            found[-(-row.step // BIN) * BIN].append(family_of(row.program or "") == TRAP_NAME)
            if row.step > after:
                late[row.teacher].append(row)
    every = [row for rows in late.values() for row in rows]
    numbers = {"valid proposals": len(every) / proposed if proposed else None}
    for who, some in (("one teacher", [*late.values()]), ("all teachers", [every])):
        programs = [Counter(row.program for row in rows) for rows in some if len(rows) >= LEAST]
        numbers[f"duplicates, {who}"] = mean(1 - len(p) / p.total() for p in programs)
        numbers[f"entropy, {who}"] = mean(map(_bits, programs))
    traps: dict[int, float] = {}
    if has_families:
        traps = {step: sum(some) / len(some) for step, some in sorted(found.items())}
        numbers |= _of_families([*late.values()], traps)
    return Written(numbers, traps, _examples(every))


def _of_families(
    late: Sequence[Sequence[_Row]], traps: Mapping[int, float]
) -> dict[str, float | None]:
    """Return the numbers of a world that has families; late: the tasks of each teacher.

    Until most are traps: the end of the first `BIN` steps in which most tasks are, else of the
    last. Extinct: less than a tenth of an even share. Divergence: Jensen-Shannon's (Lin 1991), the
    entropy of the mean of the teachers' shares minus the mean of their entropies.
    """
    by_teacher = [Counter(family_of(row.program or "") for row in rows) for rows in late]
    counts = sum(by_teacher, Counter[str]())
    total, least = counts.total(), counts.total() / (10 * (len(FAMILIES) + 1))
    found: dict[str, float | None] = {}
    if traps:
        most = [step for step, share in traps.items() if share > 0.5]
        found["until most are traps"] = float(min(most or [max(traps)]))
    if total:
        found["traps"] = counts[TRAP_NAME] / total
        found["leaked"] = sum(row.reason == LEAKED for rows in late for row in rows) / total
        found["families extinct"] = float(sum(counts[family] < least for family in FAMILIES))
    writers = [own for own in by_teacher if own.total() >= LEAST]
    if len(writers) > 1:
        mixed = {f: sum(own[f] / own.total() for own in writers) for f in counts}
        found["divergence"] = _bits(mixed) - sum(map(_bits, writers)) / len(writers)
    return found


def _examples(late: Sequence[_Row]) -> list[tuple[float, str]]:
    shapes: dict[str, list[_Row]] = defaultdict(list)
    for row in late:
        shapes[_NUMBER.sub("#", row.program or "")].append(row)
    found = []
    for rows in sorted(shapes.values(), key=len, reverse=True)[:MOST_EXAMPLES]:
        first, rate = rows[0], rows[0].solve_rate
        solved = "" if rate is None else f"  solved {100 * rate:.0f} %"
        found.append((len(rows) / len(late), f"{first.program}\ninput {first.input}{solved}"))
    return found


def _bits(weights: Mapping[Any, float]) -> float:
    """Return the entropy of shares that are proportional to these weights."""
    total = sum(weights.values())
    return -sum(w / total * log2(w / total) for w in weights.values() if w) + 0.0
