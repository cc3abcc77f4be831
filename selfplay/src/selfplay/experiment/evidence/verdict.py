"""A claim, the number that it stands or falls with, and the verdict."""

from dataclasses import dataclass

from selfplay.experiment.evidence.quantities import Quantity
from selfplay.experiment.evidence.statistics import Estimate

LEAST_SEEDS = 3
"""Fewer say too little of others."""
SHOWN, REFUTED, UNDECIDED = "shown", "refuted", "undecided"


@dataclass(frozen=True)
class Finding:
    """One line of evidence."""

    question: str
    compared: str
    """What is set against what."""
    quantity: Quantity
    predicted: int
    """1 where the claim wants more than `threshold`, -1 where it wants less."""
    estimate: Estimate | None
    threshold: float = 0.0
    incomplete: bool = False
    note: str = ""
    """Why there is no number, if there is none."""

    @property
    def verdict(self) -> str:
        """`shown`: the interval lies on the predicted side; `refuted`: on the other side.

        `undecided` otherwise, and always with fewer than three seeds.
        """
        e = self.estimate
        if e is None or e.low is None or e.high is None or e.seeds < LEAST_SEEDS:
            return UNDECIDED
        side = 1 if e.low > self.threshold else -1 if e.high < self.threshold else 0
        return {0: UNDECIDED, self.predicted: SHOWN}.get(side, REFUTED)
