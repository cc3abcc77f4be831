"""What the teachers of a run wrote: traps, duplicates, entropy, divergence, examples."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from pathlib import Path
from typing import Any

from msgspec import Struct

from selfplay.directory import TASKS
from selfplay.prompts.niches import FAMILIES, LEAKED, TRAP_NAME, family_of
from selfplay.rows import read_rows
from selfplay.run_record import RunRecord

BIN = 20
"""Steps of a point of a curve."""
LEAST = 100
"""Teachers with fewer tasks say too little of what they write."""
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
    """The accepted tasks of a run.

    - valid: share of the proposals in the last third of the steps that were accepted.
    - late: programs of each teacher in the last third of the steps.
    - families: of each teacher then; empty in worlds without families.
    - leaked: how many of the late ones the gate should have refused.
    - traps: share of all accepted tasks, by the last step of every `BIN` steps; as `families`.
    - shapes: late programs with their numbers replaced by `#`: how many, and one with its input
      and solve rate.
    """

    valid: float | None
    late: Mapping[str, Counter[str]]
    families: Mapping[str, Counter[str]]
    leaked: int
    traps: Mapping[int, float]
    shapes: Mapping[str, tuple[int, str]]


def written(run: RunRecord) -> Written:
    """Read what a run's teachers wrote up to its last step."""
    path = run.directory / TASKS
    size = path.stat().st_size if path.is_file() else 0
    return _written(path, size, run.last, run.config.get("template") == "nano-niches")


@lru_cache(maxsize=512)
def _written(path: Path, size: int, last: int, has_families: bool) -> Written:
    """size: of the file, as a run may still be going on."""
    after = last - -(-last // 3)
    late: dict[str, Counter[str]] = {}
    families: dict[str, Counter[str]] = {}
    found: dict[int, list[int]] = {}
    shapes: dict[str, tuple[int, str]] = {}
    leaked = proposed = 0
    for row in read_rows(path, _Row):
        proposed += after < row.step <= last
        if row.status != "ok" or row.step > last:
            continue
        program = row.program or ""
        family = family_of(program) if has_families else ""
        found.setdefault(-(-row.step // BIN) * BIN, []).append(family == TRAP_NAME)
        if row.step <= after:
            continue
        late.setdefault(row.teacher, Counter())[program] += 1
        leaked += row.reason == LEAKED
        if has_families:
            families.setdefault(row.teacher, Counter())[family] += 1
        shape = _NUMBER.sub("#", program)
        count, example = shapes.get(shape, (0, ""))
        if not example:
            rate = "" if row.solve_rate is None else f"  solved {100 * row.solve_rate:.0f} %"
            example = f"{program}\ninput {row.input}{rate}"
        shapes[shape] = (count + 1, example)
    traps = {step: sum(some) / len(some) for step, some in sorted(found.items())}
    accepted = sum(counts.total() for counts in late.values())
    valid = accepted / proposed if proposed else None
    return Written(valid, late, families, leaked, traps if has_families else {}, shapes)


def trap_share(found: Written) -> float | None:
    """Return the share of late tasks that are traps; None in worlds without any."""
    counts = _union(found.families)
    return counts[TRAP_NAME] / counts.total() if counts else None


def steps_until_traps(found: Written) -> float | None:
    """Return the end of the first `BIN` steps in which most tasks are traps.

    The last step with tasks where that never happens; None in worlds without any.
    """
    most = [step for step, share in found.traps.items() if share > 0.5]
    return float(min(most or [max(found.traps)])) if found.traps else None


def leaked_share(found: Written) -> float | None:
    """Return the share of late tasks that the gate should have refused; None as `trap_share`."""
    total = _union(found.families).total()
    return found.leaked / total if total else None


def families_extinct(found: Written) -> float | None:
    """Return how many families of operators get less than a tenth of an even share."""
    counts = _union(found.families)
    least = counts.total() / (10 * (len(FAMILIES) + 1))
    return float(sum(counts[family] < least for family in FAMILIES)) if counts else None


def duplicates(found: Written, *, own: bool) -> float | None:
    """Return the share of late tasks whose program was there before.

    own: compared with the same teacher's, the mean over teachers; else with everybody's.
    """
    return _over_teachers(found, own, lambda counts: 1.0 - len(counts) / counts.total())


def entropy(found: Written, *, own: bool) -> float | None:
    """Return the entropy of late programs in bits, at most the logarithm of how many there are.

    own: of each teacher's, the mean over teachers; else of everybody's together.
    """
    return _over_teachers(found, own, _bits)


def divergence(found: Written) -> float | None:
    """Return how differently teachers choose families, in bits; None below two teachers.

    The Jensen-Shannon divergence (Lin 1991): the entropy of the mean of their shares minus the mean
    of their entropies, over teachers with `LEAST` tasks.
    """
    shares = [
        {family: n / counts.total() for family, n in counts.items()}
        for counts in found.families.values()
        if counts.total() >= LEAST
    ]
    if len(shares) < 2:
        return None
    mixed: Counter[str] = Counter()
    for share in shares:
        mixed.update({family: p / len(shares) for family, p in share.items()})
    return _bits(mixed) - sum(map(_bits, shares)) / len(shares)


def examples(found: Written, most: int = 3) -> list[tuple[float, str]]:
    """Return the commonest late shapes: their share of the tasks, and a program of each."""
    total = sum(count for count, _ in found.shapes.values())
    common = sorted(found.shapes.values(), reverse=True)[:most]
    return [(count / total, example) for count, example in common]


def _over_teachers(found: Written, own: bool, of: Any) -> float | None:
    some: Iterable[Counter[str]] = found.late.values() if own else [_union(found.late)]
    values = [of(counts) for counts in some if counts.total() >= LEAST]
    return sum(values) / len(values) if values else None


def _union(counts: Mapping[str, Counter[str]]) -> Counter[str]:
    return sum(counts.values(), Counter())


def _bits(weights: Mapping[str, float]) -> float:
    total = sum(weights.values())
    return -sum(w / total * log2(w / total) for w in weights.values() if w) + 0.0
