"""Recovery: how many training steps a child needs to be as good as the parent it was made of.

A child is trained from where the operator left it, and its fitness is measured after 0, 1, 2, 4
and more steps. It has recovered at the first check from which a moving average of its fitness
holds the parent's level, less what cannot be told apart from it. PopuLoRA (arXiv 2605.16727)
reports 10 to 20 steps for the operators it uses. All here are pure functions of measured numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from lora_evo.errors import LoraEvoError
from lora_evo.linalg.noise import stream

Floats = npt.NDArray[np.float64]
USUAL_CHECKS = (0, 1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 30, 36, 42, 50)


@dataclass(frozen=True)
class RecoveryProtocol:
    """When a child is looked at, and what counts as having recovered."""

    checks: tuple[int, ...] = USUAL_CHECKS
    """Training steps after which fitness is measured; from 0 upwards."""
    window: int = 3
    """Checks in the moving average: the one at hand and those before it, fewer at the start."""
    delta: float = 0.02
    """Loss that counts as none, as a share of the parent's level."""
    holds: int = 3
    """Checks in a row at which the moving average must hold the level."""
    confidence: float = 0.95
    """Of the bootstrap intervals."""
    resamples: int = 1000
    """Bootstrap resamples."""

    def __post_init__(self) -> None:
        checks = self.checks
        if not checks or checks[0] != 0 or list(checks) != sorted(set(checks)):
            raise LoraEvoError(f"checks are {checks}; expected steps that rise from 0")
        if not 1 <= self.holds <= len(checks) or self.window < 1 or self.resamples < 1:
            raise LoraEvoError(
                f"window {self.window}, holds {self.holds} and resamples {self.resamples}: each "
                f"must be at least 1, and holds at most the number of checks, {len(checks)}"
            )
        if not (0 <= self.delta < 1 and 0 < self.confidence < 1):
            raise LoraEvoError(
                f"delta is {self.delta} and confidence {self.confidence}; expected delta from 0 "
                "and confidence from above 0, both below 1"
            )

    @property
    def steps(self) -> int:
        """The last check: where a child that has not recovered is censored."""
        return self.checks[-1]


def checks_up_to(steps: int) -> tuple[int, ...]:
    """The usual checks that fit into a number of steps, and the last step itself."""
    if steps < 1:
        raise LoraEvoError(f"{steps} steps; expected at least 1")
    return (*(check for check in USUAL_CHECKS if check < steps), steps)


@dataclass(frozen=True)
class Level:
    """The fitness of a parent, over held-out items."""

    mean: float
    half_width: float
    """Of the bootstrap interval of the mean."""

    def bar(self, protocol: RecoveryProtocol) -> float:
        """The fitness from which a child counts as being as good as the parent."""
        return self.mean - max(self.half_width, protocol.delta * abs(self.mean))


def level(scores: Sequence[float], protocol: RecoveryProtocol) -> Level:
    """The level of a parent from its scores, one per held-out item."""
    values = checked_scores(scores)
    low, high = interval(resampled_means(values, protocol.resamples), protocol.confidence)
    return Level(float(values.mean()), (high - low) / 2)


def moving_average(values: Sequence[float], window: int) -> list[float]:
    """The mean of every value and the up to window - 1 before it."""
    return [fmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)]


def recovery_step(fitness: Sequence[float], bar: float, protocol: RecoveryProtocol) -> int | None:
    """The first check from which the moving average stays at or above `bar` for `holds` checks.

    fitness: the means at the first checks of the protocol, as many as were measured. None: not
    recovered by then (censored); a recovery that begins too late to be seen to hold is none.
    """
    if len(fitness) > len(protocol.checks):
        raise LoraEvoError(f"{len(fitness)} values for {len(protocol.checks)} checks")
    above = [mean >= bar for mean in moving_average(fitness, protocol.window)]
    for first in range(len(above) - protocol.holds + 1):
        if all(above[first : first + protocol.holds]):
            return protocol.checks[first]
    return None


def resampled_means(values: Floats, resamples: int) -> Floats:
    """Means of bootstrap resamples (Efron 1979) of the values; the same for the same values."""
    picks = stream(0, "bootstrap", str(len(values))).integers(
        len(values), size=(resamples, len(values))
    )
    return np.asarray(values[picks].mean(axis=1), dtype=np.float64)


def interval(resamples: Floats, confidence: float) -> tuple[float, float]:
    """The percentile interval of resampled statistics."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(resamples, (tail, 1 - tail), method="inverted_cdf")
    return float(low), float(high)


def checked_scores(scores: Sequence[float]) -> Floats:
    """Scores as an array; none at all, or one that is no finite number, is refused."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise LoraEvoError(
            f"{len(scores)} scores, or one of them no finite number; expected one finite number "
            "per held-out item"
        )
    return values
