"""What a user's own functions and objects are called, and whether a resume has the same again.

What an import of a fresh process finds is recorded as `module:object`, all else, of a script, a
notebook or another function, as `:name`. After that comes what it is made of (see `source_hash`):
`(numbers)#code-values`, with the numbers that it holds in front of two hashes.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any, TypeVar

from selfplay.errors import ConfigError
from selfplay.settings import load_object, one_of, without_hash
from selfplay.source_hash import SCRIPT, mark_of

T = TypeVar("T")


def name_of(thing: Any) -> str:
    """Return `module:object` or `:name`, with the hashes of what it is made of."""
    return _place(thing) + mark_of(thing)


def called(thing: Any) -> str:
    """Return what a function or object is called, for people."""
    if isinstance(thing, partial):
        return called(thing.func)
    if isinstance(thing, MethodType):
        owner = thing.__self__
        return f"{getattr(owner, '__name__', type(owner).__name__)}.{thing.__name__}"
    name = getattr(thing, "__name__", None) or getattr(thing, "name", None)
    return re.sub(r"[(#:\s]", "_", name if isinstance(name, str) else type(thing).__name__)


def resolved(
    key: str,
    names: Sequence[str],
    option: str,
    handed: Sequence[T],
    known: Mapping[str, T],
    mark: Callable[[Any], str] = mark_of,
) -> list[tuple[str, T]]:
    """Return what each of a configuration's names stands for, with the name to record.

    key: that holds the names; option: the parameter by which a program hands over what is no
    import; known: ours, by short name; mark: says what an object is made of. Raises ConfigError for
    a name without an object, and for an object, imported or handed over, that is not what the name
    was recorded of.
    """
    left = list(handed)
    chosen: list[tuple[str, T]] = []
    for name in names:
        if name in known:
            chosen.append((name, known[name]))
        elif ":" not in name:
            raise ConfigError(f"{key} is {name!r}; {one_of(name, [*known, 'module:object'])}")
        elif same := [t for t in left if _is(t, name, mark)]:
            chosen.append((name, same[0]))
        else:
            others = [t for t in left if len(names) == 1 or called(t) == _bare(name)]
            if others:
                now, recorded = mark(others[0]), name.removeprefix(without_hash(name))
                raise ConfigError(
                    f"{option} is {called(others[0])}{now}, and the run began with {_bare(name)}"
                    f"{recorded}: {_difference(name, now)}; hand over what it began with, as in "
                    f"{_call(option, name)}, or start another run"
                )
            chosen.append(_imported(key, name, option, mark))
        left = [thing for thing in left if thing is not chosen[-1][1]]
    if left:
        raise ConfigError(
            f"{option} holds {', '.join(map(_place, left))}, and {key} of this run names "
            f"{', '.join(map(without_hash, names))}; leave it out, or start another run"
        )
    return chosen


def _is(thing: Any, name: str, mark: Callable[[Any], str]) -> bool:
    """Return whether a thing is what a name was recorded of; without hashes, what it is called."""
    place = without_hash(name)
    if place != name:
        return name.removeprefix(place) == mark(thing)
    return _bare(name) in (called(thing), type(thing).__name__) or place == _place(thing)


def _imported(key: str, name: str, option: str, mark: Callable[[Any], str]) -> tuple[str, Any]:
    """Import what a name was recorded of; return it after the name to record."""
    place = without_hash(name)
    if place.partition(":")[0] in SCRIPT:
        raise ConfigError(
            f"{key} names {_bare(name)}, which the program that began the run handed over and "
            f"no import finds; hand it over again, from Python: {_call(option, name)}"
        )
    thing = load_object(place, key)
    now = mark(thing)
    if now != (name.removeprefix(place) or now):
        raise ConfigError(
            f"{key} is {name}, and {place} is now {place}{now}: {_difference(name, now)}; put it "
            f"back as it was, or start another run, with {key}={place}"
        )
    return place + now, thing


def _bare(name: str) -> str:
    return without_hash(name).partition(":")[2]


def _call(option: str, name: str) -> str:
    value = _bare(name) if _bare(name).isidentifier() else "..."
    value = f"[{value}]" if option in ("operators", "task_kinds") else value
    return f'resume("RUN", extensions=Extensions({option}={value}))'


def _difference(name: str, mark: str) -> str:
    """Say in what a thing with this mark is not what a name was recorded of."""
    recorded = name.removeprefix(without_hash(name))
    if not recorded:
        return "it has another name"
    (before, _, old), (now, _, new) = recorded.rpartition("#"), mark.rpartition("#")
    if old.partition("-")[0] != new.partition("-")[0]:
        return "its source is not the same"
    if before and now and before != now:
        return f"it held {before} and holds {now}"
    return "what it captures, its defaults, attributes or globals are not the same"


def _place(thing: Any) -> str:
    """Return `module:object` where a fresh process can import it, else `:name`."""
    home = str(getattr(thing, "__module__", ""))
    places = [(home, str(getattr(thing, "__qualname__", "")))]
    modules = [home] if places[0][1] else [home, *sys.modules]  # any may hold an object
    for name in modules:
        members = list(getattr(sys.modules.get(name), "__dict__", {}).items())
        public = [attribute for attribute, value in members if value is thing]
        places += [(name, a) for a in public if name == home or not a.startswith("_")]
    for name, path in places[1:] + places[:1]:
        owner: Any = sys.modules.get(name)
        if path and _is_importable(name):
            for part in path.split("."):
                owner = getattr(owner, part, None)
            if owner is thing:
                return f"{name}:{path}"
    return f":{called(thing)}"


def _is_importable(name: str) -> bool:
    """Return whether a fresh process finds a module that is here, from the working directory too.

    `importlib.util.find_spec` would find what is imported already.
    """
    package, here = name.partition(".")[0], getattr(sys.modules.get(name), "__spec__", None)
    if name in (*SCRIPT, "builtins") or here is None:
        return False
    paths = [*sys.path, str(Path.cwd())]
    specs = (finder.find_spec(package, paths) for finder in sys.meta_path)
    spec = next((spec for spec in specs if spec is not None), None)
    return spec is not None and spec.origin == getattr(sys.modules[package].__spec__, "origin", "")
