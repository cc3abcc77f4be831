"""Merges: one adapter that combines several, by their effective updates.

A merge is a sum of the updates D_k = s_k B_k A_k, k = 1..n, or of sparsified ones, with weights w_k
(by default 1/n each). Names, weights and densities have the meaning of PEFT and mergekit, applied
to the update. A module that a parent lacks counts as 0. The child is the best approximation of the
sum by `rank`, by default the parents' largest; alpha grows with the rank, so that the scale stays.
The error of the approximation is the truncation loss.

TIES and DARE act on entries of the update, so that one module at a time is dense, in single
precision (double if a parent is in double): up to ten matrices of its shape at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch

from lora_evo.errors import LoraEvoError
from lora_evo.operators.crossovers import filled, join, row_length
from lora_evo.operators.operator import Recipe, Setup
from lora_evo.operators.slot_child import SlotChild, measured
from lora_evo.peft.adapter import Slot
from lora_evo.random_streams import keyed_stream
from lora_evo.thin import prepared

_LEAST_DENSITY = 0.001
_SPARE = 8
_ROUNDS = 30
_SETTLED = 1e-6
Sparsify: TypeAlias = Callable[[str, int, torch.Tensor], torch.Tensor]
"""Returns the sparsified update of a module path, a parent's number and its update, which it may
change."""


def merge_svd(setup: Setup) -> Recipe:
    """Add the updates: D = sum_k w_k D_k, exactly, then truncate to the rank.

    PEFT's `svd`, mergekit's task arithmetic (Eckart & Young 1936). `linear` is the same; PEFT's
    adds A and B separately, with cross terms B_j A_k that no parent has. A single adapter gets
    another rank, a larger one by zeros in B, or is multiplied by its weight.
    """
    weights, concatenated = factors(setup), merge_cat(setup)

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        _check_rank(setup, path, slots)
        rank = setup.config.rank(path)
        if len(slots) == 1 and rank >= slots[0].rank:
            return concatenated(path, slots)
        joint = join(slots)
        return joint.child(joint.blend(weights), rank, setup.config.scale(path))

    return recipe


merge_linear = merge_svd


def merge_cat(setup: Setup) -> Recipe:
    """Put the factors side by side: A = [A_1; A_2; ...], B = [w_1 s_1 B_1, w_2 s_2 B_2, ...] / s.

    PEFT's `cat`: D = sum_k w_k D_k without any loss, in the sum of the ranks.
    """
    weights = factors(setup)

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        rank, scale = setup.config.rank(path), setup.config.scale(path)
        a = torch.cat([prepared(slot.A).double() for slot in slots])
        shares = zip(weights, slots, strict=True)
        b = torch.cat([prepared(slot.B).double() * (w * slot.scale) for w, slot in shares], dim=1)
        return measured(path, slots[0], filled(a, b / scale, rank, scale))

    return recipe


def merge_ties(setup: Setup) -> Recipe:
    """Add the entries that agree with the majority: trim, elect a sign, merge.

        D_k' = the `density` largest entries of w_k D_k by magnitude, in each module
        sign = sign(sum_k D_k'), entry by entry, + for 0
        D    = sum_k D_k' [sign] / sum_k |w_k| [sign]

    with [sign] = 1 if the entry of D_k' has the elected sign, else 0: mergekit's `ties`, but for
    negative weights, with which mergekit's D may have the other sign.
    TIES-Merging (Yadav et al., arXiv 2306.01708) on effective updates; PEFT's `ties` trims and
    elects on the entries of A and of B. The result may have full rank, and truncation may lose
    much of it: the lineage says how much.
    """
    density = setup.number("density", _LEAST_DENSITY, 1.0)

    def trimmed(path: str, index: int, update: torch.Tensor) -> torch.Tensor:
        dropped = update.numel() - max(1, int(density * update.numel()))
        if not dropped:
            return update
        sizes = update.abs()
        least = sizes.flatten().kthvalue(dropped + 1).values
        return update.masked_fill_(sizes < least, 0.0)

    return _of_entries(setup, trimmed, elect=True, normalise=True)


def merge_dare_linear(setup: Setup) -> Recipe:
    """Add a random share of the entries of each update: D = sum_k w_k (m_k * D_k) / density.

    The entries of m_k are 1 with probability `density`, else 0. DARE (Yu et al., arXiv 2311.03099;
    density = 1 - p) on effective updates; mergekit's `rescale` instead keeps the sum of absolute
    values of each update, which is the same on average. The mean of D over seeds is the weighted
    sum.
    """
    return _of_entries(setup, _dropped(setup), elect=False, normalise=False)


def merge_dare_ties(setup: Setup) -> Recipe:
    """Drop entries as in `merge_dare_linear`, then add those of the elected sign.

    Signs are elected as in `merge_ties`, but the sum is not divided by the weights.
    """
    return _of_entries(setup, _dropped(setup), elect=True, normalise=False)


def _dropped(setup: Setup) -> Sparsify:
    density = setup.number("density", _LEAST_DENSITY, 1.0)

    def dropped(path: str, index: int, update: torch.Tensor) -> torch.Tensor:
        noise = setup.noise(path, "entries", str(index))
        points = torch.from_numpy(noise.random(tuple(update.shape), dtype="float32"))
        return update.masked_fill_(points >= density, 0.0).div_(density)

    return dropped


def _of_entries(setup: Setup, sparsify: Sparsify, *, elect: bool, normalise: bool) -> Recipe:
    """Return the recipe of the child nearest to the sum of the sparsified updates.

    elect: add only entries of the elected sign; normalise: divide by the sum of their weights.
    """
    weights = factors(setup)

    def summed(path: str, slots: Sequence[Slot]) -> torch.Tensor:
        types = {factor.dtype for slot in slots for factor in (slot.A, slot.B)}
        wide = torch.float64 if torch.float64 in types else torch.float32

        def part(index: int) -> torch.Tensor:
            a, b = prepared(slots[index].A), prepared(slots[index].B)
            update = (b.to(wide) * slots[index].scale) @ a.to(wide)
            return sparsify(path, index, update.mul_(weights[index]))

        total = part(0)
        for index in range(1, len(slots)):
            total += part(index)
        if not elect:
            return total
        signs = torch.where(total >= 0, 1.0, -1.0).to(total.dtype)
        counted = torch.zeros_like(total.zero_())
        for index, weight in enumerate(weights):
            update = part(index)
            agrees = update * signs > 0
            total += update.mul_(agrees)
            counted.add_(agrees, alpha=abs(weight))
        return total.div_(counted.masked_fill_(counted == 0, 1.0)) if normalise else total

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        rank, scale = setup.config.rank(path), setup.config.scale(path)
        target = summed(path, slots)
        _check_rank(setup, path, slots)
        rows = [prepared(slot.A).T.to(target.dtype) for slot in slots]
        spare = max(_SPARE, rank + _SPARE - sum(slot.rank for slot in slots))
        noise = keyed_stream(0, path, "start").standard_normal((target.shape[1], spare))
        start = torch.cat([*rows, torch.from_numpy(noise).to(target.dtype)], dim=1)
        left, values, right = nearest(target, start, rank)
        length = row_length(slots[0])
        child = filled(right * length, left * (values / (length * scale)), rank, scale)
        size = float(torch.linalg.matrix_norm(target))
        error = float(torch.linalg.matrix_norm(target.addmm_(left * values, right, alpha=-1)))
        result = measured(path, slots[0], child)
        return replace(result, truncation_loss=error / size if size else 0.0)

    return recipe


def _check_rank(setup: Setup, path: str, slots: Sequence[Slot]) -> None:
    """Raise `LoraEvoError` for a `rank` above the widths of the module and the parents' ranks."""
    rank, ends = setup.parameters["rank"], (len(slots[0].B), slots[0].A.shape[1])
    if rank is not None and rank > max(*ends, sum(slot.rank for slot in slots)):
        raise LoraEvoError(
            f"rank is {rank}, but the merged update of {path} has at most rank {min(ends)}; ask "
            "for at most that"
        )


def factors(setup: Setup) -> tuple[float, ...]:
    """Return the setup's weights, or 1/n each."""
    return setup.weights or (1.0 / len(setup.configs),) * len(setup.configs)


def nearest(
    target: torch.Tensor, start: torch.Tensor, rank: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return U [out, k], S [k] and V^T [k, in] of the best approximation of a matrix by a rank.

    k is `rank`, or the matrix's smaller width. By block power iteration from the columns of `start`
    [in, at least rank], until the singular values settle (Halko, Martinsson & Tropp 2011, arXiv
    0909.4061): a few products with thin matrices instead of a dense SVD.
    """
    rows = torch.linalg.qr(start[:, : min(target.shape)]).Q
    before = 0.0
    for _ in range(_ROUNDS):
        columns = torch.linalg.qr(target @ rows).Q
        u, values, vt = torch.linalg.svd(columns.T @ target, full_matrices=False)
        energy = float(values[:rank].double().square().sum())
        if energy <= before * (1 + _SETTLED):
            break
        before, rows = energy, vt.T
    return columns @ u[:, :rank], values[:rank], vt[:rank]
