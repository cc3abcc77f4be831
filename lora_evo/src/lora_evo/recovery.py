"""Recovery: how many training steps a child needs to be as good as the parents it was made of.

A child is trained from where the operator left it, and its fitness is measured after 0, 1, 2, 4
and more steps, side by side with two controls on the same rows in the same order: its first parent,
trained on, and a fresh adapter. It has recovered at the first check from which a moving average of
its fitness holds the best parent's level, less what noise cannot separate from it. PopuLoRA
(arXiv 2605.16727) reports 10 to 20 steps for the operators it uses. Fitness is, of each held-out
row, the geometric mean of the probabilities of its completion's tokens.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Self

import numpy as np
import torch

from lora_evo.model.base import BaseModel, fitted
from lora_evo.model.engine import derive_seed, stream
from lora_evo.model.stacked_lora import import_adapter, starting_a
from lora_evo.model.supervised import PromptRow, SupervisedLearner, drawn, encode_row, split_rows
from lora_evo.peft.adapter import Adapter, Slot
from lora_evo.probe import BATCH_SIZE, stacked

USUAL_CHECKS = (0, 1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 30, 36, 42, 50)
CHILD, CONTINUED, RESET = "child", "continued", "reset"
"""What is trained: the child, the first parent as it is, and a fresh adapter in its place."""
MOST_STEPS = 20
"""Steps that the median child of an operator may need (arXiv 2605.16727 reports 10 to 20)."""
MOST_CENSORED = 0.1
"""Share of the children that must be exceeded by none that never recover."""
_CONFIDENCE, _RESAMPLES = 0.95, 1000
_WINDOW = 3
"""Checks in the moving average: the one at hand and those before it, fewer at the start."""
_HOLDS = 3
"""Checks in a row at which the moving average must hold the level."""
_DELTA = 0.02
"""Loss that counts as none, as a share of the parent's level."""
Curve = tuple[float, ...]
_SEEDS = 5
"""Orders of the rows; each trains the child and its controls once more."""


@dataclass(frozen=True)
class Level:
    """The fitness of a parent, over held-out rows."""

    mean: float
    half_width: float
    """Of the bootstrap interval of the mean."""

    @classmethod
    def of(cls, scores: Sequence[float]) -> Self:
        """Return the level of scores, one per held-out row."""
        low, high = interval(scores)
        return cls(fmean(scores), (high - low) / 2)

    @property
    def bar(self) -> float:
        """The fitness from which a child counts as being as good as the parent."""
        return self.mean - max(self.half_width, _DELTA * abs(self.mean))


@dataclass(frozen=True)
class Recovery:
    """What the training of one child and its controls showed."""

    levels: dict[str, Level]
    """Of the parents, by name."""
    checks: tuple[int, ...]
    curves: dict[str, tuple[Curve, ...]]
    """Mean fitness at the checks, for each seed, of `child`, `continued` and `reset`."""

    def steps(self, who: str = CHILD) -> list[int | None]:
        """Return the recovery step of each seed; None: not by the last check (censored)."""
        bar = max(level.bar for level in self.levels.values())
        return [recovery_step(curve, bar, self.checks) for curve in self.curves[who]]

    def median(self, who: str = CHILD) -> float | None:
        """Return the recovery step of the median seed; None: after the last check.

        A censored seed counts as later than all steps. All are censored at the same, last check,
        and there this and the estimate of Kaplan and Meier (1958) are the same.
        """
        ordered = sorted(math.inf if step is None else step for step in self.steps(who))
        median = ordered[(len(ordered) - 1) // 2]
        return None if math.isinf(median) else median

    def passed(self, who: str = CHILD) -> bool:
        """Return whether the paper's claim is met: recovered in at most 20 steps."""
        steps, median = self.steps(who), self.median(who)
        quick = median is not None and median <= MOST_STEPS
        return quick and steps.count(None) / len(steps) < MOST_CENSORED

    @property
    def has_power(self) -> bool:
        """Whether a fresh adapter fails the criterion, without which a pass proves nothing."""
        return not self.passed(RESET)

    def gain(self, control: str) -> tuple[float, float, float]:
        """Return the child's mean gain over a control at the last check, and its interval."""
        curves = zip(self.curves[CHILD], self.curves[control], strict=True)
        gains = [child[-1] - other[-1] for child, other in curves]
        return fmean(gains), *interval(gains)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **asdict(self),
            "steps": {who: self.steps(who) for who in self.curves},
            "median": {who: self.median(who) for who in self.curves},
            "passed": self.passed(),
            "has_power": self.has_power,
            "over_continued": self.gain(CONTINUED),
            "over_reset": self.gain(RESET),
        }


