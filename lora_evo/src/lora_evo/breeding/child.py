"""Children of adapters in memory: mutated, crossed, or at another rank."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from lora_evo.breeding.growth import birth
from lora_evo.breeding.lineage import Lineage
from lora_evo.breeding.order import Order, checked_order, resize_order
from lora_evo.files.adapter import Adapter, Slot
from lora_evo.operators.operator import Operator


@dataclass(frozen=True, eq=False)
class Child:
    """A new adapter and where it comes from."""

    adapter: Adapter
    lineage: Lineage


def mutate(
    adapter: Adapter,
    operator: str | Operator,
    seed: int,
    strength: float | None = None,
    **parameters: object,
) -> Adapter:
    """A changed copy of an adapter, with its configuration, ranks and dtypes.

    The same adapter, operator, seed and parameters always give the same child; see
    `lora_evo.OPERATORS` for what `strength` and the parameters mean. `operator` is a name, built in
    or a plug-in's, or an `Operator` itself. Raises `LoraEvoError`.
    """
    return mutate_with_report(adapter, operator, seed, strength, **parameters).adapter


def cross(
    parents: Sequence[Adapter],
    operator: str | Operator,
    seed: int,
    weights: Sequence[float] | None = None,
    **parameters: object,
) -> Adapter:
    """A child of two or more adapters, with the first one's configuration, ranks and dtypes.

    Equal parents are allowed here: their child equals them. Raises `LoraEvoError`.
    """
    return cross_with_report(parents, operator, seed, weights, **parameters).adapter


def mutate_with_report(
    adapter: Adapter,
    operator: str | Operator,
    seed: int,
    strength: float | None = None,
    **parameters: object,
) -> Child:
    """As `mutate`; the lineage tells the change and effective rank of every module."""
    order = checked_order("mutation", operator, seed, strength, None, parameters, 1)
    return _breed([adapter], order)


def cross_with_report(
    parents: Sequence[Adapter],
    operator: str | Operator,
    seed: int,
    weights: Sequence[float] | None = None,
    **parameters: object,
) -> Child:
    """As `cross`; the lineage tells the source, change and effective rank of every module."""
    order = checked_order("crossover", operator, seed, None, weights, parameters, len(parents))
    return _breed(list(parents), order)


def resize(adapter: Adapter, rank: int, *, alpha: float | None = None, seed: int = 0) -> Adapter:
    """The adapter at rank `rank`: the nearest update below, the same update above its rank.

    Every module gets this rank. Modules keep their scale unless `alpha` gives a new one; the
    update does not depend on it. `seed` draws the new rows of A. Raises `LoraEvoError`.
    """
    return resize_with_report(adapter, rank, alpha=alpha, seed=seed).adapter


def resize_with_report(
    adapter: Adapter, rank: int, *, alpha: float | None = None, seed: int = 0
) -> Child:
    """As `resize`; the lineage tells what truncation lost in every module."""
    return _breed([adapter], resize_order(rank, alpha, seed))


def _breed(parents: list[Adapter], order: Order) -> Child:
    child = birth(parents, order)
    slots: dict[str, Slot] = {}
    grown = list(child.grow())
    for growth in grown:
        # In memory of its own: factors that no operator touched are the parent's.
        slot, theirs = growth.child.slot, [parent.slots[growth.path] for parent in parents]
        taken = {_memory(factor) for their in theirs for factor in (their.A, their.B)}
        a, b = (
            factor.clone() if _memory(factor) in taken else factor
            for factor in (slot.A.detach(), slot.B.detach())
        )
        slots[growth.path] = replace(slot, A=a, B=b)
    return Child(Adapter(child.config, slots), child.lineage(grown, (0,) * len(parents)))


def _memory(factor: torch.Tensor) -> int:
    return factor.untyped_storage().data_ptr()
