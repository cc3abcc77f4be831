"""Names of a user's own functions and objects, and the objects found by their names.

An object that an import finds is recorded as `module:object`. Any other, such as one of a script, a
notebook or another function, is recorded as `:name`, and a resume has to be given it again.
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
"""Modules that differ from process to process, or hold no objects of a user."""


def called(thing: Any) -> str:
    """Return the name of a function or object as people know it."""
    while isinstance(thing, partial):
        thing = thing.func
    names = (getattr(thing, key, None) for key in ("__qualname__", "__name__", "name"))
    name = next((name for name in names if isinstance(name, str)), type(thing).__name__)
    return name.rpartition("<locals>.")[2]


def name_of(thing: Any) -> str:
    """Return `module:object` if a module holds the object, else `:name`."""
    home, path = str(getattr(thing, "__module__", "")), getattr(thing, "__qualname__", "")
    value: Any = sys.modules.get(home)
    for part in path.split("."):
        value = getattr(value, part, None)
    if value is thing and home not in _NOT_IMPORTED:
        return f"{home}:{path}"
    for module in (home, *sys.modules):  # another module may hold an object than its class
        for name, value in list(getattr(sys.modules.get(module), "__dict__", {}).items()):
            if value is thing and module not in _NOT_IMPORTED and not name.startswith("_"):
                return f"{module}:{name}"
    return f":{called(thing)}"


def find_objects(
    key: str, names: Sequence[str], option: str, handed: Sequence[T], built_ins: Mapping[str, T]
) -> list[T]:
    """Return the object of each name: a built-in one, one of `handed`, or an imported one.

    key: the setting that holds the names. handed: objects that a program passed as `option`.
    built_ins: by short name. Raises ConfigError for a name without an object, and for an object of
    `handed` without a name.
    """
    unnamed, objects = list(handed), []
    for name in names:
        bare = name.partition(":")[2]
        matches = [thing for thing in unnamed if name == name_of(thing) or bare == called(thing)]
        if name in built_ins or matches:
            thing = built_ins[name] if name in built_ins else matches[0]
        elif name.startswith(":"):
            raise ConfigError(
                f"{key} names {bare}, an object of the program that began the run, which no import "
                f"finds; pass it again, from Python: resume(RUN, "
                f"extensions=Extensions({option}=...))"
            )
        elif ":" in name:
            thing = load_object(name, key)
        else:
            raise ConfigError(f"{key} is {name!r}; {one_of(name, [*built_ins, 'module:object'])}")
        objects.append(thing)
        unnamed = [other for other in unnamed if other is not thing]
    if unnamed:
        raise ConfigError(
            f"{option} holds {', '.join(map(name_of, unnamed))}, and {key} of this run names "
            f"{', '.join(names)}; leave it out, or start another run"
        )
    return objects


def load_object(named: str, setting: str) -> Any:
    """Import the object that `module:object` names; the working directory is searched, too.

    setting: the configuration key that errors name. Raises ConfigError if the module or the object
    is missing, or if the module raises.
    """
    module, colon, path = named.partition(":")
    if not colon or not path or not module:
        raise ConfigError(f"{setting} is {named!r}; expected MODULE:OBJECT, such as mine:REWARD")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        thing: Any = import_module(module)
    except (Exception, SystemExit) as error:  # the user's module may raise anything
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
