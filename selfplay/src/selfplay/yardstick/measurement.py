"""One measurement of all living members against the frozen base: rows of yardstick.jsonl."""

from typing import Any

from selfplay.run.run import Run, role_of
from selfplay.yardstick.solving import solve_held_out, solving_row
from selfplay.yardstick.teaching import teaching_row

BASE = "base"
"""Name of the frozen base in the rows."""


def is_due(run: Run, step: int) -> bool:
    """Whether members are measured after this step: every `eval_every`, at the start and end."""
    every = run.config.yardstick.eval_every
    return every > 0 and (step % every == 0 or step == run.config.steps)


def measure_members(run: Run, step: int) -> list[dict[str, Any]]:
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
        row: dict[str, Any] = {"step": step, "member": member or BASE, "role": role}
        if y.tasks and role != "teacher":
            solving = y.base if member is None else solve_held_out(run, member, y.tasks)
            row["solving"] = solving_row(solving, y.base)
        if role != "student":
            row["teaching"] = teaching_row(run, member, y.references)
        rows.append(row)
    return rows
