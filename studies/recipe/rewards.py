"""Rewards of the study's candidates that selfplay does not name."""

from studies.collapse.niches import depth_of, family_of

from selfplay import TEACHER_REWARDS, OverShare, Proposed, TeacherReward


def family_and_depth(p: Proposed) -> str:
    """Return the class of a task of the world of niches, such as `a3`."""
    program = p.task.program if p.task else ""
    return f"{family_of(program)}{depth_of(program)}"


REGRET_OVER_SHARE = TeacherReward(
    OverShare(TEACHER_REWARDS["regret"], class_of=family_and_depth), needs=("rival", "step")
)
"""Regret over the teacher's own recent share of the task's family and depth."""
