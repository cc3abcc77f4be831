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
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter, Slot
from lora_evo.linalg.noise import stream
from lora_evo.model.base_model import BaseModel
from lora_evo.model.exchange import check_fits, fill_member, stack_saved
from lora_evo.model.supervised import SupervisedLearner, TokenPair, drawn
from lora_evo.retained.rows import PromptRow, encode_row, split_rows

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
Floats = npt.NDArray[np.float64]
Curve = tuple[float, ...]


@dataclass(frozen=True)
class Level:
    """The fitness of a parent, over held-out rows."""

    mean: float
    half_width: float
    """Of the bootstrap interval of the mean."""

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

    @property
    def bar(self) -> float:
        """That of the best parent."""
        return max(level.bar for level in self.levels.values())

    def steps(self, who: str = CHILD) -> list[int | None]:
        """Return the recovery step of each seed; None: not by the last check (censored)."""
        return [recovery_step(curve, self.bar, self.checks) for curve in self.curves[who]]

    def median(self, who: str = CHILD) -> float | None:
        """Return the recovery step of the median seed; None: after the last check."""
        return quantile(self.steps(who), 0.5)

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
        found = np.asarray(
            [a[-1] - b[-1] for a, b in zip(self.curves[CHILD], self.curves[control], strict=True)]
        )
        return float(found.mean()), *interval(found)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        who = (CHILD, CONTINUED, RESET)
        return {
            **asdict(self),
            "steps": {name: self.steps(name) for name in who},
            "median": {name: self.median(name) for name in who},
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
    seeds: int = 5,
    learning_rate: float = 1e-4,
    batch_size: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> Recovery:
    """Train a child and its controls on rows with completions, a fifth of which is held out.

    parents: the controls start from the first. seeds: orders of the rows. learning_rate: of AdamW,
    constant. `progress` is called with the number of steps done and of all. Raises LoraEvoError.
    """
    if seeds < 1 or steps < 2:
        raise LoraEvoError(f"{seeds} seeds, {steps} steps; expected at least 1 seed and 2 steps")
    train, held_out = (
        [TokenPair(*encode_row(row, base.tokenizer, base.context)) for row in part]
        for part in split_rows(rows)
    )
    if len(train) < batch_size:
        raise LoraEvoError(
            f"there are {len(train)} rows to train on, and {batch_size} in a batch; give more rows "
            "or a smaller batch size"
        )
    for name, parent in parents.items():
        check_fits(base, parent, name, any_base=True)
    check_fits(base, child, "the child", any_base=True)
    first = next(iter(parents.values()))
    checks = (*(check for check in USUAL_CHECKS if check < steps), steps)
    curves: dict[str, list[Curve]] = {CHILD: [], CONTINUED: [], RESET: []}
    named = {f"parent {name}": parent for name, parent in parents.items()}
    stack = stack_saved(base.model, {CHILD: child, **named})
    try:
        learner = SupervisedLearner(
            stack, learning_rate=learning_rate, micro_batch_tokens=batch_size * 512
        )
        levels = {
            name: level(learner.probabilities(place, held_out))
            for place, name in enumerate(parents, start=1)
        }
        done = 0
        for seed in range(seeds):
            starts = {CHILD: child, CONTINUED: first, RESET: fresh_adapter(first, seed)}
            for who, adapter in starts.items():
                fill_member(stack, 0, adapter)
                learner.reset(0)
                curve = []
                for step in range(steps + 1):
                    if step:
                        batch = [train[i] for i in drawn(len(train), batch_size, step, seed)]
                        learner.step(0, batch)
                        done += 1
                    if step in checks:
                        curve.append(fmean(learner.probabilities(0, held_out)))
                    if progress is not None:
                        progress(done, steps * seeds * len(starts))
                curves[who].append(tuple(curve))
    finally:
        stack.remove()
    return Recovery(levels, checks, {who: tuple(found) for who, found in curves.items()})


def fresh_adapter(like: Adapter, seed: int) -> Adapter:
    """Return an adapter that changes nothing yet, in the shapes of another.

    A uniform in +-1/sqrt(in) and B zero, as PEFT starts a LoRA.
    """
    slots = {}
    for path, slot in like.slots.items():
        bound = slot.A[0].numel() ** -0.5
        values = stream(seed, path, "fresh").uniform(-bound, bound, tuple(slot.A.shape))
        a = torch.from_numpy(values).to(slot.A.dtype)
        slots[path] = Slot(a, torch.zeros_like(slot.B), slot.scale)
    return Adapter(like.config, slots)


def level(scores: Sequence[float]) -> Level:
    """Return the level of a parent from its scores, one per held-out row."""
    values = np.asarray(scores, dtype=np.float64)
    low, high = interval(values)
    return Level(float(values.mean()), (high - low) / 2)


def recovery_step(fitness: Sequence[float], bar: float, checks: Sequence[int]) -> int | None:
    """Return the first check from which the moving average stays at or above `bar`.

    fitness: means at the first checks, as many as were measured. None: not recovered by then
    (censored); a recovery that begins too late to be seen to hold is none.
    """
    means = [fmean(fitness[max(0, end - _WINDOW) : end]) for end in range(1, len(fitness) + 1)]
    above = [mean >= bar for mean in means]
    for first in range(len(above) - _HOLDS + 1):
        if all(above[first : first + _HOLDS]):
            return checks[first]
    return None


def quantile(steps: Sequence[float | None], share: float) -> float | None:
    """Return the smallest step by which at least `share` of the trials recovered; None: never.

    A censored trial counts as later than all steps. All of them are censored at the same, last
    check, and there this and the estimate of Kaplan and Meier (1958) give the same quantiles.
    """
    ordered = sorted(math.inf if step is None else step for step in steps)
    found = ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]
    return None if math.isinf(found) else found


def interval(values: Floats) -> tuple[float, float]:
    """Return the percentile bootstrap interval (Efron 1979) of the mean of some values."""
    picks = stream(0, "bootstrap", str(len(values))).integers(
        len(values), size=(_RESAMPLES, len(values))
    )
    tail = (1 - _CONFIDENCE) / 2
    means = values[picks].mean(axis=1)
    low, high = np.quantile(means, (tail, 1 - tail), method="inverted_cdf")
    return float(low), float(high)
