"""Rows as columns, which pandas, polars and Arrow all read without a requirement of ours."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Columns: TypeAlias = dict[str, list[Any]]
"""A table: equally long lists by name, as `pandas.DataFrame` and `polars.DataFrame` take it."""


def columns(rows: Iterable[Mapping[str, Any]], names: Sequence[str] = ()) -> Columns:
    """Return the columns of a table.

    A mapping in a row becomes columns of its own, `outer/inner`, all None in rows that have nothing
    there; a tuple becomes a list. names:
    columns that come first, and exist without a row too. Where a row has nothing, there is None.
    Numbers of a column are all whole or all floats, since polars wants one type.
    """
    plain = [dict(flattened(row)) for row in rows]
    order = dict.fromkeys((*names, *(name for row in plain for name in row)))
    outer = {name[:end] for name in order for end, mark in enumerate(name) if mark == "/"}
    return {
        name: _one_type([row.get(name) for row in plain]) for name in order if name not in outer
    }


def flattened(row: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that is no mapping, as `outer/inner`; a tuple as a list."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{above}{name}/")
        else:
            yield f"{above}{name}", list(value) if isinstance(value, tuple) else value


def _one_type(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values}
    if {int, float} <= kinds <= {int, float, type(None)}:
        return [None if value is None else float(value) for value in values]
    return values
