"""What a match is expected to bring: the rating's opinion, blended with the pair's own past."""

from collections.abc import Sequence

import numpy as np

from league.arrays import Floats
from league.rating.rating import Skills
from league.schemes.catalogue import scheme_of
from league.state.member import Member
from league.state.records import Meeting
from league.state.state import State


def expected_scores(state: State, teachers: Sequence[Member], students: Sequence[Member]) -> Floats:
    """Return the students' expected share of the tasks, shape [teachers, students], in [0, 1].

    By ratings p is what the league's scheme predicts, and by default
    Φ((mu_s - mu_t) / sqrt(2 beta² + sigma_s² + sigma_t²)); with n faded tasks of
    history at mean r it becomes (n r + n0 p) / (n + n0), n0 = config.history_tasks, which picks
    up what one number per member cannot say. The share is the solve rate when all tasks are
    valid; an invalid task counts as won by the student.
    """
    config = state.config
    teacher_skills = Skills.of([m.rating for m in teachers])
    column = Skills(teacher_skills.mu[:, None], teacher_skills.sigma[:, None])
    row = Skills.of([m.rating for m in students])
    scores = scheme_of(config).predict(column, row)
    for i, teacher in enumerate(teachers):
        for j, student in enumerate(students):
            meeting = state.meetings.get((teacher.name, student.name))
            if meeting is not None:
                scores[i, j] = _blended(float(scores[i, j]), meeting, config.history_tasks)
    return np.asarray(scores, dtype=np.float64)


def expected_of_pairs(state: State, pairs: Sequence[tuple[Member, Member]]) -> Floats:
    """Return what `expected_scores` says of n (teacher, student) pairs alone, shape [n]."""
    config = state.config
    if not pairs:
        return np.zeros(0)
    teachers, students = (Skills.of([pair[i].rating for pair in pairs]) for i in (0, 1))
    scores = scheme_of(config).predict(teachers, students)
    for i, (teacher, student) in enumerate(pairs):
        meeting = state.meetings.get((teacher.name, student.name))
        if meeting is not None:
            scores[i] = _blended(float(scores[i]), meeting, config.history_tasks)
    return np.asarray(scores, dtype=np.float64)


def _blended(score: float, meeting: Meeting, history_tasks: float) -> float:
    if meeting.past_tasks <= 0.0:
        return score
    return (meeting.past_won + history_tasks * score) / (meeting.past_tasks + history_tasks)
