"""Which arm plays which part in the findings, as its settings say.

The single agent is the arm of mode azr; populations are the others that evolve; the control is the
first one of the plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from selfplay.experiment.design.plan import Plan
from selfplay.experiment.evidence.comparison import Term, column, combine
from selfplay.experiment.evidence.quantities import Quantity
from selfplay.experiment.evidence.trials import Group, Trial
from selfplay.experiment.evidence.verdict import Finding


@dataclass(frozen=True)
class Parts:
    """Which arms play which part in the findings."""

    plan: Plan
    trials: Sequence[Trial]
    single: str | None
    populations: tuple[str, ...]
    """Smallest first."""
    pairs: tuple[tuple[str, str], ...]
    """Populations with evolution, and the same without."""

    def net(self, arm: str, weight: float = 1.0) -> list[Term]:
        """Return the arm minus its control; the arm alone where the plan has none."""
        control = next(iter(self.plan.controls), None)
        minus = [(-weight, Group(arm, control))] if control else []
        return [(weight, Group(arm)), *minus]

    def finding(
        self,
        question: str,
        compared: str,
        quantity: Quantity,
        predicted: int,
        terms: Sequence[Term],
        threshold: float = 0.0,
    ) -> Finding:
        """Return the finding for a weighted sum of groups."""
        estimate = combine(self.trials, terms, quantity.of) if terms else None
        marked = bool(terms) and column(self.plan, self.trials, "", tuple(terms)).marked
        note = "" if estimate else "no such arms" if not terms else quantity.missing
        return Finding(question, compared, quantity, predicted, estimate, threshold, marked, note)

    def mean_population(self, *, net: bool) -> list[Term]:
        """Return the mean over all populations, minus their controls if so asked."""
        weight = 1.0 / max(1, len(self.populations))
        terms = [
            self.net(arm, weight) if net else [(weight, Group(arm))] for arm in self.populations
        ]
        return [term for some in terms for term in some]

    def against_single(self, *, net: bool) -> list[Term]:
        """Return the mean population minus the single agent; empty where either is missing."""
        if self.single is None or not self.populations:
            return []
        single = self.net(self.single, -1.0) if net else [(-1.0, Group(self.single))]
        return [*self.mean_population(net=net), *single]

    def with_births(self) -> list[str]:
        """Return the populations in which children were born."""
        born = {t.group for t in self.trials if t.run.births}
        return [arm for arm in self.populations if Group(arm) in born]


def parts_of(plan: Plan, trials: Sequence[Trial]) -> Parts:
    """Return which arm plays which part, as its settings say."""
    configs = {arm: plan.run_config(arm, None, plan.seeds[0]) for arm in plan.arms}
    groups = {arm: c for arm, c in configs.items() if c.mode != "azr"}
    evolving = [arm for arm, c in groups.items() if c.evolution.evolve_every]
    sizes = {arm: c.teachers + c.students for arm, c in groups.items()}
    return Parts(
        plan,
        trials,
        single=next((arm for arm, c in configs.items() if c.mode == "azr"), None),
        populations=tuple(sorted(evolving, key=lambda arm: sizes[arm])),
        pairs=tuple(
            (arm, still)
            for arm in evolving
            for still, c in groups.items()
            if not c.evolution.evolve_every
            and (c.teachers, c.students) == (configs[arm].teachers, configs[arm].students)
        ),
    )
