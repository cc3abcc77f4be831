"""What a rating scheme is: two methods on columns of skills."""

from typing import Protocol

from league.arrays import Floats
from league.rating.rating import Skills


class RatingScheme(Protocol):
    """How results become ratings, and ratings predictions."""

    def update(
        self, teachers: Skills, students: Skills, score: Floats, weight: Floats
    ) -> tuple[Skills, Skills]:
        """Return teachers and students after n matches, one between the i-th of each.

        score: the students' share of the tasks in [0, 1], shape [n]. weight: how many tasks each
        match counts as, >= 0, shape [n]. No member may occur twice, so the n matches have no
        order. Never changes its arguments.
        """
        ...

    def predict(self, teachers: Skills, students: Skills) -> Floats:
        """Return the students' expected share of the tasks, in [0, 1].

        Shapes follow NumPy's broadcasting: columns of [n, 1] and [m] give the [n, m] matrix.
        """
        ...
