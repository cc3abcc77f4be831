"""A child's recovery by supervised training, beside its controls and other operators' children."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter
from lora_evo.files.content_hash import adapter_hash
from lora_evo.recovery.journal import read_journal
from lora_evo.recovery.plan import GIVEN, ParentPair, Treatment, TrialPlan
from lora_evo.recovery.protocol import RecoveryProtocol, checks_up_to
from lora_evo.recovery.summary import Row, Summary, summarise
from lora_evo.recovery.supervised_learner import SupervisedLearner
from lora_evo.recovery.trials import Report, run_trials

TRIALS = "trials.jsonl"
"""The journal in an output folder."""
TOGETHER = 8
"""Adapters side by side at most."""


@dataclass(frozen=True)
class SupervisedTrials:
    """What is trained: a given child, its parents, and children that other operators make of them.

    Raises `LoraEvoError`.
    """

    child: tuple[str, Adapter]
    """Its name and the adapter."""
    parents: Mapping[str, Adapter]
    """By name. The first is the one whose place the child takes: the controls and mutations start
    from it, and crossovers take the first two."""
    treatments: tuple[Treatment, ...] = ()
    seeds: int = 5
    """Orders of the training rows (and births of operators' children)."""
    steps: int = 50
    """After which a child that has not recovered is censored; at least 2."""

    def __post_init__(self) -> None:
        if not self.parents:
            raise LoraEvoError("no parents are given; expected at least one")
        if self.seeds < 1 or self.steps < 2:
            raise LoraEvoError(
                f"{self.seeds} seeds and {self.steps} steps; expected at least 1 seed and 2 steps"
            )
        for treatment in self.treatments:
            if treatment.parents > len(self.parents):
                raise LoraEvoError(
                    f"{treatment.name} takes {treatment.parents} parents, {len(self.parents)} is "
                    "given; give another --parent or leave the operator out"
                )

    def plan(self) -> TrialPlan:
        """The trials, controls among them."""
        names = tuple(self.parents)
        return TrialPlan(
            parents=names[:1],
            pairs=(ParentPair(names[0], names[1], GIVEN),) if len(names) > 1 else (),
            treatments=self.treatments,
            seeds=tuple(range(self.seeds)),
            together=TOGETHER,
            given={self.child[0]: names},
        )

    def run(
        self, folder: Path, learner: SupervisedLearner, report: Report | None = None
    ) -> Summary:
        """Run what the journal in `folder` does not hold yet, and sum all of it up."""
        name, adapter = self.child
        run_trials(
            folder / TRIALS,
            self.plan(),
            self.parents,
            learner,
            RecoveryProtocol(checks_up_to(self.steps)),
            children={name: adapter},
            setting={**learner.setting(), "children": {name: adapter_hash(adapter)}},
            report=report,
        )
        return summarise(read_journal(folder / TRIALS))


def row_of_child(summary: Summary, child: str) -> Row:
    """The line of a given child."""
    name = Treatment(GIVEN, parameters={"child": child}).name
    found: Sequence[Row] = [row for row in summary.rows if row.name == name]
    if not found:
        raise LoraEvoError(f"the trials hold no given child called {child}")
    return found[0]
