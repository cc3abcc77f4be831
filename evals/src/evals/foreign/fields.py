"""Fields of other harnesses' rows, checked."""

from collections.abc import Collection, Mapping
from typing import Any

from evals.errors import EvalsError
from evals.sources.json_rows import kind

_SHORT = 200


def identifier(row: Mapping[str, Any], name: str, place: str) -> str:
    """A problem's name: a text, or a number read as one."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise EvalsError(f"{place}: {name} is {_found(row, name)}; expected a problem's name")
    return str(value)


def optional_text(row: Mapping[str, Any], name: str, place: str) -> str | None:
    """A text, or None where the field is not there."""
    value = row.get(name)
    if name in row and not isinstance(value, str):
        raise EvalsError(f"{place}: {name} is {_found(row, name)}; expected a text")
    return value


def items(row: Mapping[str, Any], name: str, place: str) -> list[Any] | None:
    """An array, or None where the field is not there."""
    value = row.get(name)
    if name in row and not isinstance(value, list):
        raise EvalsError(f"{place}: {name} is {_found(row, name)}; expected an array")
    return value


def texts(row: Mapping[str, Any], name: str, place: str) -> list[str] | None:
    """An array of texts, or None where the field is not there."""
    value = items(row, name, place)
    for number, part in enumerate(value or ()):
        if not isinstance(part, str):
            raise EvalsError(f"{place}: {name}[{number}] is {kind(part)}; expected a text")
    return value


def cut(row: Mapping[str, Any]) -> bool | None:
    """Whether the token limit ended the response, for rows that say why it ended."""
    if isinstance(row.get("truncated"), bool):
        return bool(row["truncated"])
    reason = row.get("finish_reason")
    return reason == "length" if isinstance(reason, str) else None


def claims(row: Mapping[str, Any], without: Collection[str]) -> dict[str, Any]:
    """The other fields: numbers, truth values, null and short texts."""
    return {
        name: value
        for name, value in row.items()
        if name not in without
        and (value is None or isinstance(value, int | float | str))
        and not (isinstance(value, str) and len(value) > _SHORT)
    }


def _found(row: Mapping[str, Any], name: str) -> str:
    return kind(row[name]) if name in row else "missing"
