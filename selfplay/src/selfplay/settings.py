"""Settings from YAML: presets, files and `--set`, typed by msgspec, refused in words that help.

A preset, or a user's file, may begin with `extends: PRESET`: it then holds only what differs.
Functions and objects of a user's own modules are named `module:object`; a run records them with
hashes of what they are made of (see `identity`).
"""

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import Meta

from selfplay.errors import ConfigError, first_line

Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Temperature = Annotated[float, Meta(ge=0.01, le=100)]
"""Logits over less than the least overflow, or leave one token; over more than the most, none."""
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]

T = TypeVar("T")
_WORDS = {
    " | null`": "` or null",
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "a text",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a section",
}


def preset_names() -> list[str]:
    """Return the names of the presets that come with the package."""
    return list(shipped("presets"))


def preset_text(name: str) -> str:
    """Return a preset's YAML file as it is."""
    texts = shipped("presets")
    if name not in list(texts):  # `extends` of a YAML file may be anything
        raise ConfigError(f"there is no preset or file {name!r}; {one_of(name, list(texts))}")
    return texts[name]


def shipped(folder: Literal["presets", "plans"]) -> dict[str, str]:
    """Return the YAML files that come with the package by name; the first line says what for."""
    paths = {path.name: path for path in (files("selfplay") / folder).iterdir()}
    names = sorted(name.removesuffix(".yaml") for name in paths if name.endswith(".yaml"))
    return {name: paths[f"{name}.yaml"].read_text() for name in names}


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


def override(data: dict[str, Any], text: str) -> None:
    """Apply one `a.b=value` to nested plain values; the value is read as YAML."""
    put(data, *assignment(text))


def assignment(text: str) -> tuple[str, Any]:
    """Return key and value of `a.b=value`. Raises ConfigError for any other text."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {text!r}: expected KEY=VALUE, such as learner.r=16")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {key}: cannot read {value!r} as a value") from error


def put(data: dict[str, Any], key: str, value: object) -> None:
    """Set the value at a dotted key of nested plain values; sections are made where missing."""
    *parents, last = key.split(".")
    place = data
    for name in parents:
        below = place.setdefault(name, {})
        if not isinstance(below, dict):
            raise ConfigError(f"--set {key}: {name} is a value, not a section")
        place = below
    place[last] = value


def read_settings(data: object, kind: type[T], aliases: Mapping[str, str] | None = None) -> T:
    """Build a frozen dataclass, and the sections in it, from plain values such as YAML's.

    aliases: by names that people give to keys, what they mean. Where a list is expected, a single
    value is a list of one, and a text is cut at its commas. Raises ConfigError that names the key,
    what was found and what was expected.
    """
    plain = _Reader(kind, aliases or {}).checked(data, kind, "")
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explained(error, plain)) from error


def one_of(value: object, choices: Sequence[str]) -> str:
    """Return `expected one of ...`, with the one that was meant if one is close."""
    meant = closest(str(value), choices)
    apart = "; " if any("," in choice for choice in choices) else ", "
    return f"expected one of {apart.join(choices)}" + (f"; did you mean {meant}?" if meant else "")


def closest(name: str, names: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the name that was probably meant: one spelt alike, whatever the case, or holding it.

    alike: least ratio of `difflib.SequenceMatcher`, from 0 to 1.
    """
    plain = {known.lower().replace("-", "_"): known for known in names}
    word = name.lower().replace("-", "_")
    meant = get_close_matches(word, plain, 1, alike)
    meant += [known for known in plain if word in known and len(word) > 2]
    return plain[meant[0]] if meant else None


