"""What a user's own functions and objects are called, and whether a resume has the same again.

What an import of a fresh process finds is recorded as `module:object`, all else, of a script, a
notebook or another function, as `:name`. After that comes what it is made of (see `source_hash`):
`(numbers)#code-values`, with the numbers that it holds in front of two hashes.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any, TypeVar, cast

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
    ready: Callable[[Any], None] = lambda thing: None,
    later_mark: str | None = None,
) -> list[tuple[str, T]]:
    """Return what each of a configuration's names stands for, with the name to record.

    key: that holds the names; option: the parameter by which a program hands over what is no
    import; known: ours, by short name; ready: called with an object before it is looked at;
    later_mark: an object may be as this says, too. Raises ConfigError for a name without an object,
    and for an object, imported or handed over, that is not what the name was recorded of.
    """
    left = list(handed)
    chosen: list[tuple[str, T]] = []
    for thing in left:
        ready(thing)
    for name in names:
        place = without_hash(name)
        if name in known:
            chosen.append((name, known[name]))
            left = [thing for thing in left if thing is not known[name]]
            continue
        if ":" not in name:
            raise ConfigError(f"{key} is {name!r}; {one_of(name, [*known, 'module:object'])}")
        match = next(
            (t for t in left if _is(t, name) or (later_mark and mark_of(t) == later_mark)), None
        )
        if match is not None:
            left = [thing for thing in left if thing is not match]
            chosen.append((name, match))
        elif others := [t for t in left if len(names) == 1 or called(t) == _bare(name)]:
            raise ConfigError(
                f"{option} is {called(others[0])}{mark_of(others[0])}, and the run began with "
                f"{_bare(name)}{name.removeprefix(place)}: {_difference(name, others[0])}; hand "
                f"over what it began with, as in {_call(option, name)}, or start another run"
            )
        elif place.partition(":")[0] in SCRIPT:
            raise ConfigError(
                f"{key} names {_bare(name)}, which the program that began the run handed over and "
                f"no import finds; hand it over again, from Python: {_call(option, name)}"
            )
        else:
            thing = load_object(place, key)
            ready(thing)
            mark = mark_of(thing)
            if mark not in (name.removeprefix(place) or mark, later_mark):
                raise ConfigError(
                    f"{key} is {name}, and {place} is now {place}{mark}: "
                    f"{_difference(name, thing)}; put it back as it was, or start another run, "
                    f"with {key}={place}"
                )
            chosen.append((name if mark == later_mark else place + mark, thing))
    if left:
        raise ConfigError(
            f"{option} holds {', '.join(map(_place, left))}, and {key} of this run names "
            f"{', '.join(map(without_hash, names))}; leave it out, or start another run"
        )
    return chosen


def _is(thing: Any, name: str) -> bool:
    """Return whether a thing is what a name was recorded of; without hashes, what it is called."""
    place = without_hash(name)
    if place != name:
        return name.removeprefix(place) == mark_of(thing)
    return _bare(name) in (called(thing), type(thing).__name__) or place == _place(thing)


def _bare(name: str) -> str:
    return without_hash(name).partition(":")[2]


def _call(option: str, name: str) -> str:
    """Return the call that hands an object over."""
    bare = _bare(name) if _bare(name).isidentifier() else "..."
    several = option in ("operators", "task_kinds")
    value = f"[{bare}]" if several else bare
    return f'resume("RUN", extensions=Extensions({option}={value}))'


def _difference(name: str, thing: Any) -> str:
    """Say in what a thing is not what a name was recorded of."""
    recorded = name.removeprefix(without_hash(name))
    if not recorded:
        return "it has another name"
    parts = [mark.rpartition("#") for mark in (recorded, mark_of(thing))]
    if len({code.partition("-")[0] for _, _, code in parts}) > 1:
        return "its source is not the same"
    (before, *_), (now, *_) = parts
    if before and now and before != now:
        return f"it held {before} and holds {now}"
    return "what it captures, its defaults, attributes or globals are not the same"


def _place(thing: Any) -> str:
    """Return `module:object` where a fresh process can import it, else `:name`."""
    home = str(getattr(thing, "__module__", ""))
    others = [] if hasattr(thing, "__qualname__") else list(sys.modules.items())
    for name, module in [(home, sys.modules.get(home)), *others]:
        if isinstance(module, ModuleType) and name not in (*SCRIPT, "builtins"):
            for attribute, value in list(vars(module).items()):
                own = name == home or not attribute.startswith("_")
                if value is thing and own and _is_importable(name):
                    return f"{name}:{attribute}"
    qualified = str(getattr(thing, "__qualname__", ""))
    if "." in qualified and "<" not in qualified and home not in SCRIPT and _is_importable(home):
        owner: Any = sys.modules[home]
        for part in qualified.split("."):
            owner = getattr(owner, part, None)
        if owner is thing:
            return f"{home}:{qualified}"
    return f":{called(thing)}"


def _is_importable(name: str) -> bool:
    """Return whether a fresh process finds this module, from the working directory too."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if getattr(module, "__spec__", None) is None:
        return False
    if file is None:
        return name in sys.builtin_module_names
    here = str(Path.cwd())
    paths: Sequence[str] = sys.path if here in sys.path else [*sys.path, here]
    origin = None
    for end, _ in enumerate(parts := name.split("."), start=1):
        spec = _found(".".join(parts[:end]), paths)
        if spec is None:
            return False
        paths, origin = spec.submodule_search_locations or (), spec.origin
    return origin is not None and Path(origin).resolve() == Path(file).resolve()


def _found(name: str, paths: Sequence[str]) -> ModuleSpec | None:
    """Return what the finders of imports say of a module, which stays as it is."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is not None and (spec := find(name, paths)) is not None:
            return cast(ModuleSpec, spec)
    return None
