"""Children made from adapter directories into a new one, streamed module by module."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from lora_evo.breeding.growth import Growth, birth
from lora_evo.breeding.lineage import LINEAGE_FILE, Lineage, read_lineage
from lora_evo.breeding.order import Order, checked_order, resize_order
from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Slot
from lora_evo.files.atomic import check_output, directory_in_place_of
from lora_evo.files.directory import PathLike, Progress, open_adapter, write_adapter
from lora_evo.operators.operator import Operator


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
    adapter's size. Raises `LoraEvoError`, and leaves nothing behind then.
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
    order = resize_order(rank, alpha, seed)
    return _breed([Path(parent_dir)], Path(out_dir), order, 1, overwrite, None)


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
        child = birth(readers, order)
        layout = readers[0].layout(child.config)
        draft = stack.enter_context(directory_in_place_of(out, overwrite=overwrite))
        grown: list[Growth] = []

        def slots() -> Iterator[tuple[str, Slot]]:
            for growth in child.grow(threads):
                grown.append(growth.without_tensors())
                yield growth.path, growth.child.slot
                if progress is not None:
                    progress(len(grown), len(readers[0].paths))

        write_adapter(draft, child.config, layout, slots())
        generations = [0 if lineage is None else lineage.generation for lineage in known]
        lineage = child.lineage(grown, generations)
        (draft / LINEAGE_FILE).write_text(lineage.to_json(), encoding="utf-8")
    return lineage
