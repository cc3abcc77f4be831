"""How varied a population of adapters is in what its members do, from files alone."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from lora_evo.errors import LoraEvoError
from lora_evo.peft_files.adapter import Adapter, SlotSource, check_comparable, slot_source
from lora_evo.peft_files.directory import PathLike, shortest_unique_names
from lora_evo.thin import one_thread
from lora_evo.updates import effective_rank, inner_products

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Diversity:
    """A population of n adapters seen from outside."""

    names: tuple[str, ...]
    norms: tuple[float, ...]
    """Frobenius norms of the updates."""
    distances: Matrix
    """[n, n] as by `distance`: 0 for equal updates, the root of 2 for orthogonal, at most 2."""
    cosines: Matrix
    """[n, n] of the updates as vectors; two zero updates count as equal (1), a zero one and another
    as unrelated (0)."""
    effective_members: float
    """The Vendi score (Friedman & Dieng 2022): distinct members in effect, from 1 (all on one line)
    to n (all orthogonal). Neither norms nor the sign of a whole update count."""

    @property
    def mean_distance(self) -> float:
        """Mean distance of all pairs."""
        size = len(self.names)
        return math.fsum(map(math.fsum, self.distances)) / (size * (size - 1))

    @property
    def closest(self) -> tuple[int, int]:
        """The first of the closest pairs, as places in `names`."""
        pairs = combinations(range(len(self.names)), 2)
        return min(pairs, key=lambda pair: self.distances[pair[0]][pair[1]])

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, the mean distance, and the closest pair by name, JSON-ready."""
        one, two = self.closest
        return {
            **asdict(self),
            "mean_distance": self.mean_distance,
            "closest": [self.names[one], self.names[two]],
        }


def diversity(
    members: Sequence[Adapter | PathLike],
    names: Sequence[str] | None = None,
) -> Diversity:
    """Compare all members of a population: adapters, or their directories, read module by module.

    `names` default to numbers from 0, those of directories to the last parts of their paths.
    Ranks, alphas and factorizations may differ. Raises `LoraEvoError` for fewer than two members,
    another number of names, a name given twice, and members on different modules or base models.

    Example:

        >>> found = diversity(["members/t0", "members/t1"])
        >>> 1 <= found.effective_members <= 2
        True
    """
    folders = [Path(member) for member in members if not isinstance(member, Adapter)]
    known = iter(shortest_unique_names(folders))
    if names is None:
        names = [
            str(at) if isinstance(member, Adapter) else next(known)
            for at, member in enumerate(members)
        ]
    if len(names) != len(members) or len(set(names)) != len(names):
        raise LoraEvoError(
            f"{len(names)} names for {len(members)} adapters: {', '.join(names)}; expected a "
            "distinct one for each"
        )
    return _compare(tuple(names), [slot_source(member) for member in members])


def _compare(names: tuple[str, ...], members: Sequence[SlotSource]) -> Diversity:
    if len(names) < 2:
        raise LoraEvoError(f"{len(names)} adapter(s) found; a population has at least two")
    check_comparable(dict(zip(names, members, strict=True)))
    # Made before any factor is read, so that nothing small and lasting lies between large ones.
    whole, between = torch.zeros(2, len(names), len(names), dtype=torch.float64)
    with one_thread():
        for path in members[0].paths:
            products, gaps = inner_products(path, [member.slot(path) for member in members])
            whole += products
            between += gaps
        energies = whole.diagonal()
        means = (energies[:, None] + energies[None, :]) / 2
        distances = torch.where(means > 0, (between / means.clamp(min=1e-300)).sqrt(), 0.0)
        cosines = _cosines(whole)
        return Diversity(
            names=names,
            norms=tuple(energies.sqrt().tolist()),
            distances=_rows(distances),
            cosines=_rows(cosines),
            # The eigenvalues of a similarity with unit diagonal add up to n.
            effective_members=effective_rank(torch.linalg.eigvalsh(cosines)),
        )


def _cosines(inner: torch.Tensor) -> torch.Tensor:
    lengths = inner.diagonal().sqrt()
    zero = lengths == 0
    scaled = inner / torch.outer(lengths, lengths).clamp(min=1e-300)
    cosines = torch.where(torch.outer(zero, zero), 1.0, scaled).clamp(-1.0, 1.0)
    return cosines.fill_diagonal_(1.0)


def _rows(matrix: torch.Tensor) -> Matrix:
    return tuple(tuple(row) for row in matrix.tolist())
