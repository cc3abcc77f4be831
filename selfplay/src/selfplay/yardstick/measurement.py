"""One measurement of all living members against the frozen base: rows of yardstick.jsonl."""

from msgspec import UNSET

from selfplay.records.yardstick_row import BASE, YardstickRow
from selfplay.run.run import Run, role_of
from selfplay.yardstick.solving import solve_held_out, solving_row
from selfplay.yardstick.teaching import teaching_row


def is_due(run: Run, step: int) -> bool:
    """Whether members are measured after this step: every `eval_every`, at the start and end."""
    every = run.config.yardstick.eval_every
    return every > 0 and (step % every == 0 or step == run.config.steps)


def measure_members(run: Run, step: int) -> list[YardstickRow]:
    """Return a row for every living member, and before the first step for the base.

    Before the first step every member is the base (its B is 0): only the base is sampled then.
    """
    y = run.yardstick
    members: list[str | None] = [None] if step == 0 else list(run.learner.members)
    if y.base is None:
        y.base = solve_held_out(run, None, y.tasks)
    rows = []
    for member in members:
        role = BASE if member is None else role_of(member)
        solves = bool(y.tasks) and role != "teacher"
        solving = y.base if member is None or not solves else solve_held_out(run, member, y.tasks)
        rows.append(
            YardstickRow(
                step=step,
                member=member or BASE,
                role=role,
                solving=solving_row(solving, y.base) if solves else UNSET,
                teaching=UNSET if role == "student" else teaching_row(run, member, y.references),
            )
        )
    return rows
