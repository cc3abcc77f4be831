"""Whether the values that a program returned are the expected ones, by evalplus' rules.

For each input: equal under `==`, or accepted by the task's oracle. Else, where the task has a
tolerance, the same type, length and numbers within rtol 1e-7 and atol. A task without a tolerance
gets 1e-6 from the first expected output on that is a float or a sequence of floats, and keeps it
for all later inputs. The values arrive as data, so no method of the program's own takes part.

Some tasks are not simply compared, since several outputs are right or the output is no data: an
oracle accepts more than the expected output, the tasks of `SET_TASKS` are compared as sets, those
of `NOT_NONE_TASKS` by whether there is a result at all.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from code_verifier import LiteralError, Value, read_value
from evals.evalplus.problems import HUMANEVAL, Arguments, FunctionProblem

WHOLE_CHARS = 1 << 20
"""Longer texts are not read: such outputs are equal or wrong."""
SET_TASKS = frozenset(
    str.split(
        "similar_elements find_char_long common_in_nested_lists extract_singly larg_nnum "
        "intersection_array find_dissimilar Diff"
    )
)  # MBPP 2 7 111 140 232 249 579 769
NOT_NONE_TASKS = frozenset({"check_str", "text_match_three", "text_starta_endb"})
ROOT_TASK = "find_zero"  # HumanEval/32
_RTOL, _LEAST_ATOL = 1e-7, 1e-6
_UNREADABLE = (LiteralError, ArithmeticError, TypeError, ValueError, AttributeError)
Texts = Callable[[int], tuple[str | None, str | None]]


class NoData(ValueError):
    """A value is no data, or too long to be looked at."""


def compares_sets(problem: FunctionProblem) -> bool:
    """Return whether the order and repetition of the members do not matter."""
    return problem.benchmark != HUMANEVAL and problem.entry_point in SET_TASKS


def first_wrong(
    problem: FunctionProblem,
    inputs: Sequence[Arguments],
    expected: Sequence[Value],
    found: Sequence[Value],
    texts: Texts,
    compat: bool = False,
) -> int | None:
    """Return the place of the first value that is not the expected one, or None.

    texts: the texts of the expected and the found value at a place, for those too long to have
    come along. compat: repeat evalplus 0.3.1, whose rule for HumanEval/32 refuses every answer.
    """
    atol = problem.atol
    for place, (arguments, wanted, value) in enumerate(zip(inputs, expected, found, strict=False)):
        if atol == 0 and wanted.floats:
            atol = _LEAST_ATOL
        pair = _Pair(wanted, value, place, texts)
        try:
            right = _is_right(problem, arguments, pair, atol, compat)
        except _UNREADABLE:
            right = False
        if not right:
            return place
    return None


class _Pair:
    """An expected and a found value, whose texts are read when they are needed."""

    def __init__(self, wanted: Value, found: Value, place: int, texts: Texts) -> None:
        self.wanted, self.found = wanted, found
        self._place, self._texts = place, texts

    def values(self) -> tuple[Any, Any]:
        """Both as Python values. Raises NoData, LiteralError."""
        sides = self.wanted, self.found
        if any(side.chars < 0 for side in sides):
            raise NoData
        texts = self.wanted.text, self.found.text
        if None in texts:
            texts = self._texts(self._place)
        wanted, found = texts
        if wanted is None or found is None or len(found) > WHOLE_CHARS:
            raise NoData
        return read_value(wanted), read_value(found)

    def equal(self) -> bool:
        """Under Python's `==`. Raises as `values`, and what a comparison of numpy's raises."""
        if self.wanted.digest == self.found.digest != "":
            return True
        if not (self.wanted.beyond_literals or self.found.beyond_literals):
            return False
        wanted, found = self.values()
        with np.errstate(all="ignore"):
            return bool(found == wanted)


def _is_right(
    problem: FunctionProblem, arguments: Arguments, pair: _Pair, atol: float, compat: bool
) -> bool:
    name = problem.entry_point
    if problem.benchmark == HUMANEVAL:
        if name == ROOT_TASK:
            return not compat and _is_root(arguments, pair.values()[1], problem.atol)
        equal = pair.equal()
    elif name in NOT_NONE_TASKS:
        equal = _is_present(pair)
    elif name in SET_TASKS:
        equal = pair.equal() or _equal_sets(pair)
    else:
        equal = pair.equal()
        if not equal and name in _ACCEPTED:
            # A value that is no data equals nothing.
            found = pair.values()[1] if pair.found.chars >= 0 else float("nan")
            equal = _ACCEPTED[name](arguments, found, problem.atol)
    return equal or (atol != 0 and _is_close(pair, atol))


def _is_present(pair: _Pair) -> bool:
    """Only None and not None are distinguished: a match object is as good as True."""
    wanted = pair.wanted.type_name != "NoneType"
    if pair.found.type_name == "bool" and pair.found.text in ("True", "False"):  # and not numpy's
        return wanted == (pair.found.text == "True")
    return wanted == (pair.found.type_name != "NoneType")


def _equal_sets(pair: _Pair) -> bool:
    wanted, found = pair.values()
    return set(wanted) == set(found)


def _is_close(pair: _Pair, atol: float) -> bool:
    """Of one type and one shape: an empty list is close to anything that it is spread over."""
    if pair.wanted.type_name != pair.found.type_name or pair.wanted.type_name == "str":
        return False
    wanted, found = pair.values()
    if type(wanted) is not type(found) or np.shape(wanted) != np.shape(found):
        return False
    with np.errstate(all="ignore"):
        return bool(np.allclose(found, wanted, rtol=_RTOL, atol=atol))


def _is_root(arguments: Arguments, out: Any, atol: float) -> bool:
    """HumanEval/32: `out` is a zero of the polynomial with these coefficients, lowest first."""
    (coefficients,) = arguments
    terms = [factor * math.pow(out, power) for power, factor in enumerate(coefficients)]
    return bool(abs(sum(terms)) <= atol)


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


_ACCEPTED: dict[str, Callable[[Arguments, Any, float], bool]] = {
    "are_equivalent": lambda arguments, out, atol: True,
    "sum_div": lambda arguments, out, atol: bool(out == 0),
    "surface_Area": _pyramid,
    "digit_distance_nums": _digit_distance,
}
