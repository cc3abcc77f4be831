"""Children of adapters: mutated, crossed or merged, in memory or from directory to directory.

Both ways make a child module by module with the same `Birth`, and so give the same bytes.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch

from lora_evo.compare import any_update, check_same_ends, effective_rank, numerical_rank
from lora_evo.errors import LoraEvoError, checked_count
from lora_evo.files import appearing
from lora_evo.operators.operator import OPERATORS, Operator, Setup, find_operator
from lora_evo.operators.slot_child import SlotChild
from lora_evo.peft.adapter import (
    Adapter,
    AdapterReader,
    Slot,
    SlotSource,
    check_comparable,
    check_finite,
    layout_of,
    open_adapter,
    slot_digest,
    write_adapter,
)
from lora_evo.peft.card import CARD_FILE, model_card
from lora_evo.peft.config import AdapterConfig
from lora_evo.peft.directory import PathLike, combine, shortest_unique_names
from lora_evo.peft.lineage import LINEAGE_FILE, Lineage, ModuleTrace, read_lineage
from lora_evo.thin import one_thread

_HALF = 2**-10
"""Largest share of a factor that may be lost to float16; twice its rounding."""
_KEPT = 16 * 2**20
"""Bytes that raise glibc's trim threshold when they are freed, so that freed pages are reused."""


@dataclass(frozen=True, eq=False)
class Child:
    adapter: Adapter
    lineage: Lineage


def mutate(
    adapter: Adapter,
    operator: str | Operator,
    seed: int,
    strength: float | None = None,
    **parameters: Any,
) -> Adapter:
    """Return a mutated copy of an adapter, with its configuration, ranks and dtypes.

    Equal adapters, operators (a name or an `Operator`), seeds and parameters give equal children.
    Raises `LoraEvoError`.

    Example:

        >>> parent = load_adapter("members/t0")
        >>> child = mutate(parent, "svd_structured", seed=1, strength=0.15)
    """
    operation = find_operator(operator, "mutation")
    return make_child([adapter], operation, seed, strength=strength, **parameters).adapter


def cross(
    parents: Sequence[Adapter],
    operator: str | Operator,
    seed: int,
    weights: Sequence[float] | None = None,
    **parameters: Any,
) -> Adapter:
    """Return a child of two or more adapters, with the first one's configuration and dtypes.

    The child of equal parents equals them. Raises `LoraEvoError`.

    Example:

        >>> parents = [load_adapter("members/t0"), load_adapter("members/t1")]
        >>> child = cross(parents, "slot_swap", seed=2)
    """
    operation = find_operator(operator, "crossover")
    return make_child(parents, operation, seed, weights=weights, **parameters).adapter


