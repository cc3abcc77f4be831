"""Settings from YAML: presets, files and `--set`, typed by msgspec, refused in words that help.

A preset, or a user's file, may begin with `extends: PRESET`: it then holds only what differs.
Functions and objects of a user's own modules are named `module:object`; a run records them with
hashes of what they are made of (see `identity`).
"""

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import Meta

from selfplay.errors import ConfigError, first_line

Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]

T = TypeVar("T")
_PRESETS = files("selfplay") / "presets"
_WORDS = {
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "a text",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a section",
    "| `null`": "or null",
}


def preset_names() -> list[str]:
    """Return the names of the presets that come with the package."""
    return sorted(file.name.removesuffix(".yaml") for file in _PRESETS.iterdir())


def preset_text(name: str) -> str:
    """Return a preset's YAML file as it is."""
    if name not in preset_names():
        raise ConfigError(f"there is no preset or file {name!r}; {one_of(name, preset_names())}")
    return _PRESETS.joinpath(f"{name}.yaml").read_text()


def read_preset(name: str) -> dict[str, Any]:
    """Return a preset, or a YAML file, as nested plain values."""
    if name not in preset_names() and Path(name).is_file():
        return extended(read_yaml(Path(name)))
    return extended(yaml.safe_load(preset_text(name)))


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a mapping. Raises ConfigError for any other."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path} as YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path} is not a mapping of configuration keys")
    return data


def extended(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration merged over the preset that its `extends` names, if any."""
    own = dict(data)
    name = own.pop("extends", None)
    return own if name is None else merged(extended(yaml.safe_load(preset_text(name))), own)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, nested sections too; where both have a key, the value above counts."""
    both = {**below, **above}
    for name, section in above.items():
        if isinstance(section, Mapping) and isinstance(below.get(name), Mapping):
            both[name] = merged(below[name], section)
    return both


def override(data: dict[str, Any], assignment: str) -> None:
    """Apply one `a.b=value` to nested plain values; the value is read as YAML."""
    path, equals, text = assignment.partition("=")
    if not equals or not path:
        raise ConfigError(f"--set {assignment!r}: expected KEY=VALUE, such as learner.r=16")
    *parents, last = path.split(".")
    place = data
    for name in parents:
        below = place.setdefault(name, {})
        if not isinstance(below, dict):
            raise ConfigError(f"--set {path}: {name} is a value, not a section")
        place = below
    try:
        place[last] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {path}: cannot read {text!r} as a value") from error


def read_settings(data: object, kind: type[T]) -> T:
    """Build a frozen dataclass, and the sections in it, from plain values such as YAML's.

    Raises ConfigError that names the key, what was found and what was expected.
    """
    plain = _checked(data, kind, "", kind)
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explained(error, plain, kind)) from error


def one_of(found: object, choices: Sequence[str]) -> str:
    """Return `expected one of ...`, with the one that was meant if one is close."""
    meant = _closest(str(found), choices)
    return f"expected one of {', '.join(choices)}" + (f"; did you mean {meant}?" if meant else "")


def _closest(name: str, names: Sequence[str]) -> str | None:
    """Return the name that was probably meant: one whose words have these initials (`lr` is
    `learning_rate`), that begins with it, holds it, or is spelt like it, in this order."""
    tests: tuple[Callable[[str], bool], ...] = (
        lambda known: "".join(word[:1] for word in known.split("_")) == name,
        lambda known: known.startswith(name),
        lambda known: name in known,
    )
    for test in tests if len(name) > 1 else ():
        if found := [known for known in names if test(known)]:
            return found[0]
    return next(iter(get_close_matches(name, names, n=1)), None)


def _unknown(key: str, value: object, section: Any, whole: Any) -> ConfigError:
    """Name an unknown key, and the one that was meant: of its section, else of all settings."""
    path, dot, name = key.rpartition(".")
    hints, inside = get_type_hints(whole), isinstance(value, Mapping) and value
    known = [f.name for f in fields(section) if not inside or is_dataclass(hints.get(f.name))]
    meant = _closest(name, known)
    if meant is None:
        if inside and isinstance(value, Mapping):
            name = str(next(iter(value)))
            key = f"{key}.{name}"
        sections = [("", whole), *((f"{n}.", t) for n, t in hints.items() if is_dataclass(t))]
        places = {f.name: f"{at}{f.name}" for at, t in reversed(sections) for f in fields(t)}
        found = _closest(name, list(places))
        path, dot, meant = "", "", found and places[found]
    hint = f"did you mean {path}{dot}{meant}?" if meant else f"known: {', '.join(known)}"
    return ConfigError(f"unknown key {key}; {hint}")


def _checked(data: object, kind: Any, path: str, whole: Any) -> object:
    """Refuse unknown keys and numbers that are not finite; read 1e-4, which is a text in YAML."""
    if is_dataclass(kind) and isinstance(data, Mapping):
        hints = get_type_hints(kind)
        for name, value in data.items():
            if name not in (f.name for f in fields(kind)):
                raise _unknown(f"{path}{name}", value, kind, whole)
        return {
            name: _checked(value, hints[name], f"{path}{name}.", whole)
            for name, value in data.items()
        }
    if isinstance(data, str) and float in (kind, *get_args(kind)):
        with suppress(ValueError):
            data = float(data)
    if isinstance(data, float) and not math.isfinite(data):
        raise ConfigError(f"{path[:-1]} is {data}; expected a finite number")
    return data


def _explained(error: msgspec.ValidationError, data: Any, kind: Any) -> str:
    """Say which key was refused, what it holds and what was expected."""
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


def without_hash(named: str) -> str:
    """Return `module:object` of a name that also says what it was recorded of."""
    return re.split(r"[(#]", named, maxsplit=1)[0]


def load_object(named: str, setting: str) -> Any:
    """Import what `module:object` names, from the working directory too.

    setting: the configuration key that errors name; what a name says of hashes is not compared.
    Raises ConfigError where there is no such module or object, or where the module fails.
    """
    module, colon, path = without_hash(named).partition(":")
    if not colon or not path or not module:
        raise ConfigError(f"{setting} is {named!r}; expected MODULE:OBJECT, such as mine:REWARD")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        thing: Any = import_module(module)
    except Exception as error:  # the user's module may raise what it likes
        raise ConfigError(
            f"{setting}: cannot import {module}: {type(error).__name__}: {first_line(error)}; "
            f"expected a module in {here} or installed"
        ) from error
    place = f"{module} ({thing.__file__})" if getattr(thing, "__file__", None) else module
    for attribute in path.split("."):
        if not hasattr(thing, attribute):
            raise ConfigError(f"{setting}: {place} has no {path}")
        thing = getattr(thing, attribute)
    return thing
