"""Crossovers: sums of the parents' updates, whole slots of parents, and sums of factors.

`average`, `dare`, `extrapolate` and `svd_subspace` act on updates, whose sums are exact in one
small matrix. Parents k = 1..n have the updates D_k = s_k B_k A_k, of any ranks r_k. With their
factors side by side and one thin factorisation of each side,

    [s_1 B_1, ..., s_n B_n] = Q_B [L_1, ..., L_n],    [A_1^T, ..., A_n^T] = Q_A [H_1, ..., H_n],

every D_k = Q_B (L_k H_k^T) Q_A^T, so that all sums are of matrices with at most sum(r_k) rows and
columns (shared bases as in KnOTS, arXiv 2410.19735, and Core Space merging, arXiv 2509.17786). A
child is the best approximation in Frobenius norm (Eckart & Young 1936) of such a matrix C by the
first parent's rank r, C ~ U S V^T, with the first parent's scale s:

    A = g V^T Q_A^T,    B = Q_B U S / (g s),    g = |A_1| / sqrt(r).

If C has a lower rank, B has zero columns and A does not, so that every pair can learn.

The `factor_*` are baselines that combine A with A and B with B, as PopuLoRA's public code (arXiv
2605.16727) and most LoRA mergers do. They depend on the factorization, and the product of two sums
has cross terms B_j A_k that no parent has. If scales differ, B_k counts as (s_k / s_1) B_k.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from lora_evo.compare import Gap, same
from lora_evo.errors import LoraEvoError
from lora_evo.operators.operator import Recipe, Setup
from lora_evo.operators.slot_child import SlotChild, measured, unchanged
from lora_evo.peft.adapter import Slot
from lora_evo.thin import prepared, thin

MOST_DROPPED = 0.99
_FARTHEST = 4.0


def average(setup: Setup) -> Recipe:
    """Average the updates: D = sum_k w_k D_k, with weights that add up to 1.

    The child depends only on the parents' updates, and keeps what is common to them. The lineage
    has the truncation loss at the first parent's rank.
    """
    return blend(setup.shares())


def dare(setup: Setup) -> Recipe:
    """Add rescaled parts of the differences between the parents to the first.

        D = D_1 + sum_k w_k drop_p(D_k - D_1),      drop_p(E) = sum_j m_j S_j u_j v_j^T / (1 - p),

    with E = U S V^T the difference of the other parent from the first, and m_j = 0 with probability
    p, else 1; the sum is truncated to the first parent's rank. Before that, the mean of D over
    seeds is the weighted mean of the parents. DARE (Yu et al., arXiv 2311.03099) drops entries of
    the difference of a fine-tuned model from its base; here the first parent is the base, singular
    components take the place of entries, and equal parents give themselves. p = 0 is `average`.
    """
    p = setup.number("p", 0.0, MOST_DROPPED)
    weights = setup.shares()

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        if alike(slots) or weights[0] == 1.0:
            return unchanged(slots[0])
        joint = join(slots)
        base = joint.updates[0]
        target = base.clone()
        for index in range(1, len(slots)):
            u, values, vt = torch.linalg.svd(joint.updates[index] - base, full_matrices=False)
            points = setup.noise(path, "drop", str(index)).random(len(values))
            factors = torch.from_numpy(points >= p).double() / (1 - p)
            target += weights[index] * (u * (values * factors)) @ vt
        return joint.child(target)

    return recipe


def extrapolate(setup: Setup) -> Recipe:
    """Go from the worse parent through the better one and a little beyond.

        D = D_worse + eta (D_better - D_worse)

    on the updates s*B*A of two parents, truncated to the first parent's rank: the extrapolative
    crossover of PopuLoRA (arXiv 2605.16727), without the cross terms that it has on factors, where
    D is quadratic in eta (`factor_extrapolate`). `fitness=[f1, f2]` says which parent is better;
    without it the first parent counts as the better one, as it does on a tie. eta is drawn once per
    child, evenly from [eta_low, eta_high], or given as `eta`; 1 is the better parent itself, 0 the
    worse.
    """
    return blend(beyond(setup))


def svd_subspace(setup: Setup) -> Recipe:
    """Mix the singular triplets of the parents' updates.

        D_k = sum_j S_kj u_kj v_kj^T  (largest first),      D = sum_j S_(c_j)j u_(c_j)j v_(c_j)j^T

    with the parent c_j of place j drawn on its own, with equal chances or in proportion to the
    weights, and the sum truncated to the first parent's rank. After the SVD-subspace crossover of
    PopuLoRA (arXiv 2605.16727), whose public form takes all leading triplets from one parent.
    Singular values that coincide within one parent leave its triplets undefined.
    """
    bounds = torch.tensor(setup.shares(), dtype=torch.float64).cumsum(dim=0)

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        if alike(slots):
            return unchanged(slots[0])
        count = max(min(slot.rank, len(slot.B), slot.A.shape[1]) for slot in slots)
        points = torch.from_numpy(setup.noise(path, "triplet").random(count))
        # The last bound is 1 but for rounding; a point above it belongs to the last parent.
        parents = torch.searchsorted(bounds[:-1].contiguous(), points, right=True)
        joint = join(slots)
        target = torch.zeros_like(joint.updates[0])
        for index, update in enumerate(joint.updates):
            u, values, vt = torch.linalg.svd(update, full_matrices=False)
            shares = torch.where(parents[: len(values)] == index, values[:count], 0.0)
            target += (u[:, :count] * shares) @ vt[:count]
        return joint.child(target)

    return recipe


def beyond(setup: Setup) -> tuple[float, float]:
    """Return the coefficients of both parents, (eta, 1 - eta) in the order of better and worse."""
    if len(setup.configs) != 2:
        raise LoraEvoError(f"extrapolation takes 2 parents; got {len(setup.configs)}")
    if setup.weights is not None:
        raise LoraEvoError(
            "extrapolation takes no weights, but --set 'fitness=[0.7, 0.4]', one for each parent"
        )
    fitness = setup.fitness() or (1.0, 0.0)
    if setup.parameters["eta"] is None:
        low = setup.number("eta_low", 0.0, _FARTHEST)
        high = setup.number("eta_high", low, _FARTHEST)
        eta = low + (high - low) * setup.uniform("eta")
    else:
        eta = setup.number("eta", 0.0, _FARTHEST)
    return (eta, 1 - eta) if fitness[0] >= fitness[1] else (1 - eta, eta)


@dataclass(frozen=True, eq=False)
class JointCore:
    """Updates of n parents in common orthonormal bases: D_k = Q_B `updates[k]` Q_A^T."""

    first: Slot
    q_left: torch.Tensor
    q_right: torch.Tensor
    updates: tuple[torch.Tensor, ...]
    """[min(out, sum r_k), min(in, sum r_k)] each, float64."""

    def blend(self, coefficients: Sequence[float]) -> torch.Tensor:
        """Return the core of sum_k c_k D_k."""
        parts = zip(coefficients, self.updates, strict=True)
        return torch.stack([share * update for share, update in parts]).sum(dim=0)

    def child(
        self, target: torch.Tensor, rank: int | None = None, scale: float | None = None
    ) -> SlotChild:
        """Return the child nearest to Q_B `target` Q_A^T; rank and scale: by default the first
        parent's."""
        slot, parent = self.first, self.updates[0]
        rank, scale = rank or slot.rank, scale or slot.scale
        norm = float(torch.linalg.matrix_norm(parent))
        u, values, vt = torch.linalg.svd(target)
        k = min(rank, len(values))
        nearest = (u[:, :k] * values[:k]) @ vt[:k]
        size = float(torch.linalg.vector_norm(values))
        loss = float(torch.linalg.vector_norm(values[k:])) / size if size else 0.0
        change = float(torch.linalg.matrix_norm(nearest - parent))
        length = row_length(slot)
        a = (self.q_right @ (vt[:rank].T * length)).T
        b = self.q_left @ (u[:, :k] * (values[:k] / (length * scale)))
        relative = Gap(norm, size, change).relative_change
        return SlotChild(
            filled(a, b, rank, scale), values[:k], relative, norm, truncation_loss=loss
        )


