"""One measurement of all living members against the frozen base: rows of yardstick.jsonl."""

from msgspec import UNSET

from selfplay.population.founders import role_of
from selfplay.records.yardstick_row import BASE, YardstickRow
from selfplay.run.run import Run
from selfplay.yardstick.solving import solve_held_out, solving_row
from selfplay.yardstick.teaching import teaching_rows


def is_due(run: Run, step: int) -> bool:
    """Whether members are measured after this step: every `eval_every`, at the start and end."""
    every = run.config.yardstick.eval_every
    return every > 0 and (step % every == 0 or step == run.config.steps)


def measure_members(run: Run, step: int) -> list[YardstickRow]:
    """Return a row for every living member, and before the first step for the base.

    Without a warm start every member is the base before the first step (its B is 0): only the base
    is sampled then.
    """
    y = run.yardstick
    members: list[str | None] = [None] if step == 0 else []
    if step > 0 or run.config.warm_start is not None:
        members += run.learner.members
    if y.base is None:
        (y.base,) = solve_held_out(run, [None], y.tasks)
    roles = {m: BASE if m is None else role_of(m) for m in members}
    students = [m for m in members if roles[m] != "teacher"] if y.tasks else []
    teachers = [m for m in members if roles[m] != "student"]
    sampled = [m for m in students if m is not None]
    solved = dict(zip(sampled, solve_held_out(run, sampled, y.tasks), strict=True))
    taught = dict(zip(teachers, teaching_rows(run, teachers, y.references), strict=True))
    return [
        YardstickRow(
            step=step,
            member=member or BASE,
            role=roles[member],
            solving=solving_row(y.base if member is None else solved[member], y.base)
            if member in students
            else UNSET,
            teaching=taught.get(member, UNSET),
        )
        for member in members
    ]
