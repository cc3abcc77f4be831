"""From rewards to advantages, separately for every stratum (member, role, task kind).

Students: REINFORCE++ with baseline (arXiv 2501.03262): subtract the mean over the attempts at the
same task, then whiten over the stratum. Teachers: AZR's task-relative REINFORCE++ (arXiv
2505.03335): whiten over the stratum only. A stratum with fewer than two samples, or without
variance, says nothing about better and worse: its advantages are exactly 0, never NaN.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from selfplay.errors import SelfplayError

ZERO_STD = 1e-8
"""Standard deviations of rewards at or below this count as none."""

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RewardedSample:
    """One sampled text with its reward and the comparisons it takes part in."""

    member: str
    role: str
    kind: str
    reward: float
    task: Hashable = None
    """Attempts with equal (member, role, kind, task) are compared with each other (students)."""
    tokens: int = 1
    """Length of the completion; the weight of the sample under token weighting."""


@dataclass(frozen=True, slots=True)
class Advantages:
    """Advantages in the order of the samples, and how many comparisons were empty of signal."""

    values: tuple[float, ...]
    frac_reward_zero_std: float
    """Share of groups (students: tasks, teachers: strata) whose rewards are all equal."""
    frac_strata_zero_std: float
    """Share of strata whose advantages were set to 0 for lack of samples or variance."""


def student_advantages(
    samples: Sequence[RewardedSample], *, token_weighted: bool = False
) -> Advantages:
    """Centre over the attempts at each task, then whiten over each stratum.

    A task with one attempt has no baseline and stays uncentred (as verl does).
    """
    rewards = _rewards(samples)
    groups = _indices((s.member, s.role, s.kind, s.task) for s in samples)
    centred = rewards.copy()
    flat = 0
    for rows in groups:
        flat += float(np.ptp(rewards[rows])) <= ZERO_STD
        if len(rows) > 1:
            centred[rows] -= rewards[rows].mean()
    values, flat_strata = _whiten_strata(samples, centred, token_weighted)
    return Advantages(values, flat / len(groups) if groups else 0.0, flat_strata)


def teacher_advantages(
    samples: Sequence[RewardedSample], *, token_weighted: bool = False
) -> Advantages:
    """Whiten over each stratum (AZR's TRR++: one baseline per role and task kind)."""
    values, flat = _whiten_strata(samples, _rewards(samples), token_weighted)
    return Advantages(values, flat, flat)


def whiten(values: Floats, weights: Floats | None = None) -> Floats:
    """Return (values - mean) / std, or zeros where there is nothing to compare.

    Without weights the mean is over samples. With token counts as weights it is over tokens, as in
    AZR, so that long texts weigh more. The variance is unbiased (n - 1; n = samples or tokens).
    """
    if len(values) < 2:
        return np.zeros_like(values)
    w = np.ones_like(values) if weights is None else weights
    n = float(w.sum())
    if n <= 1.0:
        return np.zeros_like(values)
    centred = values - float((w * values).sum()) / n
    std = float(np.sqrt((w * centred**2).sum() / (n - 1.0)))
    return np.zeros_like(values) if std <= ZERO_STD else centred / std


def _rewards(samples: Sequence[RewardedSample]) -> Floats:
    rewards = np.array([s.reward for s in samples], dtype=np.float64)
    if not np.isfinite(rewards).all():
        bad = samples[int(np.flatnonzero(~np.isfinite(rewards))[0])]
        raise SelfplayError(
            f"reward of a sample of {bad.member!r} is {bad.reward}, expected a number"
        )
    return rewards


def _indices(keys: Iterable[Hashable]) -> list[list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        found[key].append(position)
    return list(found.values())


def _whiten_strata(
    samples: Sequence[RewardedSample], values: Floats, token_weighted: bool
) -> tuple[tuple[float, ...], float]:
    tokens = np.array([s.tokens for s in samples], dtype=np.float64)
    strata = _indices((s.member, s.role, s.kind) for s in samples)
    result = np.zeros_like(values)
    flat = 0
    for rows in strata:
        result[rows] = whiten(values[rows], tokens[rows] if token_weighted else None)
        flat += not result[rows].any()
    return tuple(result.tolist()), flat / len(strata) if strata else 0.0
