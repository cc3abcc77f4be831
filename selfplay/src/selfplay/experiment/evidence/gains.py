"""Held-out gain over the frozen base: whose, when, and on which tasks."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from selfplay.experiment.evidence.statistics import Floats
from selfplay.experiment.evidence.trials import Measurement, Trial

T = TypeVar("T")
Who: TypeAlias = Callable[[Measurement], Floats]
Of: TypeAlias = Callable[[Trial], Floats | None]
"""A number of a run as an array: [tasks] or [1]; None where the run has none."""
PRETRAINED_LEVELS = 4
"""Programs of higher levels are longer than any in the pretraining of the nano model."""


def population_mean(measurement: Measurement) -> Floats:
    """Return [tasks] gains, the mean over the living members."""
    return np.asarray(np.mean(list(measurement.gains.values()), axis=0))


def best_member(measurement: Measurement) -> Floats:
    """Return the gains of the member with the highest mean."""
    return max(measurement.gains.values(), key=lambda gains: float(np.nanmean(gains)))


def weakest_member(measurement: Measurement) -> Floats:
    """Return the gains of the member with the lowest mean."""
    return min(measurement.gains.values(), key=lambda gains: float(np.nanmean(gains)))


def at_end(who: Who) -> Of:
    """Return the gain at the last measurement."""
    return lambda trial: who(trial.measurements[-1]) if trial.measurements else None


def in_last_third(who: Who) -> Of:
    """Return the mean over the last third of the measurements."""

    def of(trial: Trial) -> Floats | None:
        found = [who(m) for m in last_third(trial.measurements)]
        return np.asarray(np.mean(found, axis=0)) if found else None

    return of


def of_kind(kind: str, of: Of) -> Of:
    """Return the gain on the tasks of one kind."""
    return _on(lambda trial: np.array([k == kind for k, _ in trial.strata], bool), of)


def of_level(level: int, of: Of) -> Of:
    """Return the gain on the tasks of one level."""
    return _on(lambda trial: np.array([n == level for _, n in trial.strata], bool), of)


def beyond_pretraining(of: Of) -> Of:
    """Return the gain on programs longer than any that the base was trained on."""
    return _on(lambda trial: np.array([n > PRETRAINED_LEVELS for _, n in trial.strata], bool), of)


def last_third(items: Sequence[T]) -> Sequence[T]:
    """Return the last third of a sequence, rounded up."""
    return items[len(items) - -(-len(items) // 3) :]


def _on(chosen: Callable[[Trial], npt.NDArray[np.bool_]], of: Of) -> Of:
    def part(trial: Trial) -> Floats | None:
        values, mask = of(trial), chosen(trial)
        return values[mask] if values is not None and mask.any() else None

    return part
