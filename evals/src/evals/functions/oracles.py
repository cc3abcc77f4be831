"""Tasks whose answers are not simply compared: several outputs are right, or the output is no data.

The rules are those of evalplus. An oracle accepts more than the expected output; the tasks of
`SET_TASKS` are compared as sets, those of `NOT_NONE_TASKS` by whether there is a result at all.
"""

import math
from collections.abc import Callable
from typing import Any

from evals.functions.problem import HUMANEVAL, Arguments, FunctionProblem

Oracle = Callable[[Arguments, Any, float], bool]

SET_TASKS = frozenset(
    [
        "similar_elements",
        "find_char_long",
        "common_in_nested_lists",
        "extract_singly",
        "larg_nnum",
        "intersection_array",
        "find_dissimilar",
        "Diff",
    ]
)  # MBPP 2 7 111 140 232 249 579 769
NOT_NONE_TASKS = frozenset({"check_str", "text_match_three", "text_starta_endb"})
ROOT_TASK = "find_zero"


def is_root(arguments: Arguments, out: Any, atol: float) -> bool:
    """HumanEval/32: `out` is a zero of the polynomial with these coefficients, lowest first."""
    (coefficients,) = arguments
    terms = [factor * math.pow(out, power) for power, factor in enumerate(coefficients)]
    return bool(abs(sum(terms)) <= atol)


def compares_sets(problem: FunctionProblem) -> bool:
    """Whether the order and repetition of the members do not matter."""
    return problem.benchmark != HUMANEVAL and problem.entry_point in SET_TASKS


def compares_presence(problem: FunctionProblem) -> bool:
    """Whether only None and not None are told apart: a match object is as good as True."""
    return problem.benchmark != HUMANEVAL and problem.entry_point in NOT_NONE_TASKS


def finds_root(problem: FunctionProblem) -> bool:
    """Whether any root of the polynomial will do."""
    return problem.benchmark == HUMANEVAL and problem.entry_point == ROOT_TASK


def also_accepted(problem: FunctionProblem) -> Oracle | None:
    """What the task accepts beside its expected output."""
    if problem.benchmark == HUMANEVAL:
        return None
    return _ACCEPTED.get(problem.entry_point)


def _zero(arguments: Arguments, out: Any, atol: float) -> bool:
    return bool(out == 0)


def _pyramid(arguments: Arguments, out: Any, atol: float) -> bool:
    """MBPP/581 with the height measured to the apex, and not along the slant."""
    edge, height = arguments
    slant = math.sqrt((edge / 2) ** 2 + height**2)
    return bool(abs(out - round(edge**2 + 2 * edge * slant)) <= atol)


def _digit_distance(arguments: Arguments, out: Any, atol: float) -> bool:
    """MBPP/558 with the shorter number padded by zeros."""
    first, second = map(str, arguments)
    width = max(len(first), len(second))
    pairs = zip(first.zfill(width), second.zfill(width), strict=True)
    return bool(out == sum(abs(int(one) - int(other)) for one, other in pairs))


_ACCEPTED: dict[str, Oracle] = {
    "are_equivalent": lambda arguments, out, atol: True,
    "sum_div": _zero,
    "surface_Area": _pyramid,
    "digit_distance_nums": _digit_distance,
}