def recovery(
    base: BaseModel,
    parents: Mapping[str, Adapter],
    child: Adapter,
    rows: Sequence[PromptRow],
    *,
    steps: int = 50,
    learning_rate: float = 1e-4,
    progress: Callable[[int, int], None] | None = None,
) -> Recovery:
    """Train a child and its controls on rows with completions, a fifth of which is held out.

    parents: the controls start from the first. learning_rate: of AdamW, constant. `progress` is
    called with the number of steps done and of all. Raises LoraEvoError.
    """
    train, held_out = (
        [encode_row(row, base.tokenizer, base.context) for row in part] for part in split_rows(rows)
    )
    checks = (*(check for check in USUAL_CHECKS if check < steps), steps)
    first = fitted(base, next(iter(parents.values())), "the first parent")
    child = fitted(base, child, "the child")
    curves: dict[str, list[Curve]] = {CHILD: [], CONTINUED: [], RESET: []}
    done = 0
    with stacked(base, parents, child) as stack:
        learner = SupervisedLearner(
            stack, learning_rate=learning_rate, micro_batch_tokens=BATCH_SIZE * 512
        )
        levels = {
            name: Level.of(learner.probabilities(member, held_out))
            for member, name in enumerate(parents, start=1)
        }
        for seed in range(_SEEDS):
            starts = {CHILD: child, CONTINUED: first, RESET: fresh_adapter(first, seed)}
            for who, adapter in starts.items():
                import_adapter(stack, 0, adapter, smaller=True)
                learner.reset(0)
                curve = []
                for step in range(steps + 1):
                    if step:
                        batch = [train[i] for i in drawn(len(train), BATCH_SIZE, step, seed)]
                        learner.step(0, batch)
                        done += 1
                    if step in checks:
                        curve.append(fmean(learner.probabilities(0, held_out)))
                    if progress is not None:
                        progress(done, steps * _SEEDS * len(starts))
                curves[who].append(tuple(curve))
    return Recovery(levels, checks, {who: tuple(of_seeds) for who, of_seeds in curves.items()})


def fresh_adapter(like: Adapter, seed: int) -> Adapter:
    """Return an adapter that changes nothing yet, in the shapes of another, as PEFT starts one."""
    slots = {}
    for path, slot in like.slots.items():
        a = starting_a(tuple(slot.A.shape), derive_seed(seed, "fresh", path))
        slots[path] = Slot(a.to(slot.A.dtype), torch.zeros_like(slot.B), slot.scale)
    return Adapter(like.config, slots)


def recovery_step(fitness: Sequence[float], bar: float, checks: Sequence[int]) -> int | None:
    """Return the first check from which the moving average stays at or above `bar`.

    fitness: means at the checks. None: not recovered by then (censored); a recovery that begins
    too late to be seen to hold is none.
    """
    means = [fmean(fitness[max(0, end - _WINDOW) : end]) for end in range(1, len(fitness) + 1)]
    above = [mean >= bar for mean in means]
    for first in range(len(above) - _HOLDS + 1):
        if all(above[first : first + _HOLDS]):
            return checks[first]
    return None


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the percentile bootstrap interval (Efron 1979) of the mean of some values."""
    count = len(values)
    picks = stream(derive_seed(0, "bootstrap")).integers(count, size=(_RESAMPLES, count))
    means = np.asarray(values)[picks].mean(axis=1)
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(means, (tail, 1 - tail), method="inverted_cdf")
    return float(low), float(high)
