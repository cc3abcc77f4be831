"""The paper's four findings and its readers' two questions, each as numbers with verdicts."""

from collections.abc import Sequence
from dataclasses import replace

from selfplay.experiment.design.plan import Plan
from selfplay.experiment.evidence.children import share_back_within
from selfplay.experiment.evidence.comparison import Term
from selfplay.experiment.evidence.dynamics import changes_of_lead, oscillation
from selfplay.experiment.evidence.gains import (
    Of,
    at_end,
    in_last_third,
    of_kind,
    of_level,
    population_mean,
    weakest_member,
)
from selfplay.experiment.evidence.parts import Parts, parts_of
from selfplay.experiment.evidence.quantities import (
    COMPLEXITY,
    COVERAGE,
    OUT_OF_DISTRIBUTION,
    OWN_TASKS,
    POINTS,
    Quantity,
    complexity_change,
)
from selfplay.experiment.evidence.trials import Group, Trial
from selfplay.experiment.evidence.verdict import Finding

COMPLEXITY_QUESTION = (
    "1. Do a single agent's tasks get simpler and easier, and a population's more complex and "
    "harder?"
)
MOTION_QUESTION = (
    "2. Do the roles of a population take turns, and does it go on to explore where a single agent "
    "stalls?"
)
CHILDREN_QUESTION = "3. Are children soon as good as their parents?"
SKILL_QUESTION = (
    "4. Does a population solve more held-out tasks than a single agent, even its weakest member?"
)
SIZE_QUESTION = "5. Is the largest population worth it over the smallest?"
EVOLUTION_QUESTION = "6. Does evolution itself help?"

OSCILLATION = Quantity(
    "oscillation of the solve rate",
    POINTS,
    "Standard deviation of the smoothed solve rate on the run's own tasks around its straight "
    "trend.",
    oscillation,
)
LEAD = Quantity(
    "changes of lead",
    "per 100 steps",
    "How often the mean rating of teachers overtakes that of students or the other way round, "
    "after smoothing.",
    changes_of_lead,
)


def paper_findings(plan: Plan, trials: Sequence[Trial]) -> list[Finding]:
    """Return the evidence for every question."""
    parts = parts_of(plan, trials)
    return [
        *_complexity(parts),
        *_motion(parts),
        *_children(parts),
        *_skill(parts),
        *_size(parts),
        *_evolution(parts),
    ]


def _complexity(parts: Parts) -> list[Finding]:
    changes = [
        Quantity(
            f"{title}, change",
            unit,
            "Mean over accepted programs, last quarter of the steps minus the first.",
            complexity_change(name),
        )
        for name, (title, unit) in COMPLEXITY.items()
    ]
    single = parts.net(parts.single) if parts.single else []
    return [
        parts.finding(COMPLEXITY_QUESTION, compared, quantity, side, terms)
        for compared, up, terms in (
            ("single agent − its control", -1, single),
            (
                "populations − single agent, each minus its control",
                1,
                parts.against_single(net=True),
            ),
        )
        for quantity, side in [*((q, up) for q in changes), (OWN_TASKS[1], -up)]
    ]


def _motion(parts: Parts) -> list[Finding]:
    against_control = parts.mean_population(net=True) if parts.plan.controls else []
    return [
        parts.finding(MOTION_QUESTION, compared, quantity, 1, terms)
        for compared, quantity, terms in (
            ("populations − their controls", OSCILLATION, against_control),
            (
                "populations − single agent, each minus its control",
                OSCILLATION,
                parts.against_single(net=True),
            ),
            ("populations − their controls", LEAD, against_control),
            (
                "populations − single agent, each minus its control",
                COVERAGE[1],
                parts.against_single(net=True),
            ),
        )
    ]


def _children(parts: Parts) -> list[Finding]:
    found = [
        parts.finding(
            CHILDREN_QUESTION,
            "students' children against their first parents",
            Quantity(
                f"back within {steps} steps",
                POINTS,
                "Share of children whose held-out solve rate is not more than one standard error "
                "below their parent's, at a measurement so soon after birth; more than half is "
                "predicted.",
                share_back_within(steps),
            ),
            1,
            [(1.0 / len(arms), Group(arm)) for arm in arms],
            0.5,
        )
        for arms in [parts.with_births()]
        for steps in (10, 20)
    ]
    return [replace(f, estimate=f.estimate.as_share()) if f.estimate else f for f in found]


def _skill(parts: Parts) -> list[Finding]:
    end = at_end(population_mean)
    whole = [
        MEAN,
        WEAKEST,
    ]
    strata = {stratum for trial in parts.trials for stratum in trial.strata}
    partly = [_held_out(kind, of_kind(kind, end)) for kind in sorted({k for k, _ in strata})]
    partly += [
        _held_out(f"level {n}", of_level(n, end)) for n in sorted({n for _, n in strata if n})
    ]
    single = parts.single
    each = [
        parts.finding(
            SKILL_QUESTION,
            f"{arm} − {single}",
            quantity,
            1,
            [(1.0, Group(arm)), (-1.0, Group(single))],
        )
        for arm in parts.populations
        if single is not None
        for quantity in whole
    ]
    pooled = parts.against_single(net=False)
    return each + [
        parts.finding(SKILL_QUESTION, "populations − single agent", quantity, 1, pooled)
        for quantity in [*([] if each else whole), *partly, OUT_OF_DISTRIBUTION]
    ]


def _size(parts: Parts) -> list[Finding]:
    small, large = (parts.populations[0], parts.populations[-1]) if parts.populations else ("", "")
    several = small != large
    terms = [(1.0, Group(large)), (-1.0, Group(small))] if several else []
    compared = f"{large} − {small}" if several else "largest − smallest population"
    return [
        parts.finding(SIZE_QUESTION, compared, quantity, 1, terms)
        for quantity in (
            MEAN,
            WEAKEST,
        )
    ]


def _evolution(parts: Parts) -> list[Finding]:
    pairs: list[tuple[str, list[Term]]] = [
        (f"{with_it} − {without}", [(1.0, Group(with_it)), (-1.0, Group(without))])
        for with_it, without in parts.pairs
    ]
    return [
        parts.finding(EVOLUTION_QUESTION, compared, MEAN, 1, terms)
        for compared, terms in pairs or [("with − without evolution", [])]
    ]


def _held_out(title: str, of: Of, when: str = "at the last measurement") -> Quantity:
    return Quantity(f"held-out gain, {title}", POINTS, f"Over the frozen base, {when}.", of)


_LATE = "mean of the last third of the measurements"
MEAN = _held_out("population mean", in_last_third(population_mean), _LATE)
WEAKEST = _held_out("weakest member", in_last_third(weakest_member), _LATE)
