"""The modules of a child grown one by one, from parents in memory or on disk alike."""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import numpy
import torch

from lora_evo.breeding.lineage import Lineage, ModuleTrace
from lora_evo.breeding.order import RESIZE, Order, operator_of, request_for
from lora_evo.breeding.resized_slot import resized_config, resized_slot
from lora_evo.errors import LoraEvoError, checked_count
from lora_evo.files.adapter import Slot, SlotSource, check_finite
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.files.content_hash import combine, slot_digest
from lora_evo.files.layout import check_same_layouts
from lora_evo.linalg.distance import check_same_ends
from lora_evo.linalg.thin import one_thread
from lora_evo.operators.gauge import checked_gauge, in_gauge
from lora_evo.operators.lookup import operator_named
from lora_evo.operators.operator import Recipe, SlotChild
from lora_evo.operators.plugins import plugin_behind


@dataclass(frozen=True, eq=False)
class Growth:
    """One finished module of a child, with the digests of everything that went into it."""

    path: str
    child: SlotChild
    digest: str
    parent_digests: tuple[str, ...]

    def without_tensors(self) -> Self:
        """The same, with the weights let go."""
        slot = self.child.slot
        empty = replace(slot, A=slot.A.new_empty(0), B=slot.B.new_empty(0))
        return replace(self, child=replace(self.child, slot=empty))


@dataclass(frozen=True, eq=False)
class Birth:
    """A child about to be made: parents that fit together, and what is made of their modules."""

    parents: Sequence[SlotSource]
    order: Order
    config: AdapterConfig
    """The child's."""
    recipe: Recipe

    def grow(self, threads: int = 1) -> Iterator[Growth]:
        """Yield the modules in sorted order, holding a few of them in memory at a time.

        Every module is computed by one thread with torch's own threading off, so the child's bytes
        do not depend on `threads`.
        """
        checked_count("threads", threads)
        paths = self.parents[0].paths
        with one_thread():
            if threads == 1:
                yield from map(self._grow_one, paths)
                return
            pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
            waiting: deque[Future[Growth]] = deque()
            try:
                for path in paths:
                    waiting.append(pool.submit(self._grow_one, path))
                    if len(waiting) > threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)

    def lineage(self, grown: Sequence[Growth], generations: Sequence[int]) -> Lineage:
        """The child's record, from its finished modules (their tensors are not looked at).

        `generations` are the parents'. Numbers are kept to 9 digits.
        """
        from lora_evo import __version__

        order = self.order
        versions = {"lora_evo": __version__, "numpy": numpy.__version__, "torch": torch.__version__}
        bred = order.operator != RESIZE
        behind = plugin_behind(order.given or operator_named(order.operator)) if bred else None
        if behind is not None:
            versions[behind.distribution] = behind.version
        modules = {
            growth.path: ModuleTrace(
                relative_change=_digits(growth.child.relative_change),
                effective_rank=_digits(growth.child.effective_rank) or 0.0,
                rank=growth.child.rank,
                truncation_loss=_digits(growth.child.truncation_loss) or 0.0,
                source=growth.child.source,
            )
            for growth in grown
        }
        return Lineage(
            operator=order.operator,
            seed=order.seed,
            strength=order.strength,
            weights=order.weights,
            parameters=order.parameters,
            parents=tuple(
                combine(parent.config, {one.path: one.parent_digests[index] for one in grown})
                for index, parent in enumerate(self.parents)
            ),
            generation=1 + max(generations),
            content_hash=combine(self.config, {growth.path: growth.digest for growth in grown}),
            moments_valid=all(growth.child.moments_valid for growth in grown),
            relative_change=_digits(_total_change([growth.child for growth in grown])),
            truncation_loss=max(trace.truncation_loss for trace in modules.values()),
            modules=modules,
            versions=versions,
            plugin=None if behind is None else behind.distribution,
        )

    def _grow_one(self, path: str) -> Growth:
        slots = [parent.slot(path) for parent in self.parents]
        check_same_layouts(path, [slot.layout for slot in slots])
        for other in slots[1:]:
            check_same_ends(path, slots[0], other)
        digests = tuple(slot_digest(slot) for slot in slots)
        child = self.recipe(path, slots)
        scale = child.slot.scale if self.order.operator == RESIZE else slots[0].scale
        stored = _stored_like(path, slots, replace(child.slot, scale=scale))
        moved = [k for k, slot in enumerate(slots) if stored.A is slot.A and stored.B is slot.B]
        digest = digests[moved[0]] if moved else slot_digest(stored)
        return Growth(path, replace(child, slot=stored), digest, digests)


def birth(parents: Sequence[SlotSource], order: Order) -> Birth:
    """Bring parents and an order together; refuse parents that do not belong together."""
    first, seed = parents[0], order.seed
    if order.operator == RESIZE:
        if set(order.parameters) != {"rank", "alpha"}:
            raise LoraEvoError(
                f"resize has the parameters rank and alpha; got {sorted(order.parameters)}"
            )
        config = resized_config(first.config, first.paths, **order.parameters)

        def resized(path: str, slots: Sequence[Slot]) -> SlotChild:
            return resized_slot(path, slots[0], config.r, config.scale(path), seed)

        return Birth(parents, order, config, resized)
    recipe = operator_of(order).prepare(request_for(order, parents))
    gauge = checked_gauge(order.parameters.get("gauge", "operator"))

    def grown(path: str, slots: Sequence[Slot]) -> SlotChild:
        return in_gauge(recipe(path, slots), slots[0], gauge)

    return Birth(parents, order, first.config, grown)


def _total_change(modules: Sequence[SlotChild]) -> float | None:
    """Change of the whole adapter from the changes of its modules and the parent's norms."""
    if any(module.relative_change is None for module in modules):
        return None
    total = math.hypot(*(module.parent_norm for module in modules))
    change = math.hypot(*((m.relative_change or 0.0) * m.parent_norm for m in modules))
    return change / total if total else 0.0


def _digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.9g}")


def _stored_like(path: str, parents: Sequence[Slot], slot: Slot) -> Slot:
    """The child's slot in the first parent's layout and dtype, and on its device.

    A factor that is a parent's, whole and in that dtype, is handed on as it is, not copied.
    """
    first = parents[0]
    stored = Slot(_like(first.A, slot.A), _like(first.B, slot.B), slot.scale, first.layout)
    if any(stored.A is parent.A and stored.B is parent.B for parent in parents):
        return stored
    try:
        check_finite(path, stored)
    except LoraEvoError as error:
        raise LoraEvoError(
            f"the child's {path} does not fit in {str(first.A.dtype).removeprefix('torch.')}: "
            "values overflow; use a smaller strength (resize: another alpha), or parents stored "
            "in a wider type"
        ) from error
    return stored


def _like(parent: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    if factor.dtype == parent.dtype and factor.device == parent.device:
        return factor if factor.is_contiguous() else factor.detach().contiguous()
    return factor.detach().to(parent.device, parent.dtype).contiguous()
