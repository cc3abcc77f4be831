"""Functions and objects of a user's own: what they are called, and found again by that.

What an import finds is recorded as `module:object`, all else, of a script, a notebook or another
function, as `:name`: a resume is to be handed it again.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from selfplay.errors import ConfigError, first_line
from selfplay.settings import one_of

T = TypeVar("T")
_NOT_IMPORTED = ("__main__", "__mp_main__", "builtins")
"""Modules that are another one in every process, or none of a user's."""


def called(thing: Any) -> str:
    """Return what a function or object is called, for people."""
    while isinstance(thing, partial):
        thing = thing.func
    names = (getattr(thing, key, None) for key in ("__qualname__", "__name__", "name"))
    name = next((name for name in names if isinstance(name, str)), type(thing).__name__)
    return name.rpartition("<locals>.")[2]


def name_of(thing: Any) -> str:
    """Return `module:object` where a module holds it, else `:name`."""
    home, path = str(getattr(thing, "__module__", "")), getattr(thing, "__qualname__", "")
    found: Any = sys.modules.get(home)
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is thing and home not in _NOT_IMPORTED:
        return f"{home}:{path}"
    for module in (home, *sys.modules):  # an object may lie elsewhere than its class
        for name, value in list(getattr(sys.modules.get(module), "__dict__", {}).items()):
            if value is thing and module not in _NOT_IMPORTED and not name.startswith("_"):
                return f"{module}:{name}"
    return f":{called(thing)}"


def resolved(
    key: str, names: Sequence[str], option: str, handed: Sequence[T], known: Mapping[str, T]
) -> list[T]:
    """Return what each of a configuration's names stands for: ours, handed over, or imported.

    key: that holds the names; option: the parameter by which a program hands over what is no
    import; known: ours, by short name. Raises ConfigError for a name without an object, and for an
    object without a name.
    """
    left, chosen = list(handed), []
    for name in names:
        bare = name.partition(":")[2]
        same = [thing for thing in left if name == name_of(thing) or bare == called(thing)]
        if name in known:
            thing = known[name]
        elif same:
            thing = same[0]
        elif name.startswith(":"):
            raise ConfigError(
                f"{key} names {bare}, which the program that began the run handed over and no "
                f"import finds; hand it over again, from Python: resume(RUN, "
                f"extensions=Extensions({option}=...))"
            )
        elif ":" in name:
            thing = load_object(name, key)
        else:
            raise ConfigError(f"{key} is {name!r}; {one_of(name, [*known, 'module:object'])}")
        chosen.append(thing)
        left = [other for other in left if other is not thing]
    if left:
        raise ConfigError(
            f"{option} holds {', '.join(map(name_of, left))}, and {key} of this run names "
            f"{', '.join(names)}; leave it out, or start another run"
        )
    return chosen


def load_object(named: str, setting: str) -> Any:
    """Import what `module:object` names, from the working directory too.

    setting: the configuration key that errors name.
    Raises ConfigError where there is no such module or object, or where the module fails.
    """
    module, colon, path = named.partition(":")
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