def merge(
    adapters: Sequence[Adapter],
    method: str = "svd",
    *,
    weights: Sequence[float] | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Adapter:
    """Return one adapter that combines several: their weighted sum, or a TIES or DARE merge.

    `method` is `svd`, `linear` (the same), `cat`, `ties`, `dare_linear` or `dare_ties` (see
    `lora_evo.operators.merges`); weights are 1/n each by default. Parameters: `rank`, by default
    the parents' largest, and `density`, the share of entries that TIES and DARE keep. Only DARE
    uses `seed`. A single adapter is resized by `rank`, or multiplied by its weight. Raises
    `LoraEvoError`.

    Example:

        >>> adapters = [load_adapter("members/t0"), load_adapter("members/t1")]
        >>> merge(adapters, "ties", weights=(1, 0.5)).config.r
        8
    """
    operation = find_operator(method, "merge")
    return make_child(adapters, operation, seed, weights=weights, **parameters).adapter


def make_child(
    parents: Sequence[Adapter],
    operator: str | Operator,
    seed: int,
    *,
    strength: float | None = None,
    weights: Sequence[float] | None = None,
    **parameters: Any,
) -> Child:
    """Return a child of adapters in memory with its lineage; see `mutate` and `cross`."""
    birth = Birth(
        parents, find_operator(operator), seed=seed, strength=strength, weights=weights,
        parameters=parameters,
    )  # fmt: skip
    # Factors that the operator did not change are the parent's tensors: copy them.
    slots = {
        path: replace(slot, A=slot.A.detach().clone(), B=slot.B.detach().clone())
        for path, slot, _ in birth.grow()
    }
    return Child(Adapter(birth.config, slots), birth.lineage())


class Birth:
    """A child to be made of compatible parents; `grow` makes its modules."""

    def __init__(
        self,
        parents: Sequence[SlotSource],
        operator: Operator,
        *,
        seed: int,
        parameters: Mapping[str, Any],
        strength: float | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        operator.check_parameters(parameters)
        if strength is None:
            strength = operator.default_strength
        elif operator.default_strength is None:
            raise LoraEvoError(f"{operator.name} takes no strength; leave it out")
        if operator.kind == "mutation" and len(parents) != 1:
            raise LoraEvoError(f"{operator.name} takes one parent; got {len(parents)}")
        merges = operator.kind == "merge"
        one_is_enough = merges and (parameters.get("rank") or weights) is not None
        if operator.kind != "mutation" and len(parents) < (1 if one_is_enough else 2):
            exception = ", or one with a rank or a weight" if merges else ""
            raise LoraEvoError(
                f"{operator.name} takes at least two parents{exception}; got {len(parents)}"
            )
        by_title = {f"parent {n}": parent for n, parent in enumerate(parents, start=1)}
        pairs = check_comparable(by_title, any_modules=merges)
        self._originals = [(p.config, names) for p, (_, names) in zip(parents, pairs, strict=True)]
        self.parents, self.operator = [parent for parent, _ in pairs], operator
        self.config = self.parents[0].config
        if merges:
            rank = parameters.get("rank")
            self.config = _merged_config(self.parents, parents, operator.name, rank)
        if weights is not None:
            weights = _checked_weights(weights, len(parents), signed=merges)
        self.setup = Setup(
            paths=tuple(sorted({path for parent in self.parents for path in parent.paths})),
            configs=tuple(parent.config for parent in self.parents),
            config=self.config,
            seed=checked_count("seed", seed, 0),
            strength=None if strength is None else float(strength),
            weights=weights,
            parameters={**operator.defaults, **parameters},
            alive=lambda path: any_update(self.parents[0].slot(path)),
        )
        with _blamed(operator, "its setup"):
            self._recipe = operator.recipe(self.setup)
        self._paths = [frozenset(parent.paths) for parent in self.parents]
        self._traces: dict[str, ModuleTrace] = {}
        self._digests: list[dict[str, str]] = [{} for _ in (None, *parents)]
        self._changes: list[tuple[float, float | None]] = []
        self._moments_valid = True

    def grow(self) -> Iterator[tuple[str, Slot, str]]:
        """Yield path, slot and digest of every module in sorted order, one in memory at a time.

        Torch uses one thread meanwhile, so that the child's bytes do not depend on their number.
        """
        torch.empty(_KEPT, dtype=torch.uint8)  # freed at once; see _KEPT
        with one_thread():
            for path in self.setup.paths:
                yield path, *self._grow_one(path)
        if self.setup.strength and not any(change for _, change in self._changes):
            sizes = zip(self._traces, self._changes, strict=True)
            for path in [path for path, (norm, _) in sizes if norm]:  # a fresh adapter stays
                raise LoraEvoError(
                    f"{self.operator.name} changes nothing: the update of {path} has rank "
                    f"{self._traces[path].rank}; use svd_structured or full_gaussian"
                )

    def lineage(self, generation: int = 1) -> Lineage:
        """Return the record of the child, after `grow`. Numbers have 9 digits."""
        from lora_evo import __version__

        of_child, *of_parents = self._digests
        parents = [
            combine(config, {old: by_path[new] for old, new in names.items()})
            for (config, names), by_path in zip(self._originals, of_parents, strict=True)
        ]
        parts = [norm * change for norm, change in self._changes if change is not None]
        total, change = math.hypot(*(norm for norm, _ in self._changes)), math.hypot(*parts)
        is_finite = len(parts) == len(self._changes)
        names = "seed", "strength", "weights", "parameters"
        return Lineage(
            operator=self.operator.name,
            **{name: getattr(self.setup, name) for name in names},
            parents=tuple(parents),
            generation=generation,
            content_hash=combine(self.config, of_child),
            moments_valid=self._moments_valid,
            relative_change=_digits(change / total if total else 0.0) if is_finite else None,
            truncation_loss=max(trace.truncation_loss for trace in self._traces.values()),
            modules=self._traces,
            versions={
                "lora_evo": __version__,
                "numpy": numpy.__version__,
                "torch": torch.__version__,
            },
        )

    def _grow_one(self, path: str) -> tuple[Slot, str]:
        sources = zip(self.parents, self._paths, strict=True)
        parents = [parent.slot(path) if path in paths else None for parent, paths in sources]
        first = next(slot for slot in parents if slot)
        zero = replace(first, A=first.A[:1], B=torch.zeros_like(first.B[:, :1]))  # for a merge
        slots = [slot or zero for slot in parents]
        for other in slots[1:]:
            check_same_ends(path, slots[0], other)
        digests = [slot_digest(slot) if slot else "" for slot in parents]
        try:
            with _blamed(self.operator, path):
                child = self._recipe(path, slots)
            if not isinstance(child, SlotChild):
                raise LoraEvoError(
                    f"{self.operator.name} returns a {type(child).__name__} for {path}; expected "
                    "the result of lora_evo.measured(path, slots[0], slot)"
                )
            sizes = child.parent_norm, child.relative_change or 0.0, child.truncation_loss
            if not all(map(math.isfinite, sizes)):
                raise OverflowError("they overflow")
        except (OverflowError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            raise LoraEvoError(
                f"the updates of {path} are too large to compute with: {error}"
            ) from error
        stored = _stored_like(path, slots, child.slot, self.config)
        pairs = zip(digests, slots, strict=True)
        reused = (digest for digest, slot in pairs if stored.A is slot.A and stored.B is slot.B)
        of_child = next(reused, "") or slot_digest(stored)
        for by_path, digest in zip(self._digests, (of_child, *digests), strict=True):
            by_path |= {path: digest} if digest else {}
        self._changes.append((child.parent_norm, child.relative_change))
        self._moments_valid &= child.moments_valid
        self._traces[path] = ModuleTrace(
            relative_change=_digits(child.relative_change),
            effective_rank=_digits(effective_rank(child.spectrum)) or 0.0,
            rank=numerical_rank(child.spectrum),
            truncation_loss=_digits(child.truncation_loss) or 0.0,
            source=child.source,
        )
        return stored, of_child


@contextmanager
def _blamed(operator: Operator, place: str) -> Iterator[None]:
    """Turn errors of a user's own operator into one line; a built-in one's keep their traceback."""
    try:
        yield
    except (LoraEvoError, OverflowError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
        raise
    except (Exception, SystemExit) as error:
        if OPERATORS.get(operator.name) is operator:
            raise
        raise LoraEvoError(
            f"{operator.name} fails at {place}: {type(error).__name__}: {error}; expected "
            "prepare(setup) to return a function of a module's path and its parents' slots"
        ) from error


def _merged_config(
    parents: Sequence[SlotSource], sources: Sequence[SlotSource], name: str, rank: int | None
) -> AdapterConfig:
    """Return the configuration of a merge: the first parent's, with the rank and modules of all.

    Modules are named in the parents' own words where these are of one naming; sources: the parents
    before they got the first's names.
    """
    config, paths = parents[0].config, {path for parent in parents for path in parent.paths}
    if set(parents[0].paths) != paths:
        same = all(parent is source for parent, source in zip(parents, sources, strict=True))
        joint = config.joined(parent.config for parent in parents[1:]) if same else None
        if joint is None or not all(map(joint.adapts, paths)):
            sides = (filter(parent.config.parameter, parent.paths) for parent in parents)
            joint = config.on(paths, {path for side in sides for path in side})
        config = joint
    highest = [max(map(p.config.rank, p.paths)) for p in parents]
    if rank is not None or (name == "merge_cat" and len(parents) > 1):
        return config.of_rank(sum(highest) if rank is None else checked_count("rank", rank))
    same = all(p.config.rank(path) == config.rank(path) for p in parents for path in p.paths)
    return config if same else config.of_rank(max(highest))


def write_child(
    operator: str | Operator,
    parents: Sequence[PathLike],
    out: PathLike,
    *,
    seed: int = 0,
    strength: float | None = None,
    weights: Sequence[float] | None = None,
    overwrite: bool = False,
    kind: str | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Lineage:
    """Write a child of adapter directories, with its lineage.json, to `out`.

    See `mutate`, `cross` and `merge`; one module at a time is in memory. An operator of another
    `kind` is refused. Merges are named `merge_svd` and so on; with kind="merge", `svd` will do.
    Raises `LoraEvoError`, and then leaves no file.

    Example:

        >>> write_child("svd_structured", ["members/t0"], "members/c0", seed=1).relative_change
        0.15
    """
    operation, target = find_operator(operator, kind), Path(out)
    folders = [Path(parent) for parent in parents]
    shortest_unique_names(folders)  # refuses duplicates
    for folder in folders:
        if folder.resolve() in (target.resolve(), *target.resolve().parents):
            raise LoraEvoError(
                f"{target} is the parent {folder} or lies inside it; name another out"
            )
    birth = Birth(
        [open_adapter(folder) for folder in folders], operation, seed=seed, strength=strength,
        weights=weights, parameters=parameters or {},
    )  # fmt: skip
    readers = [parent for parent in birth.parents if isinstance(parent, AdapterReader)]
    records = [record for record in map(read_lineage, folders) if record]
    if len(bits := {record.quantization or "plain weights" for record in records}) > 1:
        raise LoraEvoError(
            f"the parents belong to a base in {' and in '.join(sorted(bits))}, as their "
            f"{LINEAGE_FILE} say; choose parents of one"
        )
    with appearing(target, overwrite=overwrite) as draft:
        slots = ((path, slot) for path, slot, _ in birth.grow())
        write_adapter(draft, birth.config, layout_of(readers, birth.config), slots)
        lineage = birth.lineage(1 + max((record.generation for record in records), default=0))
        lineage = replace(lineage, quantization=records[0].quantization if records else None)
        (draft / LINEAGE_FILE).write_text(lineage.to_json(), encoding="utf-8")
        (draft / CARD_FILE).write_text(model_card(birth.config, lineage), encoding="utf-8")
    return lineage


def _checked_weights(weights: Sequence[float], parents: int, *, signed: bool) -> tuple[float, ...]:
    if len(weights) != parents:
        raise LoraEvoError(f"{len(weights)} weight(s) for {parents} parents; give one for each")
    values = tuple(map(float, weights))
    if not all(math.isfinite(v) and (signed or v >= 0) for v in values) or not any(values):
        numbers = "finite numbers" if signed else "numbers of at least 0"
        raise LoraEvoError(f"weights are {values}; expected {numbers}, not all 0")
    return values


def _stored_like(path: str, parents: Sequence[Slot], slot: Slot, config: AdapterConfig) -> Slot:
    """Return the child's slot with the scale of `config`, and dtype and device of the first parent.

    A factor that already has these is not copied.
    """
    first, rank, factors = parents[0], config.rank(path), []
    shapes = (rank, first.A.shape[1]), (first.B.shape[0], rank)
    for factor, parent, shape in zip((slot.A, slot.B), (first.A, first.B), shapes, strict=True):
        if factor.shape != shape:
            raise LoraEvoError(
                f"the operator made a factor of shape {list(factor.shape)}; expected {list(shape)}"
            )
        factors.append(factor.to(parent.device, parent.dtype).contiguous())
        if parent.dtype == torch.float16 and factor is not parent:
            exact = factor.double()  # in subnormal numbers, small values keep few digits
            size = float(torch.linalg.matrix_norm(exact))
            if float(torch.linalg.matrix_norm(factors[-1].cpu() - exact)) > _HALF * size:
                raise LoraEvoError(
                    f"the child's {path} does not fit in float16: values are too small; save the "
                    "parents in bfloat16 or float32"
                )
    stored = Slot(factors[0], factors[1], config.scale(path))
    if any(stored.A is parent.A and stored.B is parent.B for parent in parents):
        return stored
    try:
        check_finite(path, stored)
    except LoraEvoError as error:
        raise LoraEvoError(
            f"the child's {path} does not fit in {str(first.A.dtype).removeprefix('torch.')}: "
            "values overflow; use a smaller strength"
        ) from error
    return stored


def _digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.9g}")
