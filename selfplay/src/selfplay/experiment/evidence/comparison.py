"""Arms beside each other: combinations of groups of runs, seed by seed at equal steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfplay.experiment.design.plan import Plan
from selfplay.experiment.evidence.gains import Of
from selfplay.experiment.evidence.quantities import Quantity, sections
from selfplay.experiment.evidence.statistics import Estimate, Floats, estimate
from selfplay.experiment.evidence.trials import Group, Trial

Term = tuple[float, Group]


@dataclass(frozen=True)
class Column:
    """A weighted sum of groups, such as an arm minus its control."""

    title: str
    terms: tuple[Term, ...]
    marked: bool = False
    """Whether a run of it is missing or not finished."""


@dataclass(frozen=True)
class Table:
    """One kind of column for all quantities of a section."""

    heading: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Quantity, tuple[Estimate | None, ...]], ...]


def combine(trials: Sequence[Trial], terms: Sequence[Term], of: Of) -> Estimate | None:
    """Return the weighted sum of a quantity over groups, with its interval over seeds and tasks.

    Only seeds that every group has are used, each cut to the last step that its runs share; so the
    same random choices and equal steps stand against each other.
    """
    by_group = [{t.seed: t for t in trials if t.group == group} for _, group in terms]
    found: list[Floats] = []
    for seed in sorted(set.intersection(*map(set, by_group))) if by_group else []:
        mine = [group[seed] for group in by_group]
        step = min(trial.run.last for trial in mine)
        values = [of(trial.until(step)) for trial in mine]
        parts = [weight * v for (weight, _), v in zip(terms, values, strict=True) if v is not None]
        if len(parts) == len(terms) and len({part.shape for part in parts}) == 1:
            found.append(sum(parts[1:], start=parts[0]))
    return estimate(found)


def tables(plan: Plan, trials: Sequence[Trial]) -> list[Table]:
    """Return every arm, with each control, minus each control, and arm against arm."""
    blocks = {
        "arms": [column(plan, trials, arm, ((1.0, Group(arm)),)) for arm in plan.arms],
        **{
            f"arms with {control}": [
                column(plan, trials, arm, ((1.0, Group(arm, control)),)) for arm in plan.arms
            ]
            for control in plan.controls
        },
        **{
            f"minus {control}": [
                column(plan, trials, arm, ((1.0, Group(arm)), (-1.0, Group(arm, control))))
                for arm in plan.arms
            ]
            for control in plan.controls
        },
        "arm against arm": [
            column(plan, trials, f"{a} − {b}", ((1.0, Group(a)), (-1.0, Group(b))))
            for a, b in plan.contrasts
        ],
    }
    return [
        Table(
            f"{heading}: {name}",
            tuple(columns),
            tuple((q, tuple(combine(trials, c.terms, q.of) for c in columns)) for q in quantities),
        )
        for heading, quantities in sections(trials).items()
        for name, columns in blocks.items()
        if columns
    ]


def groups(plan: Plan) -> list[Group]:
    """Return the arms, then the arms with each control."""
    return [Group(arm, control) for control in (None, *plan.controls) for arm in plan.arms]


def column(plan: Plan, trials: Sequence[Trial], title: str, terms: tuple[Term, ...]) -> Column:
    """Return a column, marked where a run of it is missing or not finished."""
    marked = any(
        not any(t.group == group and t.seed == seed and t.complete for t in trials)
        for _, group in terms
        for seed in (plan.control_seeds if group.control else plan.seeds)
    )
    return Column(title, terms, marked)
