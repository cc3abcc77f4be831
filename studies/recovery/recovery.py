"""Whether children reach their parents again: times to recovery, with both controls.

    python -m studies.recovery.recovery DIR

DIR is that of `selfplay experiment studies/recovery/plan.yaml --out DIR`, finished or not.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from studies.shares import clopper_pearson, share_interval

from selfplay import RunRecord, read_run
from selfplay.files.intervals import Floats, Z, estimate

MARGIN = 0.02
"""A child has recovered when it is known to be less than this share of the tasks behind."""
AFTER = (10, 20)
"""Steps after a birth that the table is of."""

Gap = tuple[float, float, float]
"""Parent minus child: the mean over tasks, and the ends of its 95 % interval."""


@dataclass(frozen=True)
class Child:
    """A student's child: parent minus child at birth, and by the steps after it.

    untrained: the same of the child as it was born. Its answers would be those of its birth, for
    every evaluation has the same tasks and random numbers.
    """

    run: str
    birth: Gap
    later: Mapping[int, Gap]
    untrained: Mapping[int, Gap]

    @property
    def is_behind(self) -> bool:
        """Whether it is known to be worse than its parent at birth."""
        return self.birth[1] > 0.0


def gap(parent: Floats, child: Floats) -> Gap:
    """Return parent minus child, paired by task. Shapes [tasks], solve rates; NaN is left out.

    Half a task each that only the one and only the other solves is added to the error: so it is
    never without width.
    """
    differences = parent - child
    numbers = differences[~np.isnan(differences)]
    mean, count = float(numbers.mean()), numbers.size + 1
    error = math.sqrt((float(((numbers - mean) ** 2).sum()) + 1.0) / count / count)
    return mean, mean - Z * error, mean + Z * error


def children_of(run: RunRecord) -> Iterator[Child]:
    """Yield the students' children, each against its first parent for as long as both live."""
    _, rates = run.held_out_rates()
    for born, birth in run.births:
        name, parent = birth.child, birth.parents[0]
        if name not in rates.get(born, {}):
            continue  # a teacher, which solves nothing held out
        at_birth = rates[born][name]
        rows = {s - born: of for s, of in rates.items() if s > born and {name, parent} <= {*of}}
        yield Child(
            str(run.directory),
            gap(rates[born][parent], at_birth),
            {after: gap(of[parent], of[name]) for after, of in rows.items()},
            {after: gap(of[parent], at_birth) for after, of in rows.items()},
        )


def time_to_recovery(gaps: Mapping[int, Gap]) -> tuple[int, bool]:
    """Return after how many steps a child had recovered, or was seen last without having."""
    back = next((after for after, of in sorted(gaps.items()) if of[2] < MARGIN), None)
    return (max(gaps, default=0), False) if back is None else (back, True)


def recovered(times: Sequence[tuple[int, bool]], by: int) -> tuple[float, float, float] | None:
    """Return the share that has recovered by then, with its 95 % interval.

    Kaplan and Meier's (1958, JASA 53) estimate, so that children who are not seen for so long count
    for as long as they are; Clopper and Pearson's interval of as many children as give Greenwood's
    variance. None where no child is seen for so long.
    """
    waiting, variance = 1.0, 0.0
    at_risk = len(times)
    for step in sorted({step for step, is_back in times if is_back and step <= by}):
        at_risk = sum(age >= step for age, _ in times)
        back = sum(age == step and is_back for age, is_back in times)
        waiting *= 1 - back / at_risk
        variance += back / at_risk / max(at_risk - back, 1)
    remainder = sum(age >= by for age, _ in times)
    if not times or (waiting > 0 and not remainder):
        return None
    inner = 0.0 < waiting < 1.0
    count = (1 - waiting) / (waiting * variance) if inner else float(remainder or at_risk)
    return 1 - waiting, *clopper_pearson((1 - waiting) * count, count)


def table(arms: Mapping[str, Sequence[Child]]) -> str:
    """Return a Markdown table of the arms."""
    head = ["arm", "children", "parent − child at birth, points", "behind then"]
    head += [f"of these back after {n}" for n in AFTER] + [f"untrained, {n}" for n in AFTER]
    head += [f"all: level after {n}" for n in (0, *AFTER)]
    lines = [_line(head), _line(["---"] * len(head))]
    for arm, children in arms.items():
        if not children:
            continue
        behind = [child for child in children if child.is_behind]
        runs = [[c.birth[0] for c in children if c.run == run] for run in _runs(children)]
        mean = estimate([np.array([np.mean(of_run)]) for of_run in runs])
        cells = [arm, str(len(children))]
        cells.append(f"{100 * mean.value:.1f}" + _ends(mean.low, mean.high) if mean else "–")
        cells.append(_count(children, [c.is_behind for c in children]))
        for of in ("later", "untrained"):
            times = [time_to_recovery(getattr(child, of)) for child in behind]
            cells += [_share(recovered(times, by)) for by in AFTER]
        for after in (0, *AFTER):
            group = [c for c in children if not after or after in c.later]
            level = [(c.later[after] if after else c.birth)[2] < MARGIN for c in group]
            cells.append(_count(group, level))
        lines.append(_line(cells))
    return "\n".join(lines)


def _runs(children: Sequence[Child]) -> list[str]:
    return list(dict.fromkeys(child.run for child in children))


def _count(children: Sequence[Child], flags: Sequence[bool]) -> str:
    """Return `3 of 10 [7, 65]`: the interval in per cent, over runs."""
    of_run = {run: [0, 0] for run in _runs(children)}
    for child, flag in zip(children, flags, strict=True):
        of_run[child.run][0] += flag
        of_run[child.run][1] += 1
    counts = [(float(count), of) for count, of in of_run.values()]
    ends = _ends(*share_interval(counts)) if counts else ""
    return f"{sum(flags)} of {len(flags)}{ends}"


def _share(share: tuple[float, float, float] | None) -> str:
    return "–" if share is None else f"{100 * share[0]:.0f} %{_ends(*share[1:])}"


def _ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table of an experiment's directory."""
    home = Path(sys.argv[1])
    arms: dict[str, list[Child]] = {}
    for arm in yaml.safe_load((home / "plan.yaml").read_text())["arms"]:
        runs = sorted(path.parent for path in home.glob(f"{arm.replace(' ', '-')}/*/metrics.jsonl"))
        arms[arm] = [child for run in runs for child in children_of(read_run(run))]
    print(table(arms))


if __name__ == "__main__":
    main()
