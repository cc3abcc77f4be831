"""Settings from nested plain values: typed by msgspec, refused in words that say what to type."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from selfplay.errors import ConfigError

T = TypeVar("T")
_WORDS = {
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "a text",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a section",
    "| `null`": "or null",
}


def read_settings(data: object, kind: type[T]) -> T:
    """Build a frozen dataclass, and the sections in it, from plain values such as YAML's.

    Raises ConfigError that names the key, what was found and what was expected.
    """
    plain = _checked(data, kind, "")
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_told(error, plain, kind)) from error


def one_of(found: object, choices: Sequence[str]) -> str:
    """Return `expected one of ...`, with the one that was meant if one is close."""
    close = get_close_matches(str(found), choices, n=1)
    return f"expected one of {', '.join(choices)}" + (
        f"; did you mean {close[0]}?" if close else ""
    )


def _checked(data: object, kind: Any, path: str) -> object:
    """Refuse unknown keys and numbers that are not finite; read 1e-4, which is a text in YAML."""
    if is_dataclass(kind) and isinstance(data, Mapping):
        hints = get_type_hints(kind)
        known = [f.name for f in fields(kind)]
        for name in data:
            if name not in known:
                close = get_close_matches(str(name), known, n=1)
                hint = f"did you mean {path}{close[0]}?" if close else f"known: {', '.join(known)}"
                raise ConfigError(f"unknown key {path}{name}; {hint}")
        return {name: _checked(v, hints[name], f"{path}{name}.") for name, v in data.items()}
    if isinstance(data, str) and float in (kind, *get_args(kind)):
        with suppress(ValueError):
            data = float(data)
    if isinstance(data, float) and not math.isfinite(data):
        raise ConfigError(f"{path[:-1]} is {data}; expected a finite number")
    return data


def _told(error: msgspec.ValidationError, data: Any, kind: Any) -> str:
    """Say of a refused value where it stands, what it is, and what was expected."""
    what, _, place = str(error).rpartition(" - at ")
    path = place.strip("`").removeprefix("$").removeprefix(".")
    if not place or isinstance(error.__cause__, ValueError):
        # A section's own check, in its own words.
        return f"{path}.{what}" if path else what or str(error)
    if what.startswith("Object missing required field"):
        name = what.split("`")[1]
        return f"{path}.{name}".lstrip(".") + " is missing"
    for step in re.findall(r"\w+", path):
        kind = kind if step.isdigit() else get_type_hints(kind)[step]
        data = data[int(step) if step.isdigit() else step]
    if what.startswith("Invalid enum"):
        choices = [choice for literal in _literals(kind) for choice in get_args(literal)]
        return f"{path} is {data!r}; {one_of(data, choices)}"
    expected, _, _ = what.partition(", got ")
    for word, plain in _WORDS.items():
        expected = expected.replace(word, plain)
    return f"{path or 'the configuration'} is {data!r}; {expected[:1].lower()}{expected[1:]}"


def _literals(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Literal:
        yield kind
    for part in get_args(kind):
        yield from _literals(part)
