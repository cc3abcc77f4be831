"""Scores of one member, and the difference of two, on verdicts by problem."""

from evals import Row
from evals.scores import Verdicts, score_members


def estimate(verdicts: Verdicts, benchmark: str = "", k: int | None = None) -> Row:
    """The score of one member."""
    scores = score_members({"": verdicts}, benchmark, k)
    return scores.row("")


def compare(first: Verdicts, second: Verdicts, k: int | None = None) -> Row:
    """What the first scores above the second."""
    scores = score_members({"first": first, "second": second}, "", k)
    return scores.difference("first", "second")
