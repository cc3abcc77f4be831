"""Functions and objects of a user's own modules, which a configuration names as `module:object`.

What a program hands over, and no import finds again, is named `:object`: a run of it can only be
resumed by a program that hands it over, too.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from selfplay.errors import ConfigError


def load_object(named: str, setting: str) -> Any:
    """Import what `module:object` names, from the working directory too.

    setting: the configuration key that errors name. Raises ConfigError where there is no such
    module or object, or where the module fails.
    """
    module, colon, attribute = named.partition(":")
    if not colon or not attribute:
        raise ConfigError(f"{setting} is {named!r}; expected MODULE:OBJECT, such as mine:REWARD")
    if not module:
        raise ConfigError(
            f"{setting} names {attribute}, which the program that began the run handed over and no "
            "import finds; resume from Python and hand it over again"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = import_module(module)
    except Exception as error:  # the user's module may raise what it likes
        reason = (str(error).splitlines() or [""])[0]
        raise ConfigError(
            f"{setting}: cannot import {module}: {type(error).__name__}: {reason}; expected a "
            f"module in {here} or installed"
        ) from error
    if not hasattr(found, attribute):
        raise ConfigError(f"{setting}: {module} ({found.__file__}) has no {attribute}")
    return getattr(found, attribute)


def name_of(thing: Any, name: str) -> str:
    """Return `module:object` for what `load_object` would find again; `:name` for all else.

    thing: a function or an object that a module holds, its own before any other; name: what it is
    called.
    """
    for module in (getattr(thing, "__module__", ""), *sys.modules):
        if module != "__main__":
            for attribute, value in list(getattr(sys.modules.get(module), "__dict__", {}).items()):
                if value is thing:
                    return f"{module}:{attribute}"
    return f":{name}"
