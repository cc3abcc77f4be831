"""Adapters re-expressed at another rank, with a lineage that can be verified."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.breeding.child import Child, Growth, trace
from lora_evo.breeding.child_directory import without_tensors
from lora_evo.breeding.lineage import LINEAGE_FILE, RESIZE, Lineage, read_lineage
from lora_evo.breeding.order import Order, Parent
from lora_evo.breeding.resized_slot import resized_config, resized_slot
from lora_evo.checks import checked_count
from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter, check_finite
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.files.atomic import directory_in_place_of
from lora_evo.files.content_hash import slot_digest
from lora_evo.files.directory import (
    CONFIG_FILE,
    AdapterReader,
    PathLike,
    Tensors,
    open_adapter,
    slot_writer,
    write_slot,
)
from lora_evo.files.output import check_output
from lora_evo.linalg.thin import one_thread


@dataclass(frozen=True, eq=False)
class Regrowth:
    """A parent on its way to another rank: the child's configuration and what was asked for."""

    parent: Parent
    config: AdapterConfig
    order: Order

    def grow(self) -> Iterator[Growth]:
        """Yield the modules of the child in sorted order, one at a time."""
        with one_thread():
            for path in self.parent.paths:
                slot = self.parent.slot(path)
                scale = self.config.scale(path)
                child = resized_slot(path, slot, self.config.r, scale, self.order.seed)
                try:
                    check_finite(path, child.slot)
                except LoraEvoError as error:
                    raise LoraEvoError(
                        f"{path} overflows its type under the new scale; give another --alpha"
                    ) from error
                yield Growth(path, child, slot_digest(child.slot), (slot_digest(slot),))

    def trace(self, grown: list[Growth], generation: int) -> Lineage:
        """The lineage, from the finished modules; `generation` is the parent's."""
        return trace([self.parent], self.order, grown, (generation,), config=self.config)


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
    plan = regrowth(adapter, seed, {"rank": rank, "alpha": alpha})
    grown = list(plan.grow())
    slots = {growth.path: growth.child.slot for growth in grown}
    return Child(Adapter(plan.config, slots), plan.trace(grown, 0))


def resize_directory(
    parent_dir: PathLike,
    out_dir: PathLike,
    *,
    rank: int,
    alpha: float | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Lineage:
    """Write the adapter in `parent_dir` at another rank to `out_dir`, with its lineage.json.

    Module by module; raises `LoraEvoError`, and leaves nothing behind then.
    """
    parent, out = Path(parent_dir), Path(out_dir)
    check_output(out, [parent], overwrite=overwrite)
    known = read_lineage(parent)
    with open_adapter(parent) as reader:
        plan = regrowth(reader, seed, {"rank": rank, "alpha": alpha})
        with directory_in_place_of(out, overwrite=overwrite) as draft:
            grown: list[Growth] = []
            with slot_writer(draft, _tensors(reader, rank)) as writer:
                for growth in plan.grow():
                    write_slot(writer, growth.path, growth.child.slot)
                    grown.append(without_tensors(growth))
            lineage = plan.trace(grown, 0 if known is None else known.generation)
            (draft / CONFIG_FILE).write_text(plan.config.to_json(), encoding="utf-8")
            (draft / LINEAGE_FILE).write_text(lineage.to_json(), encoding="utf-8")
    return lineage


def regrowth(parent: Parent, seed: int, parameters: Mapping[str, Any]) -> Regrowth:
    """Check what is asked for: `parameters` are rank and alpha (None to keep the scales)."""
    checked_count("seed", seed, 0)
    if set(parameters) != {"rank", "alpha"}:
        raise LoraEvoError(f"resize has the parameters rank and alpha; got {sorted(parameters)}")
    rank, alpha = parameters["rank"], parameters["alpha"]
    if isinstance(alpha, float) and not (math.isfinite(alpha) and alpha > 0):
        raise LoraEvoError(f"alpha is {alpha}; expected a finite number above 0")
    config = resized_config(parent.config, parent.paths, rank, alpha)
    return Regrowth(parent, config, Order(RESIZE, seed, None, None, dict(parameters)))


def _tensors(reader: AdapterReader, rank: int) -> Tensors:
    """The parent's tensors (A and B in turn, module by module) with the other rank."""
    found = []
    for number, (name, dtype, shape) in enumerate(reader.layout()):
        axis = number % 2
        found.append((name, dtype, (*shape[:axis], rank, *shape[axis + 1 :])))
    return found
