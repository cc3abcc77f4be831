"""Trials of recovery: children and their controls, trained side by side by the caller's learner."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch

from lora_evo.breeding.child import cross_with_report, mutate_with_report
from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter, Slot
from lora_evo.files.content_hash import adapter_hash
from lora_evo.linalg.distance import relative_change
from lora_evo.linalg.noise import stream
from lora_evo.operators.lookup import operator_named
from lora_evo.recovery.journal import Journal, Outcome
from lora_evo.recovery.plan import CONTINUED, GIVEN, RESET, Trial, TrialPlan
from lora_evo.recovery.protocol import RecoveryProtocol, checked_scores, level, recovery_step

Report = Callable[[int, int, str], None]
"""Called with trials done, trials in all, and what is being done."""


class Learner(Protocol):
    """Trains several adapters of one frozen base side by side, and measures each.

    Equal calls must give equal numbers, and what one adapter learns must not depend on the others:
    then the trials of an experiment may be split and resumed at will. All random choices (data,
    sampling) must follow from the seed of `start` and the number of the step, not from the adapter:
    parents, children and controls then meet the same luck, and their differences are less noisy.
    """

    def start(self, adapters: Sequence[Adapter], seed: int) -> None:
        """Take adapters to train from here on, with fresh optimiser state."""

    def step(self, active: Sequence[int]) -> None:
        """One update of each of these adapters, by their places in `start`."""

    def fitness(self, active: Sequence[int]) -> Sequence[Sequence[float]]:
        """For each of these adapters one score per held-out item, the same items every time."""


def run_trials(
    path: Path,
    plan: TrialPlan,
    parents: Mapping[str, Adapter],
    learner: Learner,
    protocol: RecoveryProtocol,
    *,
    children: Mapping[str, Adapter] | None = None,
    setting: Mapping[str, object] | None = None,
    stop_early: bool = False,
    report: Report | None = None,
) -> None:
    """Run what the journal at `path` (JSON Lines) does not hold yet, cohort by cohort.

    A cohort is the children, the continued parent and the reset of one parent and one seed. A
    cohort is written as one line when it is finished, so that an interrupted experiment goes on
    where it was; more treatments, pairs and seeds can be added to a finished one. `setting`: plain
    values that describe the learner, kept in the journal; another setting, protocol or parent is
    refused. children: those that the plan calls given. stop_early: children are no longer trained
    once they have recovered; the controls are.
    """
    wanted = {*plan.parents, *(name for names in plan.given.values() for name in names)}
    wanted |= {name for pair in plan.pairs for name in (pair.first, pair.second)}
    absent = sorted(wanted - set(parents)) + sorted(set(plan.given) - set(children or {}))
    if absent:
        raise LoraEvoError(f"no adapter was given for {', '.join(absent)}")
    hashes = {name: adapter_hash(adapter) for name, adapter in sorted(parents.items())}
    journal = Journal.open(path, protocol, hashes, dict(setting or {}))
    tell = report or (lambda done, total, what: None)
    total = sum(len(cohort) for cohort in plan.cohorts())
    for name in sorted(parents):
        if name not in journal.levels:
            tell(len(journal.outcomes), total, f"level of {name}")
            learner.start([parents[name]], 0)
            journal.add_level(name, list(checked_scores(learner.fitness([0])[0])))
    for cohort in list(plan.cohorts(list(journal.outcomes))):
        tell(len(journal.outcomes), total, f"{cohort[0].parents[0]}, seed {cohort[0].seed}")
        journal.add(_run_cohort(cohort, parents, journal, learner, stop_early, children))
    tell(total, total, "done")


def fresh_adapter(like: Adapter, seed: int) -> Adapter:
    """An adapter that changes nothing yet, in the shapes of another.

    A uniform in +-1/sqrt(in) and B zero, as PEFT starts a LoRA.
    """
    slots = {}
    for path, slot in like.slots.items():
        bound = slot.A[0].numel() ** -0.5
        values = stream(seed, path, "fresh").uniform(-bound, bound, tuple(slot.A.shape))
        a = torch.from_numpy(values).to(slot.A.dtype)
        slots[path] = Slot(a, torch.zeros_like(slot.B), slot.scale, slot.layout)
    return Adapter(like.config, slots)


def make_child(
    trial: Trial,
    parents: Mapping[str, Adapter],
    fitness: Mapping[str, float],
    children: Mapping[str, Adapter] | None = None,
) -> tuple[Adapter, float | None]:
    """The adapter that a trial starts from, and its relative change against the first parent.

    Operators with a parameter `fitness` are told the parents' levels.
    """
    head, treatment = parents[trial.parents[0]], trial.treatment
    if treatment.operator == CONTINUED:
        return head, 0.0
    if treatment.operator == RESET:
        return fresh_adapter(head, trial.seed), 1.0
    settings = dict(treatment.parameters)
    if treatment.operator == GIVEN:
        known = (children or {})[settings["child"]]
        return known, relative_change(head, known)
    if treatment.parents == 1:
        child = mutate_with_report(
            head, treatment.operator, trial.seed, treatment.strength, **settings
        )
    else:
        if "fitness" in operator_named(treatment.operator).defaults:
            settings.setdefault("fitness", [fitness[name] for name in trial.parents])
        both = [parents[name] for name in trial.parents]
        child = cross_with_report(both, treatment.operator, trial.seed, **settings)
    return child.adapter, child.lineage.relative_change


def _run_cohort(
    cohort: Sequence[Trial],
    parents: Mapping[str, Adapter],
    journal: Journal,
    learner: Learner,
    stop_early: bool,
    children: Mapping[str, Adapter] | None,
) -> list[Outcome]:
    protocol = journal.protocol
    levels = {name: level(scores, protocol) for name, scores in journal.levels.items()}
    means = {name: found.mean for name, found in levels.items()}
    made = [make_child(trial, parents, means, children) for trial in cohort]
    bars = [max(levels[name].bar(protocol) for name in trial.parents) for trial in cohort]
    learner.start([adapter for adapter, _ in made], cohort[0].seed)
    scores: list[list[list[float]]] = [[] for _ in cohort]
    active, step = list(range(len(cohort))), 0
    for check in protocol.checks:
        for _ in range(check - step):
            learner.step(active)
        step = check
        for place, found in zip(active, learner.fitness(active), strict=True):
            scores[place].append(checked_scores(found).tolist())
        if stop_early:
            active = [
                place
                for place in active
                if cohort[place].treatment.operator in (CONTINUED, RESET)
                or recovery_step(
                    [sum(row) / len(row) for row in scores[place]], bars[place], protocol
                )
                is None
            ]
    return [
        Outcome(trial, change, tuple(map(tuple, rows)))
        for trial, (_, change), rows in zip(cohort, made, scores, strict=True)
    ]
