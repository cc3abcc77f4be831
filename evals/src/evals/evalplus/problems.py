"""The problems of HumanEval+ and MBPP+: a function to write, and inputs to try it on.

JSON has neither tuples nor sets nor complex numbers, so the arguments of some MBPP+ tasks become
what the functions take: a fact of the data set (v0.2.0), kept here as shapes per task number.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evals.errors import EvalsError

HUMANEVAL, MBPP = "humaneval_plus", "mbpp_plus"
Arguments = tuple[Any, ...]
_TEXTS = ("task_id", "prompt", "entry_point", "canonical_solution")
_LISTS = ("base_input", "plus_input")


@dataclass(frozen=True)
class FunctionProblem:
    """base_input, plus_input: arguments of each call, as Python values.

    Expected outputs are not part of the data: they are what `prompt + canonical_solution` gives.
    """

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
        """Return the program that defines the expected outputs."""
        return self.prompt + self.canonical_solution


def read_problems(rows: Iterable[Mapping[str, Any]], benchmark: str) -> list[FunctionProblem]:
    """Return the problems of the published rows, in their order. Raises EvalsError.

    benchmark: `humaneval_plus` or `mbpp_plus`.
    """
    problems: dict[str, FunctionProblem] = {}
    for number, row in enumerate(rows, 1):
        problem = _problem(row, benchmark, f"row {number}")
        if problem.task_id in problems:
            raise EvalsError(f"row {number} repeats the task {problem.task_id!r}; expected it once")
        problems[problem.task_id] = problem
    return list(problems.values())


def _problem(row: Mapping[str, Any], benchmark: str, place: str) -> FunctionProblem:
    missing = [name for name in (*_TEXTS, *_LISTS, "atol") if name not in row]
    if missing:
        hint = ""
        if "test" in row or "test_list" in row:
            hint = "; this is the OriginFmt file, take the one without that word in its name"
        raise EvalsError(f"{place} lacks {', '.join(missing)}{hint}")
    for name in _TEXTS:
        if not isinstance(row[name], str):
            raise EvalsError(f"{place}: {name} is {row[name]!r}; expected text")
    for name in _LISTS:
        inputs = row[name] or []  # Mbpp/793 has an empty object for no inputs
        if not isinstance(inputs, list) or not all(isinstance(item, list) for item in inputs):
            raise EvalsError(f"{place}: {name} is not a list of lists of arguments")
    if not isinstance(row["atol"], int | float):
        raise EvalsError(f"{place}: atol is {row['atol']!r}; expected a number")
    texts = {name: str(row[name]) for name in _TEXTS}
    try:
        base, plus = (_arguments(row["task_id"], row[name] or [], benchmark) for name in _LISTS)
    except (TypeError, ValueError, AttributeError) as error:
        raise EvalsError(f"{place}: inputs do not fit {row['task_id']}: {error}") from None
    atol = float(row["atol"])
    return FunctionProblem(benchmark, **texts, base_input=base, plus_input=plus, atol=atol)


def _arguments(task_id: str, inputs: list[list[Any]], benchmark: str) -> tuple[Arguments, ...]:
    if benchmark == MBPP:
        return tuple(_mbpp_arguments(task_id, item) for item in inputs)
    return tuple(map(tuple, inputs))


_Shape = Callable[[Any], Any]


def _as_it_is(value: Any) -> Any:
    return value


def _deep_tuple(value: Any) -> Any:
    """Every list in it, at any depth, as a tuple."""
    return tuple(map(_deep_tuple, value)) if isinstance(value, list) else value


def _list_of_tuples(value: Any) -> list[tuple[Any, ...]]:
    return [tuple(item) for item in value]


def _tuple_of_tuples(value: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(item) for item in value)


def _tuple_with_tuples(value: Any) -> tuple[Any, ...]:
    """Members that are lists become tuples, the others stay."""
    return tuple(tuple(item) if isinstance(item, list) else item for item in value)


def _list_of_sets(value: Any) -> list[Any]:
    """An empty member is an empty dict."""
    return [set(item) if isinstance(item, list) and item else {} for item in value]


def _dict_of_tuples(value: Any) -> dict[Any, tuple[Any, ...]]:
    return {key: tuple(item) for key, item in value.items()}


def _tasks(numbers: str, *shapes: _Shape, rest: _Shape = _as_it_is) -> dict[int, tuple[Any, ...]]:
    return dict.fromkeys(map(int, numbers.split()), (shapes, rest))


_SHAPES: dict[int, tuple[tuple[_Shape, ...], _Shape]] = {
    **_tasks(
        "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809",
        rest=tuple,
    ),
    **_tasks("63 64 70 94 120 237 272 299 400 409 417 438 473 614 780", rest=_list_of_tuples),
    **_tasks("75 413 444 753", _list_of_tuples),
    **_tasks("106 750", _as_it_is, tuple),
    **_tasks("115", _list_of_sets),
    **_tasks("124", float, complex),
    **_tasks("250 307 405 446 617 720 763 808", tuple),
    **_tasks("252", complex),
    **_tasks("259 401 445", rest=_tuple_of_tuples),
    **_tasks("278", _tuple_with_tuples),
    **_tasks("580 615 791", rest=_deep_tuple),
    **_tasks("722", _dict_of_tuples),
}


def _mbpp_arguments(task_id: str, arguments: list[Any]) -> tuple[Any, ...]:
    """The arguments of one call. Raises TypeError or ValueError where they do not fit the task."""
    number = task_id.rpartition("/")[2]
    if not number.isdecimal():
        return tuple(arguments)
    shapes, rest = _SHAPES.get(int(number), ((), _as_it_is))
    padded = (*shapes, *[rest] * (len(arguments) - len(shapes)))
    return tuple(shape(item) for shape, item in zip(padded, arguments, strict=False))
