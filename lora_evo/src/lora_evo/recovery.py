"""How fast a child recovers: trained on the base model, against controls.

The child is trained, and its fitness measured after 0, 1, 2, 4 and more steps. Two controls are
trained on the same rows in the same order: its first parent, and a fresh adapter. The child has
recovered at the first check from which a moving average of its fitness stays at the best parent's
level, within the noise. The fitness of a held-out row is the geometric mean of the probabilities of
its completion's tokens.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import fmean, median_low
from typing import Any, Self

import numpy as np
import torch

from lora_evo.model.base import BaseModel, check_base, fitted
from lora_evo.model.stacked_lora import import_adapter, stack_saved, starting_a
from lora_evo.model.supervised import SupervisedLearner, drawn
from lora_evo.peft.adapter import Adapter, Slot
from lora_evo.random_streams import derive_seed, stream
from lora_evo.retention_rows import PromptRow, encode_row, split_rows

_BATCH_SIZE = 8
USUAL_CHECKS = (0, 1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 30, 36, 42, 50)
CHILD, CONTINUED, RESET = "child", "continued", "reset"
"""Trained adapters: the child, the first parent, and a fresh adapter."""
MOST_STEPS = 20
"""Steps in which the median seed must recover (arXiv 2605.16727 reports 10 to 20)."""
_CONFIDENCE, _RESAMPLES = 0.95, 1000
_WINDOW = 3
"""Checks in the moving average, the last ones; fewer at the start."""
_HOLDS = 3
"""Consecutive checks at which the moving average must be at the level."""
_DELTA = 0.02
"""Negligible loss, as a share of the parent's level."""
Curve = tuple[float, ...]
_SEEDS = 5
"""Orders of the rows, with a training of the child and its controls for each."""


@dataclass(frozen=True)
class Level:
    """The fitness of a parent, over held-out rows."""

    mean: float
    half_width: float
    """Of the bootstrap interval of the mean."""

    @classmethod
    def of(cls, scores: Sequence[float]) -> Self:
        low, high = interval(scores)
        return cls(fmean(scores), (high - low) / 2)

    @property
    def bar(self) -> float:
        """The least fitness of a child that is as good as the parent."""
        return self.mean - max(self.half_width, _DELTA * abs(self.mean))


@dataclass(frozen=True)
class Recovery:
    """The results of training a child and its controls."""

    levels: dict[str, Level]
    checks: tuple[int, ...]
    curves: dict[str, tuple[Curve, ...]]
    """Mean fitness at the checks of `child`, `continued` and `reset`, for each seed."""

    def steps(self, who: str = CHILD) -> list[int | None]:
        """Return the recovery step of each seed; None if later than the last check (censored)."""
        bar = max(level.bar for level in self.levels.values())
        return [recovery_step(curve, bar, self.checks) for curve in self.curves[who]]

    def median(self, who: str = CHILD) -> float | None:
        """Return the recovery step of the median seed; None if later than the last check."""
        median = median_low(math.inf if step is None else step for step in self.steps(who))
        return None if math.isinf(median) else median

    def passed(self, who: str = CHILD) -> bool:
        """Return whether all seeds recovered, the median in `MOST_STEPS` steps, as in the paper."""
        return None not in self.steps(who) and (self.median(who) or 0) <= MOST_STEPS

    @property
    def has_power(self) -> bool:
        """Whether a fresh adapter does not pass; if it does, the test is inconclusive."""
        return not self.passed(RESET)

    @property
    def problem(self) -> str:
        """Why the child is not shown to recover; '' if it is."""
        if not self.has_power:
            return "the training proves nothing, because a fresh adapter recovers as well"
        return "" if self.passed() else "it does not recover"

    def gain(self, control: str) -> tuple[float, float, float]:
        """Return the child's mean gain over a control at the last check, and its interval."""
        curves = zip(self.curves[CHILD], self.curves[control], strict=True)
        gains = [child[-1] - other[-1] for child, other in curves]
        return fmean(gains), *interval(gains)

    def to_dict(self) -> dict[str, Any]:
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

    parents: the first is a control. learning_rate: of AdamW, constant. `progress` is called with
    the number of steps done and their total. Raises LoraEvoError.
    """
    train, held_out = (
        [encode_row(row, base.tokenizer, base.context) for row in part] for part in split_rows(rows)
    )
    checks = (*(check for check in USUAL_CHECKS if check < steps), steps)
    named = {"the child": child, **{f"parent {name}": p for name, p in parents.items()}}
    for name, adapter in named.items():
        check_base(base, adapter, name, " (or, if both mean one, edit adapter_config.json)")
    adapters = {name: fitted(base, adapter, name) for name, adapter in named.items()}
    child, first, *_ = adapters.values()  # members 0, 1 and so on of the stack
    curves: dict[str, list[Curve]] = {CHILD: [], CONTINUED: [], RESET: []}
    count = 0
    with ExitStack() as after:
        stack = stack_saved(base.model, adapters)
        after.callback(stack.remove)
        budget = _BATCH_SIZE * 512
        learner = SupervisedLearner(stack, learning_rate=learning_rate, micro_batch_tokens=budget)
        fitness = (learner.probabilities(1 + place, held_out) for place in range(len(parents)))
        levels = dict(zip(parents, map(Level.of, fitness), strict=True))
        for seed in range(_SEEDS):
            starts = {CHILD: child, CONTINUED: first, RESET: fresh_adapter(first, seed)}
            for who, adapter in starts.items():
                import_adapter(stack, 0, adapter, smaller=True)
                learner.reset(0)
                curve = []
                for step in range(steps + 1):
                    if step:
                        batch = [train[i] for i in drawn(len(train), _BATCH_SIZE, step, seed)]
                        learner.step(0, batch)
                        count += 1
                    if step in checks:
                        curve.append(fmean(learner.probabilities(0, held_out)))
                    if progress is not None:
                        progress(count, steps * _SEEDS * len(starts))
                curves[who].append(tuple(curve))
    return Recovery(levels, checks, {who: tuple(of_seeds) for who, of_seeds in curves.items()})


def fresh_adapter(like: Adapter, seed: int) -> Adapter:
    """Return a new adapter with the shapes of another, initialised as in PEFT (B = 0)."""
    slots = {}
    for path, slot in like.slots.items():
        a = starting_a(tuple(slot.A.shape), derive_seed(seed, "fresh", path))
        slots[path] = Slot(a.to(slot.A.dtype), torch.zeros_like(slot.B), slot.scale)
    return Adapter(like.config, slots)


def recovery_step(fitness: Sequence[float], bar: float, checks: Sequence[int]) -> int | None:
    """Return the first of `_HOLDS` consecutive checks with a moving average of at least `bar`.

    None if there are none (censored). fitness: means at the checks.
    """
    means = [fmean(fitness[max(0, end - _WINDOW) : end]) for end in range(1, len(fitness) + 1)]
    recovered = [mean >= bar for mean in means]
    starts = (i for i in range(len(means) - _HOLDS + 1) if all(recovered[i : i + _HOLDS]))
    return next((checks[start] for start in starts), None)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the percentile bootstrap interval (Efron 1979) of the mean of some values."""
    count = len(values)
    indices = stream(derive_seed(0, "bootstrap")).integers(count, size=(_RESAMPLES, count))
    means = np.asarray(values)[indices].mean(axis=1)
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(means, (tail, 1 - tail), method="inverted_cdf")
    return float(low), float(high)
