"""Children made module by module, from parents in memory or on disk alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch

from lora_evo.breeding.lineage import Lineage, ModuleTrace, describe
from lora_evo.breeding.order import Order, Parent, checked_order, operator_of, request_for
from lora_evo.checks import checked_count
from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter, Slot, check_finite
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.files.content_hash import combine, slot_digest
from lora_evo.files.layout import check_same_layouts
from lora_evo.linalg.distance import check_same_ends
from lora_evo.linalg.thin import one_thread
from lora_evo.operators.gauge import checked_gauge, in_gauge
from lora_evo.operators.operator import Operator, Recipe, SlotChild


@dataclass(frozen=True, eq=False)
class Child:
    """A new adapter and where it comes from."""

    adapter: Adapter
    lineage: Lineage


@dataclass(frozen=True, eq=False)
class Growth:
    """One finished module of a child, with the digests of everything that went into it."""

    path: str
    child: SlotChild
    digest: str
    parent_digests: tuple[str, ...]


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


def _breed(parents: list[Adapter], order: Order) -> Child:
    slots: dict[str, Slot] = {}
    grown: list[Growth] = []
    for growth in grow(parents, order):
        slots[growth.path] = _own(growth.child.slot, [p.slots[growth.path] for p in parents])
        grown.append(growth)
    lineage = trace(parents, order, grown, generations=(0,) * len(parents))
    return Child(Adapter(parents[0].config, slots), lineage)


def grow(parents: Sequence[Parent], order: Order, threads: int = 1) -> Iterator[Growth]:
    """Yield the modules of a child in sorted order, holding a few modules in memory at a time.

    Every module is computed by one thread with torch's own threading off, so the child's bytes do
    not depend on `threads`.
    """
    checked_count("threads", threads)
    request = request_for(order, parents)
    recipe = _with_gauge(operator_of(order).prepare(request), order)
    with one_thread():
        if threads == 1:
            for path in request.paths:
                yield _grow_one(parents, recipe, path)
            return
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            waiting: deque[Future[Growth]] = deque()
            try:
                for path in request.paths:
                    waiting.append(pool.submit(_grow_one, parents, recipe, path))
                    if len(waiting) > threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


def trace(
    parents: Sequence[Parent],
    order: Order,
    grown: Sequence[Growth],
    generations: Sequence[int],
    config: AdapterConfig | None = None,
) -> Lineage:
    """The lineage of a child from its finished modules (their tensors are not looked at).

    `config` is the child's, by default the first parent's.
    """
    hashes = [
        combine(parent.config, {growth.path: growth.parent_digests[index] for growth in grown})
        for index, parent in enumerate(parents)
    ]
    config = config or parents[0].config
    modules = {
        growth.path: ModuleTrace(
            relative_change=growth.child.relative_change,
            effective_rank=growth.child.effective_rank,
            rank=growth.child.rank,
            truncation_loss=growth.child.truncation_loss,
            source=growth.child.source,
        )
        for growth in grown
    }
    return describe(
        order=order,
        parents=hashes,
        generation=1 + max(generations),
        content=combine(config, {growth.path: growth.digest for growth in grown}),
        modules=modules,
        norms={growth.path: growth.child.parent_norm for growth in grown},
        moments_valid=all(growth.child.moments_valid for growth in grown),
    )


def _grow_one(parents: Sequence[Parent], recipe: Recipe, path: str) -> Growth:
    slots = [parent.slot(path) for parent in parents]
    check_same_layouts(path, [slot.layout for slot in slots])
    for other in slots[1:]:
        check_same_ends(path, slots[0], other)
    digests = tuple(slot_digest(slot) for slot in slots)
    child = recipe(path, slots)
    stored = _stored_like(path, slots, child.slot)
    moved = [k for k, slot in enumerate(slots) if stored.A is slot.A and stored.B is slot.B]
    return Growth(
        path=path,
        child=replace(child, slot=stored),
        digest=digests[moved[0]] if moved else slot_digest(stored),
        parent_digests=digests,
    )


def _with_gauge(recipe: Recipe, order: Order) -> Recipe:
    gauge = checked_gauge(order.parameters.get("gauge", "operator"))
    return lambda path, slots: in_gauge(recipe(path, slots), slots[0], gauge)


def _stored_like(path: str, parents: Sequence[Slot], slot: Slot) -> Slot:
    """The child's slot in the first parent's layout and dtype, and on its device.

    A factor that is a parent's, whole and in that dtype, is handed on as it is, not copied.
    """
    first = parents[0]
    a, b = _like(first.A, slot.A), _like(first.B, slot.B)
    stored = Slot(a, b, first.scale, first.layout)
    if any(stored.A is parent.A and stored.B is parent.B for parent in parents):
        return stored
    try:
        check_finite(path, stored)
    except LoraEvoError as error:
        raise LoraEvoError(
            f"the child's {path} does not fit in {str(first.A.dtype).removeprefix('torch.')}: "
            "values overflow; use a smaller strength, or parents stored in a wider type"
        ) from error
    return stored


def _like(parent: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    if factor.dtype == parent.dtype and factor.device == parent.device:
        return factor if factor.is_contiguous() else factor.detach().contiguous()
    return factor.detach().to(parent.device, parent.dtype).contiguous()


def _own(slot: Slot, parents: Sequence[Slot]) -> Slot:
    """The slot in memory of its own, not a parent's."""
    theirs = {_memory(factor) for parent in parents for factor in (parent.A, parent.B)}
    a, b = (
        factor.clone() if _memory(factor) in theirs else factor
        for factor in (slot.A.detach(), slot.B.detach())
    )
    return replace(slot, A=a, B=b)


def _memory(factor: torch.Tensor) -> int:
    return factor.untyped_storage().data_ptr()