@dataclass(frozen=True)
class _Reader:
    """Checks plain values before msgspec converts them: it would skip unknown keys."""

    whole: Any
    aliases: Mapping[str, str]

    def checked(self, data: object, kind: Any, key: str) -> object:
        """Refuse unknown keys and numbers that are not finite; read 1e-4, a text in YAML."""
        section = next((part for part in _parts(kind) if is_dataclass(part)), None)
        if section is not None and isinstance(data, Mapping):
            return self._section(data, section, key)
        if get_origin(kind) is Mapping and isinstance(data, Mapping):
            inner = get_args(kind)[1]
            return {name: self.checked(v, inner, f"{key}.{name}") for name, v in data.items()}
        if _item(kind) is not None and data is not None:
            return self._list(data, kind, key)
        choices = [c for p in _parts(kind) if get_origin(p) is Literal for c in get_args(p)]
        if choices and data not in choices:
            raise ConfigError(f"{key} is {data!r}; {one_of(data, choices)}")
        if isinstance(data, str) and float in _parts(kind):
            with suppress(ValueError):
                data = float(data)
        if isinstance(data, float) and not math.isfinite(data):
            raise ConfigError(f"{key} is {data}; expected a finite number")
        return data

    def _list(self, data: object, kind: Any, key: str) -> object:
        """Read a list: a single value is a list of one, and a text is cut at its commas."""
        if isinstance(data, str) and "," in data:
            with suppress(yaml.YAMLError):
                data = yaml.safe_load(f"[{data}]")
        if type(data) in _parts(kind):
            return data
        values = data if isinstance(data, list | tuple) else [data]
        names = [f"{key}[{i}]" for i in range(len(values))] if len(values) > 1 else [key]
        item = _item(kind)
        return [self.checked(v, item, name) for v, name in zip(values, names, strict=False)]

    def _section(self, data: Mapping[Any, object], section: Any, key: str) -> object:
        before, hints = f"{key}." if key else "", get_type_hints(section)
        for name, value in data.items():
            if name not in hints:
                raise self._unknown(before, str(name), value, section)
        return {n: self.checked(value, hints[n], f"{before}{n}") for n, value in data.items()}

    def _unknown(self, before: str, name: str, value: object, section: Any) -> ConfigError:
        """Name an unknown key and the one that was meant, looked for by its last name."""
        names = [name]
        while isinstance(value, Mapping) and value:
            inner, value = next(iter(value.items()))
            names.append(str(inner))
        hints = get_type_hints(self.whole).items()
        sections = {n: p for n, hint in hints for p in _parts(hint) if is_dataclass(p)}
        places = [*((f"{n}.", p) for n, p in sections.items()), ("", self.whole)]
        # Of sections with the same key the first counts.
        keys = {f.name: f"{at}{f.name}" for at, kind in reversed(places) for f in fields(kind)}
        own = {field.name: f"{before}{field.name}" for field in fields(section)}
        keys = {n: key for n, key in (keys | own).items() if n not in sections}
        known = keys | {n: key for n, key in self.aliases.items() if n not in own}
        meant = closest(names[-1], known, 0.8) or closest(names[-1], keys)
        meant = known[meant] if meant else closest(name, [*sections, *own], 0.75)
        hint = f"did you mean {meant}?" if meant else f"known: {', '.join(own)}"
        return ConfigError(f"unknown key {before}{'.'.join(names)}; {hint}")


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union; a type that is none by itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _item(kind: Any) -> Any:
    """Return the type of the items of a list of any length; None for all else."""
    lists = (get_args(part) for part in _parts(kind) if get_origin(part) is tuple)
    return next((items[0] for items in lists if items[-1] is Ellipsis), None)


def _explained(error: msgspec.ValidationError, data: Any) -> str:
    """Say which key was refused, what it holds and what was expected."""
    problem, _, place = str(error).rpartition(" - at ")
    path = place.strip("`").removeprefix("$").removeprefix(".")
    if not place or isinstance(error.__cause__, ValueError):
        # A section's own check, in its own words.
        return f"{path}.{problem}" if path else problem or str(error)
    if problem.startswith("Object missing required field"):
        name = problem.split("`")[1]
        return f"{path}.{name}".lstrip(".") + " is missing"
    known, _, _ = path.partition("[...]")  # msgspec does not say which value of a mapping
    for step in re.findall(r"\w+", known):
        data = data[int(step) if step.isdigit() else step]
    expected, _, _ = problem.partition(", got ")
    for word, plain in _WORDS.items():
        expected = expected.replace(word, plain)
    return f"{path or 'the configuration'} is {data!r}; {expected[:1].lower()}{expected[1:]}"


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
    except (Exception, SystemExit) as error:  # the user's module may raise what it likes
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
