"""MBPP+ arguments as the functions take them: JSON has neither tuples nor sets nor complex numbers.

Which arguments of which task are meant how is a fact of the data set (MBPP+ v0.2.0), kept here as
one shape per task number. An argument beyond the shapes of a task is left as it is.
"""

from collections.abc import Callable
from typing import Any

Shape = Callable[[Any], Any]


def as_it_is(value: Any) -> Any:
    return value


def deep_tuple(value: Any) -> Any:
    """Every list in it, at any depth, as a tuple."""
    return tuple(map(deep_tuple, value)) if isinstance(value, list) else value


def list_of_tuples(value: Any) -> list[tuple[Any, ...]]:
    return [tuple(item) for item in value]


def tuple_of_tuples(value: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(item) for item in value)


def tuple_with_tuples(value: Any) -> tuple[Any, ...]:
    """Members that are lists become tuples, the others stay."""
    return tuple(tuple(item) if isinstance(item, list) else item for item in value)


def list_of_sets(value: Any) -> list[Any]:
    """An empty member is an empty dict."""
    return [set(item) if isinstance(item, list) and item else {} for item in value]


def dict_of_tuples(value: Any) -> dict[Any, tuple[Any, ...]]:
    return {key: tuple(item) for key, item in value.items()}


def _tasks(numbers: str, *shapes: Shape, rest: Shape = as_it_is) -> dict[int, tuple[Any, ...]]:
    return dict.fromkeys(map(int, numbers.split()), (shapes, rest))


_SHAPES: dict[int, tuple[tuple[Shape, ...], Shape]] = {
    **_tasks(
        "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809",
        rest=tuple,
    ),
    **_tasks("63 64 70 94 120 237 272 299 400 409 417 438 473 614 780", rest=list_of_tuples),
    **_tasks("75 413 444 753", list_of_tuples),
    **_tasks("106 750", as_it_is, tuple),
    **_tasks("115", list_of_sets),
    **_tasks("124", float, complex),
    **_tasks("250 307 405 446 617 720 763 808", tuple),
    **_tasks("252", complex),
    **_tasks("259 401 445", rest=tuple_of_tuples),
    **_tasks("278", tuple_with_tuples),
    **_tasks("580 615 791", rest=deep_tuple),
    **_tasks("722", dict_of_tuples),
}


def python_arguments(task_id: str, arguments: list[Any]) -> tuple[Any, ...]:
    """The arguments of one call. Raises TypeError or ValueError where they do not fit the task."""
    number = task_id.rpartition("/")[2]
    if not number.isdecimal():
        return tuple(arguments)
    shapes, rest = _SHAPES.get(int(number), ((), as_it_is))
    padded = (*shapes, *[rest] * (len(arguments) - len(shapes)))
    return tuple(shape(item) for shape, item in zip(padded, arguments, strict=False))
