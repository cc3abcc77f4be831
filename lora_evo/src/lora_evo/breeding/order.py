"""A checked order for a child: operator, parents that fit together, parameters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lora_evo.errors import LoraEvoError, checked_count, is_number
from lora_evo.files.adapter import SlotSource
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.linalg.distance import check_same_modules
from lora_evo.operators.catalogue import OPERATORS
from lora_evo.operators.gauge import checked_gauge
from lora_evo.operators.guard import guarded
from lora_evo.operators.lookup import check_names, find_operator, operator_named
from lora_evo.operators.operator import Operator, Request
from lora_evo.operators.plugins import plugin_behind

RESIZE = "resize"
"""The operator of a child that is its parent at another rank."""


@dataclass(frozen=True)
class Order:
    """Which operator with which settings; complete once `checked_order` has filled defaults in."""

    operator: str
    seed: int
    strength: float | None
    weights: tuple[float, ...] | None
    parameters: Mapping[str, Any]
    given: Operator | None = field(default=None, repr=False, compare=False)
    """The operator itself where it was ordered as an object, not by name."""


def checked_order(
    kind: str,
    operator: str | Operator,
    seed: int,
    strength: float | None,
    weights: Sequence[float] | None,
    parameters: Mapping[str, Any],
    parents: int,
) -> Order:
    """Fill in defaults; refuse unknown names and numbers that mean nothing."""
    found = find_operator(operator, kind)
    checked_count("seed", seed, 0)
    check_names(found, parameters)
    if found.default_strength is None and strength is not None:
        raise LoraEvoError(f"{found.name} takes no strength; leave it out")
    if strength is None:
        strength = found.default_strength
    elif not is_number(strength):
        raise LoraEvoError(f"strength is {strength!r}; expected a number")
    elif not math.isfinite(strength) or strength < 0:
        raise LoraEvoError(
            f"strength is {strength}; expected a relative change of at least 0, for example 0.15"
        )
    if checked_gauge(parameters.get("gauge", "operator")) == "operator":
        # On record only where it is not the operator's own.
        parameters = {name: value for name, value in parameters.items() if name != "gauge"}
    return Order(
        operator=found.name,
        seed=seed,
        strength=None if strength is None else float(strength),
        weights=None if weights is None else _checked_weights(weights, parents),
        parameters={**found.defaults, **parameters},
        given=operator if isinstance(operator, Operator) else None,
    )


def resize_order(rank: int, alpha: float | None, seed: int) -> Order:
    """An order for the parent itself at another rank; `alpha` None keeps every module's scale."""
    return Order(RESIZE, checked_count("seed", seed, 0), None, None, {"rank": rank, "alpha": alpha})


def request_for(order: Order, parents: Sequence[SlotSource]) -> Request:
    """Join an order and its parents; refuse parents that do not belong together."""
    if operator_of(order).kind == "crossover" and len(parents) < 2:
        raise LoraEvoError(f"{order.operator} crosses at least two parents; got {len(parents)}")
    first = parents[0]
    for number, other in enumerate(parents[1:], start=2):
        _check_same_base(first.config, other.config, number)
        check_same_modules(set(first.paths), set(other.paths))
    return Request(
        paths=tuple(first.paths),
        configs=tuple(parent.config for parent in parents),
        seed=order.seed,
        strength=order.strength,
        weights=order.weights,
        parameters=order.parameters,
    )


def operator_of(order: Order) -> Operator:
    """The operator to run for an order; one that is not built in runs behind a guard."""
    found = order.given or operator_named(order.operator)
    if OPERATORS.get(found.name) is found:
        return found
    behind = plugin_behind(found)
    return guarded(found, f"{behind.distribution} {behind.version}" if behind else "home-made")


def _checked_weights(weights: Sequence[float], parents: int) -> tuple[float, ...]:
    if len(weights) != parents:
        raise LoraEvoError(f"{len(weights)} weight(s) for {parents} parents; give one for each")
    values = tuple(float(weight) for weight in weights)
    if not all(math.isfinite(value) and value >= 0 for value in values) or not sum(values) > 0:
        raise LoraEvoError(f"weights are {values}; expected numbers of at least 0, not all 0")
    return values


def _check_same_base(first: AdapterConfig, other: AdapterConfig, number: int) -> None:
    for name in ("base_model_name_or_path", "revision"):
        one = getattr(first, name, None) or first.rest.get(name)
        two = getattr(other, name, None) or other.rest.get(name)
        if one and two and one != two:
            raise LoraEvoError(
                f"parent 1 has {name} {one!r}, parent {number} has {two!r}; an update means "
                "nothing on another base: choose parents of one base, or, if both names mean the "
                f"same weights, make {name} in adapter_config.json equal"
            )
