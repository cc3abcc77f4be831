"""Releases and date windows of LiveCodeBench, and the problems whose tests are known to be wrong.

Releases grow by contest dates, though not strictly: later ones also add a few older problems. A
release taken from a larger file by dates is therefore near the official one, and not the same to
the row; say release, window and count together.
"""

from collections.abc import Iterable
from datetime import datetime

from evals.contest.problem import ContestProblem
from evals.errors import EvalsError

RELEASES: dict[str, tuple[str, int]] = {
    "release_v1": ("2024-03-02", 400),
    "release_v2": ("2024-05-25", 511),
    "release_v3": ("2024-08-04", 612),
    "release_v4": ("2024-09-28T23:59:59", 713),
    "release_v5": ("2025-01-31", 880),
    "release_v6": ("2025-04-30", 1055),
}
"""Last contest date, and number of problems in the official file."""

ERRATA: dict[str, str] = {
    **dict.fromkeys(
        [
            "abc311_c",
            "abc326_d",
            "abc327_b",
            "abc333_e",
            "abc343_e",
            "abc362_c",
            "abc343_a",
            "arc185_c",
            "find-words-containing-character",
            "find-the-peaks",
            "generate-binary-strings-without-adjacent-zeros",
        ],
        "several outputs are right, and the tests know one",
    ),
    **dict.fromkeys(("abc337_e", "abc355_e"), "interactive: nothing can pass"),
    **dict.fromkeys(
        ("abc350_c", "apply-operations-to-make-string-empty", "most-frequent-ids", "arc189_a"),
        "a test is wrong",
    ),
}
"""By question id, or title on LeetCode (LiveCodeBench, ERRATA.md). They count like all others, as
in published results, and are to be named beside the result."""


def erratum(problem: ContestProblem) -> str | None:
    """What is wrong with the tests of a problem, if anything is known."""
    return ERRATA.get(problem.question_id) or ERRATA.get(problem.title)


def window(
    problems: Iterable[ContestProblem],
    *,
    release: str | None = None,
    start: str | None = None,
    end: str | None = None,
) -> list[ContestProblem]:
    """Problems of a release and of contest dates from `start` to `end`, both inclusive.

    Dates are YYYY-MM-DD and mean midnight, so contests later on the day `end` are left out, as
    LiveCodeBench does. Raises EvalsError.
    """
    first = _date(start) if start is not None else datetime.min
    last = _date(end) if end is not None else datetime.max
    if release is not None:
        if release not in RELEASES:
            names = ", ".join(RELEASES)
            raise EvalsError(f"unknown release {release!r}; expected one of {names}")
        last = min(last, _date(RELEASES[release][0]))
    return [
        problem
        for problem in problems
        if first <= problem.contest_date.replace(tzinfo=None) <= last
    ]


def _date(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise EvalsError(f"found the date {text!r}; expected YYYY-MM-DD") from None
