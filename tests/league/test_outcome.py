"""Five whole numbers, checked, and what they are worth."""

import pytest

from league import LeagueError, Outcome
from league.events import teacher_reward


@pytest.mark.parametrize(
    ("numbers", "counted", "score"),
    [
        ((8, 4, 16, 4, 2), 8, (4 + 4 * 0.25) / 8),  # the student wins an invalid task
        ((8, 0, 0, 0, 0), 8, 1.0),
        ((8, 6, 0, 0, 0), 2, 1.0),  # valid tasks without an attempt do not count
        ((0, 0, 0, 0, 0), 0, 0.5),
    ],
)
def test_what_a_batch_counts_and_who_won_it(numbers, counted, score):
    outcome = Outcome(*numbers)
    assert (outcome.counted, outcome.student_score) == (counted, pytest.approx(score))


def test_teacher_reward_adds_up_the_papers_cases():
    # One invalid (-1), one unsolved (0), two solved at 1/4 and 3/4 (0.75 + 0.25).
    assert teacher_reward(Outcome(4, 3, 12, 4, 1)) == pytest.approx(-1 + 0 + 0.75 + 0.25)


@pytest.mark.parametrize(
    "numbers",
    [
        (4, 5, 0, 0, 0),
        (4, 4, 8, 9, 0),
        (-1, 0, 0, 0, 0),
        (4, 0, 8, 0, 0),
        (4, 4, 8, 0, 3),
        (4, 4, 8, 1, 4),
        (4, 4, 8, 1.0, 2),
        (True, 0, 0, 0, 0),
    ],
)
def test_contradictions_are_refused(numbers):
    with pytest.raises(LeagueError):
        Outcome(*numbers)