def join(slots: Sequence[Slot]) -> JointCore:
    """Return the parents' updates of one module in common bases; ranks and scales may differ."""
    # Without the scales, which would worsen the condition number of the stacked factors.
    left, right = thin(*(slot.B for slot in slots)), thin(*(slot.A.T for slot in slots))
    ranks = [slot.rank for slot in slots]
    uppers = (side.R.split_with_sizes(ranks, dim=1) for side in (left, right))
    parts = zip(slots, *uppers, strict=True)
    updates = tuple((slot.scale * low) @ high.T for slot, low, high in parts)
    return JointCore(slots[0], left.Q, right.Q, updates)


def filled(a: torch.Tensor, b: torch.Tensor, rank: int, scale: float) -> Slot:
    """Return a slot of this rank, filled up with repeated rows of A and zero columns of B."""
    zeros = b.new_zeros(len(b), rank - b.shape[1])  # an error where it is above the rank
    return Slot(a[torch.arange(rank) % len(a)], torch.cat([b, zeros], dim=1), scale)


def row_length(slot: Slot) -> float:
    """Return the root mean square length of the rows of A; 1 if all are zero."""
    return float(torch.linalg.matrix_norm(prepared(slot.A).double())) / slot.rank**0.5 or 1.0


def alike(slots: Sequence[Slot]) -> bool:
    return all(same(slots[0], slot) for slot in slots[1:])


