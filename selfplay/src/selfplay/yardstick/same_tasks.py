"""Students and the frozen base on the same tasks: the curve in which harder tasks cannot hide
learning."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from evals.engine.streams import stream
from selfplay.records.step_row import SameTasksRow
from selfplay.run.run import Run
from selfplay.run.stages import Solved, Verified


def chosen_for_base(run: Run, verified: Sequence[Verified], step: int) -> set[str]:
    """Draw the ids of the accepted tasks, up to `same_tasks` a match, that the base attempts too.

    The base is one and its attempts train nobody.
    """
    count = run.config.yardstick.same_tasks
    by_match: dict[tuple[str, str], list[str]] = defaultdict(list)
    for v in verified:
        if v.task is not None:
            m = v.proposed.match
            by_match[m.teacher, m.student].append(v.proposed.id)
    chosen: set[str] = set()
    for pair, ids in by_match.items():
        rng = stream(run.seed(step, *pair, "same-tasks"))
        picked = rng.choice(len(ids), min(count, len(ids)), replace=False)
        chosen |= {ids[int(i)] for i in picked}
    return chosen


def same_tasks_row(solved: Sequence[Solved]) -> SameTasksRow:
    """Return the solve rates of students and base on the tasks that both attempted."""
    both = [s for s in solved if s.judged and s.base_judged]
    students = fmean(s.rho for s in both) if both else None
    base = fmean(s.base_rho for s in both) if both else None
    difference = students - base if students is not None and base is not None else None
    return SameTasksRow(len(both), students, base, difference)
