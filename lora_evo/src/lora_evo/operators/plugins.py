"""Operators that other distributions bring, through the entry-point group `lora_evo.operators`.

A distribution offers an operator by an entry point that is called like it and names an `Operator`,
or a function without arguments that returns one:

    [project.entry-points."lora_evo.operators"]
    rank_one_noise = "my_package.rank_one_noise:RANK_ONE_NOISE"

Entry points are looked for when a name is not a built-in one or when all operators are listed, and
loaded once in a process. One that cannot be used is kept with the reason, and harms no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from lora_evo.errors import LoraEvoError
from lora_evo.operators.catalogue import OPERATORS
from lora_evo.operators.operator import Operator

GROUP = "lora_evo.operators"


@dataclass(frozen=True)
class Plugin:
    """An operator offered by a distribution."""

    name: str
    distribution: str
    version: str
    operator: Operator | None
    """None where it cannot be used."""
    problem: str | None
    """Why it cannot be used."""

    def usable(self) -> Operator:
        """The operator, or `LoraEvoError` with the distribution and the cause."""
        if self.operator is None:
            raise LoraEvoError(
                f"the operator {self.name!r} of the plug-in {self.distribution} {self.version} "
                f"cannot be used: {self.problem}"
            )
        return self.operator


def plugin(name: str) -> Plugin | None:
    """The plug-in operator called `name`, loaded now if it was not; None when there is none."""
    return _loaded(name) if name in _offers() else None


def plugins() -> tuple[Plugin, ...]:
    """All plug-in operators, usable or not, sorted by name."""
    return tuple(_loaded(name) for name in sorted(_offers()))


def known_operators() -> Mapping[str, Operator]:
    """The built-in operators and all usable plug-in ones, by name."""
    found = {known.name: known.operator for known in plugins() if known.operator is not None}
    return {**OPERATORS, **found}


def plugin_behind(operator: Operator) -> Plugin | None:
    """The plug-in that brought exactly this object; None for built-in and home-made ones."""
    if OPERATORS.get(operator.name) is operator:
        return None
    known = plugin(operator.name)
    return known if known is not None and known.operator is operator else None


@cache
def _offers() -> Mapping[str, tuple[EntryPoint, ...]]:
    offers: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        offers[entry.name] = (*offers.get(entry.name, ()), entry)
    return offers


@cache
def _loaded(name: str) -> Plugin:
    offers = sorted(_offers()[name], key=_origin)
    operator, problem = None, None
    if name in OPERATORS:
        problem = "a built-in operator has this name; call the entry point and its operator else"
    elif len(offers) > 1:
        others = ", ".join(" ".join(_origin(entry)) for entry in offers[1:])
        problem = f"{others} offers an operator of this name too; uninstall one of them"
    else:
        try:
            operator = _operator(offers[0])
        except LoraEvoError as error:
            problem = str(error)
        except (Exception, SystemExit) as error:
            # Whatever the code of a plug-in does on import must not take the built-in ones along.
            problem = " ".join(f"{type(error).__name__}: {error}".split())
    return Plugin(name, *_origin(offers[0]), operator, problem)


def _operator(entry: EntryPoint) -> Operator:
    found = entry.load()
    if not isinstance(found, Operator) and callable(found):
        found = found()
    if not isinstance(found, Operator):
        raise LoraEvoError(
            f"{entry.value} is a {type(found).__name__}; expected a lora_evo.Operator, or a "
            "function without arguments that returns one"
        )
    if found.name != entry.name:
        raise LoraEvoError(
            f"its entry point is called {entry.name!r}, but {entry.value} is an operator called "
            f"{found.name!r}; give both one name"
        )
    return found


def _origin(entry: EntryPoint) -> tuple[str, str]:
    """Name and version of the distribution of an entry point; damaged metadata may lack them."""
    try:
        name = entry.dist.metadata["Name"] if entry.dist else None
        version = entry.dist.metadata["Version"] if entry.dist else None
    except Exception:
        name = version = None
    return name or "a distribution without a name", version or "?"
