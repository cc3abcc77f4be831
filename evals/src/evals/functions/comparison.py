"""Whether the values that a program returned are the expected ones, by evalplus' rules.

For each input: equal under `==`, or accepted by the task's oracle. Else, where the task has a
tolerance, the same type, length and numbers within rtol 1e-7 and atol. A task without a tolerance
gets 1e-6 from the first expected output on that is a float or a sequence of floats, and keeps it
for all later inputs. The values arrive as data (`code_verifier.modules.values`), so no method of
the program's own takes part.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from code_verifier.errors import LiteralError
from code_verifier.modules.foreign import MARKS
from code_verifier.modules.reading import read_value
from code_verifier.modules.reports import Value
from evals.functions import oracles
from evals.functions.problem import Arguments, FunctionProblem

WHOLE_CHARS = 1 << 20
"""Longer texts are not read: such outputs are equal or wrong."""
_RTOL, _LEAST_ATOL = 1e-7, 1e-6
Texts = Callable[[int], tuple[str | None, str | None]]


class NoData(Exception):
    """A value is no data, or too long to be looked at."""


def first_wrong(
    problem: FunctionProblem,
    inputs: Sequence[Arguments],
    expected: Sequence[Value],
    found: Sequence[Value],
    texts: Texts,
    compat: str | None = None,
) -> int | None:
    """Place of the first value that is not the expected one; None when there is none.

    texts: the texts of the expected and the found value at a place, for those too long to have
    come along. compat: "0.3.1" for the published version of evalplus, whose rule for HumanEval/32
    refuses every answer.
    """
    tolerances = Tolerance(problem.atol)
    for place, (arguments, wanted, value) in enumerate(zip(inputs, expected, found, strict=False)):
        atol = tolerances.next(wanted)
        pair = Pair(wanted, value, place, texts)
        try:
            right = _is_right(problem, arguments, pair, problem.atol, atol, compat)
        except (NoData, LiteralError, ArithmeticError, TypeError, ValueError, AttributeError):
            right = False
        if not right:
            return place
    return None


class Tolerance:
    """The absolute tolerance of a run, which the first expected float switches on for good."""

    def __init__(self, atol: float) -> None:
        self.atol = atol

    def next(self, wanted: Value) -> float:
        """The tolerance of the next input."""
        if self.atol == 0 and wanted.floats:
            self.atol = _LEAST_ATOL
        return self.atol


class Pair:
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
        if not any(
            mark in (side.text or "") for side in (self.wanted, self.found) for mark in MARKS
        ):
            return False
        wanted, found = self.values()
        with np.errstate(all="ignore"):
            return bool(found == wanted)


def _is_right(
    problem: FunctionProblem,
    arguments: Arguments,
    pair: Pair,
    own_atol: float,
    atol: float,
    compat: str | None,
) -> bool:
    if oracles.finds_root(problem):
        return compat is None and oracles.is_root(arguments, pair.values()[1], own_atol)
    if oracles.compares_presence(problem):
        equal = _is_present(pair)
    elif oracles.compares_sets(problem):
        equal = pair.equal() or _equal_sets(pair)
    else:
        equal = pair.equal()
        accepted = oracles.also_accepted(problem)
        if not equal and accepted is not None:
            equal = accepted(arguments, _found(pair), own_atol)
    return equal or (atol != 0 and _is_close(pair, atol))


def _found(pair: Pair) -> Any:
    """The found value, or something that equals nothing where it is no data."""
    return pair.values()[1] if pair.found.chars >= 0 else float("nan")


def _is_present(pair: Pair) -> bool:
    wanted = pair.wanted.type_name != "NoneType"
    if pair.found.type_name == "bool" and pair.found.text in ("True", "False"):  # and not numpy's
        return wanted == (pair.found.text == "True")
    return wanted == (pair.found.type_name != "NoneType")


def _equal_sets(pair: Pair) -> bool:
    wanted, found = pair.values()
    return set(wanted) == set(found)


def _is_close(pair: Pair, atol: float) -> bool:
    """Of one type and one shape: an empty list is close to anything that it is spread over."""
    if pair.wanted.type_name != pair.found.type_name or pair.wanted.type_name == "str":
        return False
    wanted, found = pair.values()
    if type(wanted) is not type(found) or np.shape(wanted) != np.shape(found):
        return False
    with np.errstate(all="ignore"):
        return bool(np.allclose(found, wanted, rtol=_RTOL, atol=atol))
