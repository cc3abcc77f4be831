"""Operators: their class, the setup that they get, and the table of built-in ones.

torch is not imported until an operator is used.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import cleandoc
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from lora_evo.errors import LoraEvoError, is_number
from lora_evo.peft.config import AdapterConfig
from lora_evo.random_streams import keyed_stream

if TYPE_CHECKING:  # they bring torch or numpy, which a list of operators does without
    import numpy as np

    from lora_evo.operators.slot_child import SlotChild
    from lora_evo.peft.adapter import Slot

Recipe = Callable[[str, Sequence["Slot"]], "SlotChild"]
"""Returns the child's module for a path and the parents' slots there, which it must not change.
Modules may come in any order."""
_UNITS = {"module": r".+", "block": r".+(?=\.)|.+", "layer": r"(?:.*?\.)?\d+(?=\.|$)|.+"}
"""The beginning of a module's path that names its unit, by level."""
LEVELS = tuple(_UNITS)
"""Units of an operator: a module, all modules of a block, or all modules of a layer."""
VERBS = {"mutation": "mutate", "crossover": "cross", "merge": "merge"}
"""The command, and function, of each kind of operator."""


@dataclass(frozen=True)
class Setup:
    """All inputs of an operator except the weights."""

    paths: tuple[str, ...]
    configs: tuple[AdapterConfig, ...]
    config: AdapterConfig
    """The child's: the first parent's, except for the rank and modules of a merge."""
    seed: int
    strength: float | None
    weights: tuple[float, ...] | None
    parameters: Mapping[str, Any]
    """A value for every name in the operator's `defaults`; `prepare` has to check them."""
    alive: Callable[[str], bool] = lambda path: True
    """Returns whether the first parent's update of a module is not 0."""

    def noise(self, *key: str) -> "np.random.Generator":
        """Return a random stream for the seed and a key, such as a module's path and a name."""
        return keyed_stream(self.seed, *key)

    def uniform(self, *key: str) -> float:
        """Return one number from [0, 1) for the seed and a key."""
        return float(self.noise(*key).random())

    def change(self) -> float:
        """Return the strength, the target of |D' - D| / |D|: from 0 (a copy) to below 1."""
        if self.strength is None or not 0.0 <= self.strength < 1.0:
            raise LoraEvoError(
                f"strength is {self.strength}; expected a change from 0 (a copy) to below 1"
            )
        return self.strength

    def number(self, name: str, low: float, high: float) -> float:
        """Return the parameter `name` as a number from `low` to `high`."""
        value = self.parameters[name]
        if not is_number(value) or not low <= value <= high:
            raise LoraEvoError(f"{name} is {value!r}; expected a number from {low:g} to {high:g}")
        return float(value)

    def fitness(self) -> tuple[float, ...] | None:
        """Return the parameter `fitness`, a number per parent (higher is better), or None."""
        values, parents = self.parameters["fitness"], len(self.configs)
        if values is None:
            return None
        numbers = isinstance(values, Sequence) and all(
            is_number(value) and math.isfinite(value) for value in values
        )
        if not numbers or len(values) != parents:
            raise LoraEvoError(
                f"fitness is {values!r}; expected {parents} finite numbers, such as [0.7, 0.4]"
            )
        return tuple(float(value) for value in values)

    def shares(self) -> tuple[float, ...]:
        """Return the weights, or equal ones, divided by their sum."""
        weights = self.weights or (1.0,) * len(self.configs)
        return tuple(weight / sum(weights) for weight in weights)

    def units(self) -> Mapping[str, str]:
        """Return the unit of every module under the parameter `level`; see `LEVELS`."""
        level = self.parameters["level"]
        if level not in LEVELS:
            raise LoraEvoError(
                f"level is {level!r}{did_you_mean(level, LEVELS)}; expected one of "
                f"{', '.join(LEVELS)}"
            )
        matches = ((path, re.match(_UNITS[level], path)) for path in self.paths)
        return {path: match[0] for path, match in matches if match}

    def check_equal_ranks(self, advice: str) -> None:
        """Raise `LoraEvoError` for parents of unequal rank; advice: the end of the message."""
        first, *configs = self.configs
        for path in self.paths:
            for number, config in enumerate(configs, start=2):
                if config.rank(path) != first.rank(path):
                    raise LoraEvoError(
                        f"{path} has rank {first.rank(path)} in parent 1 and {config.rank(path)} "
                        f"in parent {number}; {advice}"
                    )


