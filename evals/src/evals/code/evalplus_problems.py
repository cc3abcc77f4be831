"""The problems of HumanEval+ and MBPP+: a function to write, inputs, and the right outputs.

JSON has neither tuples nor sets nor complex numbers, so the arguments of some MBPP+ tasks are
converted to the types that the functions take, by task number (v0.2.0).

Outputs are right by evalplus' rules. For each input: equal under `==`, or accepted by the task's
oracle. Else, if the task has a tolerance, of the same type and length, with numbers within rtol
1e-7 and atol. A task without a tolerance gets 1e-6 from its first expected output that is a float
or a sequence of floats, also for all later inputs. Outputs are compared as data, without methods of
the program. Tasks with several right outputs, or outputs that are no data, have rules of their own:
an oracle, comparison as sets (`SET_TASKS`), or only whether there is a result (`NOT_NONE_TASKS`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from code_verifier import LiteralError, Value, read_value
from evals.errors import EvalsError

HUMANEVAL = "humaneval_plus"
Arguments = tuple[Any, ...]
_TEXTS = ("task_id", "prompt", "entry_point", "canonical_solution")
_LISTS = ("base_input", "plus_input")


@dataclass(frozen=True, eq=False)
class FunctionProblem:
    """base_input, plus_input: arguments of each call, as Python values. The data has no expected
    outputs: `prompt + canonical_solution` computes them."""

    benchmark: str
    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    base_input: tuple[Arguments, ...]
    plus_input: tuple[Arguments, ...]
    atol: float

    @property
    def reference(self) -> str:
        """Return the program that computes the expected outputs."""
        return self.prompt + self.canonical_solution

    @property
    def compares_sets(self) -> bool:
        return self.benchmark != HUMANEVAL and self.entry_point in SET_TASKS


def read_problem(row: Mapping[str, Any], benchmark: str, number: int = 1) -> FunctionProblem:
    """Return the problem of a published row. number: of the row, from 1. Raises EvalsError."""
    place, names = f"row {number}", (*_TEXTS, *_LISTS, "atol")
    if missing := [name for name in names if name not in row]:
        raise EvalsError(f"{place} lacks {', '.join(missing)}")
    for name, kind in (*((name, str) for name in _TEXTS), ("atol", int | float)):
        if not isinstance(row[name], kind):
            raise EvalsError(f"{place}: {name} cannot be {row[name]!r:.80}")
    fields: dict[str, Any] = {name: row[name] for name in _TEXTS}
    for name in _LISTS:  # Mbpp/793 has an empty object for no inputs
        calls = row[name] or []
        if not isinstance(calls, list) or not all(isinstance(call, list) for call in calls):
            raise EvalsError(f"{place}: {name} is not a list of lists of arguments")
        try:
            fields[name] = tuple(_arguments(row["task_id"], call) for call in calls)
        except (TypeError, ValueError, AttributeError) as error:
            raise EvalsError(f"{place}: inputs do not fit {row['task_id']}: {error}") from None
    return FunctionProblem(benchmark, **fields, atol=float(row["atol"]))


_Shape = Callable[[Any], Any] | None
"""How an argument is converted, if it is."""


def _deep_tuple(value: Any) -> Any:
    return tuple(map(_deep_tuple, value)) if isinstance(value, list) else value


def _list_of_tuples(value: Any) -> list[tuple[Any, ...]]:
    return [tuple(item) for item in value]


def _tasks(numbers: str, *shapes: _Shape, default: _Shape = None) -> dict[str, tuple[Any, ...]]:
    return dict.fromkeys((f"Mbpp/{number}" for number in numbers.split()), (shapes, default))


_SHAPES: dict[str, tuple[tuple[_Shape, ...], _Shape]] = {
    **_tasks(
        "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809",
        default=tuple,
    ),
    **_tasks("63 64 70 94 120 237 272 299 400 409 417 438 473 614 780", default=_list_of_tuples),
    **_tasks("75 413 444 753", _list_of_tuples),
    **_tasks("106 750", None, tuple),
    # An empty set is an empty dict.
    **_tasks("115", lambda value: [set(x) if x and isinstance(x, list) else {} for x in value]),
    **_tasks("124", float, complex),
    **_tasks("250 307 405 446 617 720 763 808", tuple),
    **_tasks("252", complex),
    **_tasks("278", lambda value: tuple(tuple(x) if isinstance(x, list) else x for x in value)),
    **_tasks("259 401 445 580 615 791", default=_deep_tuple),
    **_tasks("722", lambda value: {key: tuple(item) for key, item in value.items()}),
}


def _arguments(task_id: str, arguments: list[Any]) -> Arguments:
    """The arguments of one call. Raises TypeError or ValueError where they do not fit the task."""
    shapes, default = _SHAPES.get(task_id, ((), None))
    padded = zip((*shapes, *[default] * (len(arguments) - len(shapes))), arguments, strict=False)
    return tuple(shape(item) if shape else item for shape, item in padded)


WHOLE_CHARS = 1 << 20
"""Outputs with longer texts are not read: they must be equal."""
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


def first_wrong(
    problem: FunctionProblem,
    inputs: Sequence[Arguments],
    expected: Sequence[Value],
    returned: Sequence[Value],
) -> int | None:
    """Return the place of the first value that is not the expected one, or None."""
    atol = problem.atol
    calls = zip(inputs, expected, returned, strict=False)
    for place, (arguments, target, value) in enumerate(calls):
        if atol == 0 and target.floats:
            atol = _LEAST_ATOL
        with suppress(*_UNREADABLE):  # such a value is wrong
            if _is_right(problem, arguments, target, value, atol):
                continue
        return place
    return None


def _is_right(
    problem: FunctionProblem, arguments: Arguments, target: Value, returned: Value, atol: float
) -> bool:
    name = problem.entry_point
    equal = target.digest == returned.digest != ""  # under Python's `==`
    if problem.benchmark == HUMANEVAL:
        if name == ROOT_TASK:
            return _is_root(arguments, _values(target, returned)[1], problem.atol)
    elif name in NOT_NONE_TASKS:
        equal = _is_present(target, returned)
    elif name in SET_TASKS and not equal:
        expected, output = map(set, _values(target, returned))
        equal = expected == output
    elif name in _ACCEPTED and not equal:
        # A value that is no data equals nothing.
        value = _values(target, returned)[1] if returned.chars >= 0 else float("nan")
        equal = _ACCEPTED[name](arguments, value, problem.atol)
    return equal or (atol != 0 and _is_close(target, returned, atol))


def _values(target: Value, returned: Value) -> tuple[Any, Any]:
    """Both as Python values. Raises ValueError for a value that is no data, or too long."""
    one, other, size = target.data, returned.data, min(target.chars, returned.chars)
    if size < 0 or one is None or other is None or len(other) > WHOLE_CHARS:
        raise ValueError("no data")
    return read_value(one), read_value(other)


def _is_present(target: Value, returned: Value) -> bool:
    """Only None and not None are distinguished: a match object is as good as True."""
    is_false = returned.type_name == "bool" and returned.data == "false"  # not numpy's
    present = returned.type_name != "NoneType" and not is_false
    return present == (target.type_name != "NoneType")


def _is_close(target: Value, returned: Value, atol: float) -> bool:
    """Whether values of one type and shape are close; numpy would broadcast other shapes."""
    import numpy as np

    if target.type_name != returned.type_name or target.type_name == "str":
        return False
    expected, output = _values(target, returned)
    if type(expected) is not type(output) or np.shape(expected) != np.shape(output):
        return False
    with np.errstate(all="ignore"):
        return bool(np.allclose(output, expected, rtol=_RTOL, atol=atol))


def _is_root(arguments: Arguments, out: Any, atol: float) -> bool:
    """HumanEval/32: a zero of the polynomial with these coefficients, lowest first."""
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
