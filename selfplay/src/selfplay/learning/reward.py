"""What a proposal and an answer are worth.

Teachers: PopuLoRA (arXiv 2605.16727), reward by the matched student's solve rate rho. The zero at
rho = 0 keeps impossible tasks unrewarded. Single agent (`--mode azr`): Absolute Zero (arXiv
2505.03335) as its code has it. Students: right and well-formed 1, wrong -0.5, ill-formed -1.
"""

from dataclasses import dataclass

from selfplay.errors import SelfplayError


@dataclass(frozen=True, slots=True)
class StudentRewards:
    """The three values a student's answer can earn."""

    right: float = 1.0
    """Reward of a correct and well-formed answer (scaled by its score for partial credit)."""
    wrong: float = -0.5
    """Reward of a well-formed answer that is not correct."""
    ill_formed: float = -1.0
    """Reward of a text from which no answer can be read."""


def teacher_reward(valid: bool, solve_rate: float) -> float:
    """Return -1 for an invalid task, 0 if nobody solved it (rho = 0), else 1 - rho.

    Valid: it parses, runs and is deterministic. rho is the share of the matched student's attempts
    that solved it, in [0, 1]; it is not looked at when the task is invalid.
    """
    if not valid:
        return -1.0
    rho = _checked_rate(solve_rate)
    return 0.0 if rho == 0.0 else 1.0 - rho


def azr_proposer_reward(valid: bool, solve_rate: float) -> float:
    """Return -1 for an invalid or ill-formed task, -0.5 at rho = 0 or 1, else 1 - rho.

    AZR's equation has 0 where its code has -0.5; this is the code.
    """
    if not valid:
        return -1.0
    rho = _checked_rate(solve_rate)
    return -0.5 if rho in (0.0, 1.0) else 1.0 - rho


def student_reward(well_formed: bool, score: float, values: StudentRewards | None = None) -> float:
    """Return the reward of one answer.

    score in [0, 1] is the verifier's (for code_f the share of hidden examples passed, or 0/1). A
    positive score earns score * `right`; 0 earns `wrong`; an answer that cannot be read earns
    `ill_formed` whatever its score.
    """
    table = values or StudentRewards()
    if not well_formed:
        return table.ill_formed
    if not 0.0 <= score <= 1.0:
        raise SelfplayError(f"score is {score}, expected a number from 0 to 1")
    return table.right * score if score > 0.0 else table.wrong


def _checked_rate(solve_rate: float) -> float:
    if not 0.0 <= solve_rate <= 1.0:
        raise SelfplayError(f"solve rate is {solve_rate}, expected a number from 0 to 1")
    return solve_rate
