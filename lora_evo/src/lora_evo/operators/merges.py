"""Merges: one adapter that holds what several do, from their effective updates.

A merge adds up the updates D_k = s_k B_k A_k, k = 1..n, or what is left of their entries. Its
weights w_k count as they are: they may add up to anything, and be negative to take an adapter out
of others; without any, each counts 1/n. Ranks, alphas and factorizations may differ. The child is
the sum's best approximation by the first parent's rank, or by `rank`, with which alpha grows so
that the scale stays; what that cuts off is the truncation loss. Factors are written as those of
crossovers are, rows of A orthogonal and as long as the first parent's.

`merge_sum` works between small matrices, as crossovers do. TIES and DARE choose among the entries
of an update, so that each module in turn is dense, in single precision (double for parents in
double): up to ten matrices of its shape at once, however many parents there are.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch.nn.functional import pad

from lora_evo.errors import LoraEvoError
from lora_evo.operators.crossovers import join, row_length
from lora_evo.operators.measured import SlotChild, measured
from lora_evo.operators.operator import Recipe, Request, stream
from lora_evo.peft_files.adapter import Slot
from lora_evo.thin import prepared

_LEAST_DENSITY = 0.001
_SPARE = 8
_ROUNDS = 30
_SETTLED = 1e-6


def merge_sum(request: Request) -> Recipe:
    """Add the updates: D = sum_k w_k D_k, exactly, then cut it to the rank.

    This is the SVD of the sum, whose leading triplets are the best approximation (Eckart & Young
    1936); adding A and B separately instead gives cross terms B_j A_k that no parent has. No rank
    above the sum of the parents' has anything to hold, so such a `rank` is refused.
    """
    weights = factors(request)
    for path in request.paths:
        most = sum(config.rank(path) for config in request.configs)
        if request.config.rank(path) > most:
            raise LoraEvoError(
                f"rank is {request.config.rank(path)}, but the sum of the updates of {path} has "
                f"at most rank {most}; ask for at most that"
            )

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        joint = join(slots)
        wanted = joint.blend(weights)
        return joint.child(wanted, request.config.rank(path), request.config.scale(path))

    return recipe


merge_svd = merge_sum


def merge_ties(request: Request) -> Recipe:
    """Add the entries that agree with the majority: trim, elect a sign, merge.

        D_k' = the `density` largest entries of w_k D_k by magnitude, in each module
        sign = sign(sum_k D_k'), entry by entry
        D    = W sum_k D_k' [sign] / sum_k |w_k| [sign],      W = sum_k |w_k|

    with [sign] = 1 where the entry of D_k' has the elected sign, else 0. TIES-Merging (Yadav et
    al., arXiv 2306.01708) on effective updates, where its lambda is W; PEFT's `ties` trims and
    elects on the entries of A and of B apart, which depend on the factorization. The result has
    any rank, and much may be lost by cutting it: the lineage says how much.
    """
    density = request.number("density", _LEAST_DENSITY, 1.0)
    weights = factors(request)
    whole = math.fsum(map(abs, weights))

    def entries(path: str, slots: Sequence[Slot]) -> torch.Tensor:
        def trimmed(index: int) -> torch.Tensor:
            update = _dense(slots[index]).mul_(weights[index])
            dropped = update.numel() - max(1, round(density * update.numel()))
            if not dropped:
                return update
            sizes = update.abs()
            least = sizes.flatten().kthvalue(dropped + 1).values
            return update.masked_fill_(sizes < least, 0.0)

        signs = trimmed(0)
        for index in range(1, len(slots)):
            signs += trimmed(index)
        signs.sign_()
        total, counted = torch.zeros_like(signs), torch.zeros_like(signs)
        for index, weight in enumerate(weights):
            mine = trimmed(index)
            agrees = mine * signs > 0
            total += mine.mul_(agrees)
            counted.add_(agrees, alpha=abs(weight) / whole)
        # Where no update agrees both are 0.
        return total.div_(counted.masked_fill_(counted == 0, 1.0))

    return _cut(request, entries)


def merge_dare(request: Request) -> Recipe:
    """Add a random share of the entries of each update: D = sum_k w_k (m_k * D_k) / density.

    The m_k are ones with probability `density`, else zeros, drawn for each entry and parent. DARE
    (Yu et al., arXiv 2311.03099; density = 1 - p) on effective updates. The mean of D over seeds
    is the weighted sum. Dropping entries leaves noise of any rank, most of which the cut to the
    child's rank takes away.
    """
    density = request.number("density", _LEAST_DENSITY, 1.0)
    weights = factors(request)

    def entries(path: str, slots: Sequence[Slot]) -> torch.Tensor:
        total = _dense(slots[0]).zero_()
        for index, (weight, slot) in enumerate(zip(weights, slots, strict=True)):
            update = _dense(slot)
            noise = request.noise(path, "entries", str(index))
            points = torch.from_numpy(noise.random(tuple(update.shape), dtype="float32"))
            total.add_(update.masked_fill_(points >= density, 0.0), alpha=weight / density)
        return total

    return _cut(request, entries)


def factors(request: Request) -> tuple[float, ...]:
    """Return the weights of the request as they are, or 1/n each."""
    count = len(request.configs)
    return request.weights or (1.0 / count,) * count


def _dense(slot: Slot) -> torch.Tensor:
    """Return s B A [out, in] in memory of its own."""
    a, b = prepared(slot.A), prepared(slot.B)
    wide = torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float32)
    return (b.to(wide) * slot.scale) @ a.to(wide)


def _cut(request: Request, entries: Callable[[str, Sequence[Slot]], torch.Tensor]) -> Recipe:
    """Return the recipe of the child nearest to what `entries` gives for a module."""

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        rank, scale = request.config.rank(path), request.config.scale(path)
        wanted = entries(path, slots)
        known = [prepared(slot.A).T.to(wanted.dtype) for slot in slots]
        spare = max(_SPARE, rank + _SPARE - sum(slot.rank for slot in slots))
        noise = stream(0, path, "start").standard_normal((wanted.shape[1], spare))
        start = torch.cat([*known, torch.from_numpy(noise).to(wanted.dtype)], dim=1)
        left, values, right = nearest(wanted, start, rank)
        length = row_length(slots[0])
        b, kept = left * (values / (length * scale)), len(values)
        child = Slot(pad(right * length, (0, 0, 0, rank - kept)), pad(b, (0, rank - kept)), scale)
        whole = float(torch.linalg.matrix_norm(wanted))
        rest = float(torch.linalg.matrix_norm(wanted.addmm_(left * values, right, alpha=-1)))
        result = measured(path, slots[0], child)
        return replace(result, truncation_loss=rest / whole if whole else 0.0)

    return recipe


def nearest(
    wanted: torch.Tensor, start: torch.Tensor, rank: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return U [out, k], S [k] and V^T [k, in] of the best approximation of a matrix by a rank.

    k is `rank`, or less where the matrix is narrower. Found by block power iteration from the
    columns of `start` [in, at least rank], until its singular values settle (Halko, Martinsson &
    Tropp 2011, arXiv 0909.4061): a few products with thin matrices in place of a dense SVD.
    """
    rows = torch.linalg.qr(start[:, : min(wanted.shape)]).Q
    before = 0.0
    for _ in range(_ROUNDS):
        columns = torch.linalg.qr(wanted @ rows).Q
        u, values, vt = torch.linalg.svd(columns.T @ wanted, full_matrices=False)
        energy = float(values[:rank].double().square().sum())
        if energy <= before * (1 + _SETTLED):
            break
        before, rows = energy, vt.T
    return columns @ u[:, :rank], values[:rank], vt[:rank]
