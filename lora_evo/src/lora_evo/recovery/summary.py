"""What the trials of an experiment say about each operator.

Recovery steps of different trials are summed up by quantiles in which a censored trial counts as
later than all steps. All trials that are censored are so at the same, last check, and there this
plain way and the estimate of Kaplan and Meier (1958) give the same quantiles. A quantile among the
censored ones is not known: it is None, and reads "> last step".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from lora_evo.linalg.noise import stream
from lora_evo.recovery.journal import Journal, Outcome
from lora_evo.recovery.plan import CONTINUED, RESET
from lora_evo.recovery.protocol import (
    Floats,
    Level,
    RecoveryProtocol,
    interval,
    level,
    recovery_step,
    resampled_means,
)

MOST_STEPS = 20
"""Steps that the median child of an operator may need (arXiv 2605.16727 reports 10 to 20)."""
MOST_CENSORED = 0.1
"""Share of the children that must be exceeded by none that never recover."""


@dataclass(frozen=True)
class Gain:
    """Mean difference of fitness to a control at the same step, same seed, with its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One treatment, over all its trials with parents of one relation."""

    name: str
    relation: str
    """Empty for one parent."""
    trials: int
    parents: int
    """Different parents, or pairs, among them."""
    start: float
    """Mean fitness before training, minus that of the best parent."""
    median: float | None
    """Recovery step of the median child against its best parent; None: after the last check."""
    median_interval: tuple[float | None, float | None]
    """Bootstrap interval of the median over trials."""
    p90: float | None
    """The step by which 90 % of the children have recovered."""
    censored: float
    """Share that had not recovered by the last check."""
    relative_change: float | None
    """Mean |D' - D| / |D| against the first parent; None where one started from a zero update."""
    over_continued: Gain
    """At the child's last check."""
    over_reset: Gain
    """At the child's last check."""

    @property
    def passed(self) -> bool:
        """Whether the operator meets the paper's claim here."""
        quick = self.median is not None and self.median <= MOST_STEPS
        return quick and self.censored < MOST_CENSORED


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of a proxy at step 0 with the recovery step, over children."""

    proxy: str
    rho: float | None
    """None where either never changes."""
    trials: int


@dataclass(frozen=True)
class Summary:
    """The table of an experiment and what it hangs on."""

    protocol: RecoveryProtocol
    setting: Mapping[str, object]
    items: int
    levels: Mapping[str, Level]
    """Of the parents, by name."""
    rows: tuple[Row, ...]
    """The controls first, then treatments in the order of the journal."""
    correlations: tuple[Correlation, ...]

    @property
    def has_power(self) -> bool | None:
        """Whether resets fail, without which a pass proves nothing; None without resets."""
        found = [row for row in self.rows if row.name == RESET]
        return not found[0].passed if found else None


def summarise(journal: Journal) -> Summary:
    """Sum a journal up; finished cohorts are enough, the experiment may still be going on."""
    protocol = journal.protocol
    levels = {name: level(scores, protocol) for name, scores in journal.levels.items()}
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in journal.outcomes.values():
        key = outcome.trial.treatment.name, outcome.trial.relation
        groups.setdefault(key, []).append(outcome)
    keys = sorted(groups, key=lambda key: (key[0] != CONTINUED, key[0] != RESET))
    return Summary(
        protocol,
        journal.setting,
        max((len(scores) for scores in journal.levels.values()), default=0),
        levels,
        tuple(_row(journal, levels, key, groups[key]) for key in keys),
        _correlations(journal, levels),
    )


def quantile(steps: Sequence[float | None], share: float) -> float | None:
    """The smallest step by which at least `share` of the trials have recovered; None: never."""
    ordered = sorted(math.inf if step is None else step for step in steps)
    found = ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]
    return None if math.isinf(found) else found


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation with ties at their mean rank; None where one side is constant."""
    a, b = _ranks(first), _ranks(second)
    if len(a) < 2 or not a.std() or not b.std():
        return None
    return float(np.corrcoef(a, b)[0, 1])


def recovered(
    outcome: Outcome, levels: Mapping[str, Level], protocol: RecoveryProtocol
) -> int | None:
    """The recovery step of a trial against its best parent's bar."""
    bar = max(levels[name].bar(protocol) for name in outcome.trial.parents)
    return recovery_step(outcome.fitness, bar, protocol)


def _row(
    journal: Journal, levels: Mapping[str, Level], key: tuple[str, str], outcomes: Sequence[Outcome]
) -> Row:
    protocol = journal.protocol
    steps = [recovered(o, levels, protocol) for o in outcomes]
    changes = [o.relative_change for o in outcomes]
    known = [change for change in changes if change is not None]
    picks = stream(0, "trials", str(len(steps))).integers(
        len(steps), size=(protocol.resamples, len(steps))
    )
    tail = (1 - protocol.confidence) / 2
    medians = [quantile([steps[i] for i in pick], 0.5) for pick in picks]
    return Row(
        *key,
        trials=len(outcomes),
        parents=len({o.trial.parents for o in outcomes}),
        start=fmean([o.fitness[0] - _best(o, levels) for o in outcomes]),
        median=quantile(steps, 0.5),
        median_interval=(quantile(medians, tail), quantile(medians, 1 - tail)),
        p90=quantile(steps, 0.9),
        censored=steps.count(None) / len(steps),
        relative_change=fmean(known) if len(known) == len(changes) else None,
        over_continued=_gain(journal, outcomes, CONTINUED),
        over_reset=_gain(journal, outcomes, RESET),
    )


def _gain(journal: Journal, outcomes: Sequence[Outcome], control: str) -> Gain:
    """Paired by seed, first parent and step; resampled over trials."""
    controls = {
        (o.trial.parents[0], o.trial.seed): o
        for o in journal.outcomes.values()
        if o.trial.treatment.operator == control
    }
    found = []
    for outcome in outcomes:
        other = controls[outcome.trial.parents[0], outcome.trial.seed]
        last = min(len(outcome.scores), len(other.scores)) - 1
        found.append(outcome.fitness[last] - other.fitness[last])
    protocol = journal.protocol
    values = np.asarray(found, dtype=np.float64)
    low, high = interval(resampled_means(values, protocol.resamples), protocol.confidence)
    return Gain(fmean(found), low, high)


def _correlations(journal: Journal, levels: Mapping[str, Level]) -> tuple[Correlation, ...]:
    changes, losses, steps = [], [], []
    for o in journal.outcomes.values():
        if o.trial.treatment.operator not in (CONTINUED, RESET) and o.relative_change is not None:
            step = recovered(o, levels, journal.protocol)
            steps.append(math.inf if step is None else step)
            changes.append(o.relative_change)
            losses.append(_best(o, levels) - o.fitness[0])
    proxies = {"relative change": changes, "loss of fitness at step 0": losses}
    return tuple(
        Correlation(name, spearman(values, steps), len(steps)) for name, values in proxies.items()
    )


def _best(outcome: Outcome, levels: Mapping[str, Level]) -> float:
    return max(levels[name].mean for name in outcome.trial.parents)


def _ranks(values: Sequence[float]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    below = (array[None, :] < array[:, None]).sum(axis=1)
    equal = (array[None, :] == array[:, None]).sum(axis=1)
    return np.asarray(below + (equal - 1) / 2, dtype=np.float64)
