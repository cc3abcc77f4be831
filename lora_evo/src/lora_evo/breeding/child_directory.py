"""Children made from adapter directories into a new one, streamed module by module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from lora_evo.breeding.child import Growth, grow, trace
from lora_evo.breeding.lineage import LINEAGE_FILE, Lineage, read_lineage
from lora_evo.breeding.order import Order, checked_order
from lora_evo.errors import LoraEvoError
from lora_evo.files.atomic import directory_in_place_of
from lora_evo.files.directory import (
    CONFIG_FILE,
    PathLike,
    open_adapter,
    slot_writer,
    write_slot,
)
from lora_evo.files.output import check_output
from lora_evo.operators.operator import Operator

Progress = Callable[[int, int], None]


def mutate_directory(
    operator: str | Operator,
    parent_dir: PathLike,
    out_dir: PathLike,
    *,
    seed: int,
    strength: float | None = None,
    threads: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
    **parameters: object,
) -> Lineage:
    """Write a mutated child of `parent_dir` to `out_dir`, with its lineage.json.

    Bit for bit the child that `mutate` gives. Memory holds a few modules at a time, whatever the
    adapter's size; `progress` is told how many modules of how many are done. Raises
    `LoraEvoError`, and leaves nothing behind then.
    """
    order = checked_order("mutation", operator, seed, strength, None, parameters, 1)
    return _breed([Path(parent_dir)], Path(out_dir), order, threads, overwrite, progress)


def cross_directory(
    operator: str | Operator,
    parent_dirs: Sequence[PathLike],
    out_dir: PathLike,
    *,
    seed: int,
    weights: Sequence[float] | None = None,
    threads: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
    **parameters: object,
) -> Lineage:
    """Write a child of two or more adapter directories to `out_dir`, with its lineage.json.

    The same directory given twice is refused as a slip; different directories of equal content
    are allowed (members of a young population may be equal), and their child equals them.
    """
    parents = [Path(parent) for parent in parent_dirs]
    order = checked_order("crossover", operator, seed, None, weights, parameters, len(parents))
    places = [parent.resolve() for parent in parents]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise LoraEvoError(
                f"{parents[index]} is given twice as a parent; name two different adapters, or "
                "use weights to favour one"
            )
    return _breed(parents, Path(out_dir), order, threads, overwrite, progress)


def _breed(
    parents: list[Path],
    out: Path,
    order: Order,
    threads: int,
    overwrite: bool,
    progress: Progress | None,
) -> Lineage:
    check_output(out, parents, overwrite=overwrite)
    with ExitStack() as stack:
        readers = [stack.enter_context(open_adapter(parent)) for parent in parents]
        known = [read_lineage(parent) for parent in parents]
        generations = [0 if lineage is None else lineage.generation for lineage in known]
        draft = stack.enter_context(directory_in_place_of(out, overwrite=overwrite))
        grown: list[Growth] = []
        with slot_writer(draft, readers[0].layout()) as writer:
            for growth in grow(readers, order, threads):
                write_slot(writer, growth.path, growth.child.slot)
                grown.append(without_tensors(growth))
                if progress is not None:
                    progress(len(grown), len(readers[0].paths))
        lineage = trace(readers, order, grown, generations)
        (draft / CONFIG_FILE).write_text(readers[0].config.to_json(), encoding="utf-8")
        (draft / LINEAGE_FILE).write_text(lineage.to_json(), encoding="utf-8")
    return lineage


def without_tensors(growth: Growth) -> Growth:
    """A finished module with its weights let go."""
    slot = growth.child.slot
    empty = replace(slot, A=slot.A.new_empty(0), B=slot.B.new_empty(0))
    return replace(growth, child=replace(growth.child, slot=empty))
