"""How varied a population of adapters is in what its members do, from files alone."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from lora_evo.compare import Gap, effective_rank, slot_gap, total_gap
from lora_evo.errors import LoraEvoError
from lora_evo.operators.thin import one_thread
from lora_evo.peft.adapter import Adapter, check_comparable, slot_source
from lora_evo.peft.directory import PathLike, shortest_unique_names

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
    members: Sequence[Adapter | PathLike], names: Sequence[str] | None = None
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
    if len(names) < 2:
        raise LoraEvoError(f"{len(names)} adapter(s) found; a population has at least two")
    sources = [slot_source(member) for member in members]
    sources = [one for one, _ in check_comparable(dict(zip(names, sources, strict=True)))]
    pairs = list(combinations(range(len(names)), 2))
    parts: dict[tuple[int, int], list[Gap]] = {pair: [] for pair in pairs}
    with one_thread():
        for path in sources[0].paths:
            slots = [source.slot(path) for source in sources]
            for i, j in pairs:
                parts[i, j].append(slot_gap(path, slots[i], slots[j]))
        gaps = {pair: total_gap(gaps) for pair, gaps in parts.items()}
        distances = torch.zeros(len(names), len(names), dtype=torch.float64)
        cosines = torch.eye(len(names), dtype=torch.float64)
        for (i, j), gap in gaps.items():
            distances[i, j] = distances[j, i] = gap.distance
            both_zero = not gap.first and not gap.second
            cosines[i, j] = cosines[j, i] = float(both_zero) if gap.cosine is None else gap.cosine
        return Diversity(
            names=tuple(names),
            norms=(gaps[0, 1].first, *(gaps[0, j].second for j in range(1, len(names)))),
            distances=tuple(map(tuple, distances.tolist())),
            cosines=tuple(map(tuple, cosines.tolist())),
            # The eigenvalues of a similarity with unit diagonal add up to n.
            effective_members=effective_rank(torch.linalg.eigvalsh(cosines)),
        )
