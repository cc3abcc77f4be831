"""Five whole numbers, checked, and what they are worth."""

import pytest

from league import LeagueError, Outcome
from league.state import teacher_reward


def test_an_invalid_task_is_won_by_the_student():
    outcome = Outcome(tasks=8, valid=4, attempts=16, solved=4, unsolved=2)
    assert outcome.student_score == pytest.approx((4 + 4 * 0.25) / 8)
    assert outcome.counted == 8


def test_nothing_valid_is_a_legal_loss_of_the_teacher():
    outcome = Outcome(8, 0, 0, 0, 0)
    assert outcome.student_score == 1.0


def test_valid_tasks_without_an_attempt_do_not_count():
    assert Outcome(8, 6, 0, 0, 0).counted == 2
    assert Outcome(0, 0, 0, 0, 0).counted == 0


def test_teacher_reward_adds_up_the_papers_cases():
    # One invalid (-1), one unsolved (0), two solved at 1/4 and 3/4 (0.75 + 0.25).
    assert teacher_reward(Outcome(4, 3, 12, 4, 1)) == pytest.approx(-1 + 0 + 0.75 + 0.25)


@pytest.mark.parametrize(
    "numbers",
    [
        (4, 5, 0, 0, 0),
        (4, 4, 8, 9, 0),
        (4, 4, 8, 4, 5),
        (-1, 0, 0, 0, 0),
        (4, 0, 8, 0, 0),
        (4, 4, 0, 0, 2),
        (4, 4, 8, 0, 3),
        (4, 4, 8, 1, 4),
        (4, 4, 8, 1.0, 2),
        (True, 0, 0, 0, 0),
    ],
)
def test_contradictions_are_refused(numbers):
    with pytest.raises(LeagueError):
        Outcome(*numbers)
