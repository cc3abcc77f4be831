"""Do children come back to their parents' level inside a run, and after how many steps?"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from selfplay.experiment.evidence.statistics import Floats
from selfplay.experiment.evidence.trials import Trial


@dataclass(frozen=True, slots=True)
class Recovery:
    """A child against its first parent, from its birth as long as both live.

    The child is back at the first measurement at which its held-out solve rate is not more than
    one standard error, paired over tasks, below its parent's.
    """

    child: str
    parent: str
    born: int
    back_after: int | None
    """Steps from birth; 0 where the child never fell behind, None where it was not seen back."""
    seen_until: int
    """Steps from birth to the last measurement of both."""

    def back_within(self, steps: int) -> bool | None:
        """Whether the child was back in time; None where both were not measured for that long."""
        if self.back_after is not None and self.back_after <= steps:
            return True
        return False if self.seen_until >= steps else None


def recoveries(trial: Trial) -> list[Recovery]:
    """Return all births whose child and first parent were measured together at least once.

    Teachers of a population have no held-out solve rate: theirs are left out.
    """
    found = []
    for birth in trial.run.births:
        parent = birth.parents[0] if birth.parents else ""
        behind = {
            m.step - birth.step: _behind(m.gains[birth.child] - m.gains[parent])
            for m in trial.measurements
            if m.step >= birth.step and birth.child in m.gains and parent in m.gains
        }
        if behind:
            back = next((after for after, is_behind in behind.items() if not is_behind), None)
            found.append(Recovery(birth.child, parent, birth.step, back, max(behind)))
    return found


def share_back_within(steps: int) -> Callable[[Trial], Floats | None]:
    """Return the share of a run's children, in [0, 1], that are back within so many steps."""

    def of(trial: Trial) -> Floats | None:
        known = [back for r in recoveries(trial) if (back := r.back_within(steps)) is not None]
        return np.array([np.mean(known)]) if known else None

    return of


def _behind(differences: Floats) -> bool:
    known = differences[~np.isnan(differences)]
    error = known.std(ddof=1) / sqrt(known.size) if known.size > 1 else 0.0
    return bool(known.size) and bool(known.mean() < -error)