def blend(coefficients: Sequence[float]) -> Recipe:
    """Return the recipe of the child sum_k c_k D_k, for coefficients c_k that add up to 1."""

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        if alike(slots) or (coefficients[0] == 1.0 and not any(coefficients[1:])):
            return unchanged(slots[0])
        joint = join(slots)
        return joint.child(joint.blend(coefficients))

    return recipe


def slot_swap(setup: Setup) -> Recipe:
    """Take the pair (A, B) of every module whole from one parent.

    The layer-wise crossover of PopuLoRA (arXiv 2605.16727), the only one that keeps optimiser
    moments valid (they move with the slot). A unit is one module (`level=module`), all modules of a
    block, such as the attention of a layer (`level=block`), or all of one numbered layer
    (`level=layer`). Every unit draws its parent, with equal chances or in proportion to the
    weights. If all units have one parent, a random unit gets another.
    """
    setup.check_equal_ranks(
        "slot_swap moves factors whole: give it parents of equal rank, or use average"
    )
    units = setup.units()
    chosen = assign(setup, sorted(set(units.values())))
    return lambda path, slots: _take(path, slots, chosen[units[path]])


def _take(path: str, slots: Sequence[Slot], source: int) -> SlotChild:
    first, taken = slots[0], slots[source]
    same_scale = taken.scale == first.scale
    # With the first parent's scale the update stays the same: (s_k / s_1) B_k.
    b = taken.B if same_scale else taken.B.double() * (taken.scale / first.scale)
    child = unchanged(first) if source == 0 else measured(path, first, taken)
    slot = Slot(taken.A, b, first.scale)
    return replace(child, slot=slot, source=source, moments_valid=same_scale)


def assign(setup: Setup, units: Sequence[str]) -> Mapping[str, int]:
    """Return the parent (from 0) of every unit, drawn by the seed and the unit's name."""
    weights = setup.weights or (1.0,) * len(setup.configs)
    chosen = {unit: _draw(weights, setup.uniform(unit, "parent")) for unit in units}
    possible = sum(weight > 0 for weight in weights)
    if len(units) > 1 and possible > 1 and len(set(chosen.values())) == 1:
        unit = units[int(setup.uniform("odd unit") * len(units))]
        odds = [0.0 if n == chosen[unit] else weight for n, weight in enumerate(weights)]
        chosen[unit] = _draw(odds, setup.uniform("odd parent"))
    return chosen


def _draw(weights: Sequence[float], point: float) -> int:
    bounds = list(accumulate(weights))
    return bisect_right(bounds, point * bounds[-1], hi=len(bounds) - 1)


def factor_dare(setup: Setup) -> Recipe:
    """Drop entries of the factors: A = sum_k w_k (m_k * A_k) / (1 - p), and B likewise.

    A baseline; prefer `dare`. DARE (arXiv 2311.03099) drops entries, m_k zeros with chance p and
    else ones. At p = 0.7, the default as in public code, an adapter crossed with itself lands about
    twice its norm away from itself.
    """
    p = setup.number("p", 0.0, MOST_DROPPED)

    def thinned(factor: torch.Tensor, *key: str) -> torch.Tensor:
        points = setup.noise(*key).random(tuple(factor.shape))
        return factor * torch.from_numpy(points >= p) / (1 - p)

    return _sum(setup, "dare", setup.shares(), thinned)


def factor_extrapolate(setup: Setup) -> Recipe:
    """Extrapolate the factors: A = A_worse + eta (A_better - A_worse), and B likewise.

    A baseline; prefer `extrapolate`. eta is from [1, 1.5] as in public code; the update is
    quadratic in it.
    """
    return _sum(setup, "extrapolate", beyond(setup))


def _sum(
    setup: Setup,
    better: str,
    coefficients: Sequence[float],
    keep: Callable[[torch.Tensor, str, str, str], torch.Tensor] = lambda factor, *key: factor,
) -> Recipe:
    """Return the recipe of sum_k c_k keep(A_k), and B likewise, for coefficients c_k."""
    setup.check_equal_ranks(
        f"factor_{better} adds factors entry by entry and needs equal ranks; {better} does not"
    )

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        sums = []
        for side in ("A", "B"):
            parts = []
            for index, (share, slot) in enumerate(zip(coefficients, slots, strict=True)):
                factor = prepared(getattr(slot, side)).double()
                if side == "B":
                    factor = factor * (slot.scale / slots[0].scale)
                parts.append(share * keep(factor, path, str(index), side))
            sums.append(torch.stack(parts).sum(dim=0))
        return measured(path, slots[0], Slot(sums[0], sums[1], slots[0].scale))

    return recipe