@dataclass(frozen=True)
class Operator:
    """An evolutionary operator.

    - preserves: the properties that a child keeps, in words.
    - prepare: checks the setup and returns the recipe; or its name as `module:function`.
    - defaults: the parameters and their default values, which JSON can store.
    - default_strength: None for operators without a strength.
    """

    name: str
    kind: Literal["mutation", "crossover", "merge"]
    summary: str
    preserves: str
    prepare: Callable[[Setup], Recipe] | str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    default_strength: float | None = None

    def recipe(self, setup: Setup) -> Recipe:
        return self._function()(setup)

    def check_parameters(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.defaults:
                raise LoraEvoError(
                    f"{self.name} has no parameter {name!r}{did_you_mean(name, self.defaults)}; "
                    f"it has: {', '.join(self.defaults) or 'none'}"
                )

    @property
    def description(self) -> str:
        """Formula, source and factorization: the docstring of `prepare`."""
        return cleandoc(self._function().__doc__ or "")

    def _function(self) -> Callable[[Setup], Recipe]:
        return resolve_name(self.prepare) if isinstance(self.prepare, str) else self.prepare


def _built_in(kind: Literal["mutation", "crossover", "merge"], name: str, **more: Any) -> Operator:
    return Operator(name, kind, prepare=f"lora_evo.operators.{kind}s:{name}", **more)


OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        _built_in("mutation", "svd_structured", default_strength=0.15, defaults={"rotation": 1.0},
            summary="turn both singular bases by exact rotations, rescale the singular values",
            preserves="column and row space, rank, factorization, norm balance of A and B"),
        _built_in("mutation", "subspace_rotation", default_strength=0.15,
            summary="turn both singular bases within their spaces by exact rotations",
            preserves="singular values, column and row space, factorization, norm balance"),
        _built_in("mutation", "component_masking", default_strength=0.15, defaults={"tail": 1.0},
            summary="mask random singular components, mostly small ones, and initialise them anew",
            preserves="the other components, |A|, number of live ranks; not the factorization"),
        _built_in("mutation", "full_gaussian", default_strength=0.15,
            summary="add Gaussian noise, in proportion to each factor's size, to both factors",
            preserves="rank, relative sizes of A and B; depends on the factorization"),
        _built_in("mutation", "layer_selective_gaussian",
            default_strength=0.15, defaults={"share": 1 / 3, "level": "module"},
            summary="add Gaussian noise to both factors of a random share of the modules",
            preserves="all other modules exactly; as full_gaussian on the chosen ones"),
        _built_in("crossover", "slot_swap", defaults={"level": "module"},
            summary="take the factors of every module (or layer) whole from one of the parents",
            preserves="every slot, rank, optimiser moments (they move with the slot)"),
        _built_in("crossover", "svd_subspace",
            summary="take every singular triplet of the update from one of the parents",
            preserves="singular triplets of the parents (before truncation), rank"),
        _built_in("crossover", "dare", defaults={"p": 0.3},
            summary="the first parent plus some components of its difference to the others",
            preserves="what the parents agree on, rank, the mean (over seeds)"),
        _built_in("crossover", "extrapolate",
            defaults={"fitness": None, "eta": None, "eta_low": 1.1, "eta_high": 1.3},
            summary="from the worse parent's update through the better one's and beyond",
            preserves="what the parents agree on, rank"),
        _built_in("crossover", "average",
            summary="the weighted mean of the updates, truncated to the first parent's rank",
            preserves="what the parents agree on, rank"),
        _built_in("crossover", "factor_dare", defaults={"p": 0.7},
            summary="baseline: entries of A and B dropped and rescaled apart; prefer dare",
            preserves="rank"),
        _built_in("crossover", "factor_extrapolate",
            defaults={"fitness": None, "eta": None, "eta_low": 1.0, "eta_high": 1.5},
            summary="baseline: A and B extrapolated apart (quadratic); prefer extrapolate",
            preserves="rank, equal factors"),
        _built_in("merge", "merge_svd", defaults={"rank": None},
            summary="the weighted sum of the updates, cut to the rank by its SVD",
            preserves="all that the rank can hold of the sum"),
        _built_in("merge", "merge_linear", defaults={"rank": None},
            summary="the same as merge_svd; PEFT's adds A and B apart",
            preserves="all that the rank can hold of the sum"),
        _built_in("merge", "merge_cat",
            summary="the factors of all parents side by side, in the sum of their ranks",
            preserves="the weighted sum, exactly"),
        _built_in("merge", "merge_ties", defaults={"density": 0.5, "rank": None},
            summary="large entries of the updates where they agree with the elected sign",
            preserves="equal parents, at density 1"),
        _built_in("merge", "merge_dare_linear", defaults={"density": 0.5, "rank": None},
            summary="the weighted sum of a random share of the entries, made up for",
            preserves="the weighted sum (over seeds, before it is cut to the rank)"),
        _built_in("merge", "merge_dare_ties", defaults={"density": 0.5, "rank": None},
            summary="a random share of the entries, of which the elected sign's are added up",
            preserves="signs that the parents agree on"),
    )
}  # fmt: skip


def find_operator(name_or_operator: str | Operator, kind: str | None = None) -> Operator:
    """Return the operator of this name, or this object. Raises `LoraEvoError` for another kind.

    A merge may be named by its method: `merge_ties` or `ties`.
    """
    name = name_or_operator.name if isinstance(name_or_operator, Operator) else name_or_operator
    names = names_of(kind) if kind else list(OPERATORS)
    if kind == "merge" and name in names:
        name = name_or_operator = f"merge_{name}"
    operator = OPERATORS.get(name) if isinstance(name_or_operator, str) else name_or_operator
    if operator is None:
        raise LoraEvoError(
            f"there is no {kind or 'operator'} {name!r}{did_you_mean(name, names)}; "
            f"known: {', '.join(names)}"
        )
    if OPERATORS.get(name, operator) is not operator:
        raise LoraEvoError(
            f"the operator has the name {name!r} of a built-in one; give it another name"
        )
    if kind not in (None, operator.kind):
        raise LoraEvoError(
            f"{name} is a {operator.kind}, not a {kind}; use `{VERBS[operator.kind]}`"
        )
    return operator


def names_of(kind: str) -> list[str]:
    """Return the names of the operators of a kind; of merges, their methods."""
    names = [name for name, operator in OPERATORS.items() if operator.kind == kind]
    return [name.removeprefix("merge_") for name in names]


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return a hint at the closest known name, or ''."""
    close = difflib.get_close_matches(str(name), list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
