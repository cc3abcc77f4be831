"""Sums of updates of several parents, held exactly in one small matrix.

Parents k = 1..n have the updates D_k = s_k B_k A_k, of any ranks r_k. With their factors side by
side and one thin factorisation of each side,

    [s_1 B_1, ..., s_n B_n] = Q_B [L_1, ..., L_n],    [A_1^T, ..., A_n^T] = Q_A [H_1, ..., H_n],

every D_k = Q_B (L_k H_k^T) Q_A^T, so that whatever is linear in the updates, or made of their
singular triplets, happens between matrices of at most sum(r_k) rows and columns. (Shared bases
as in KnOTS, arXiv 2410.19735, and Core Space merging, arXiv 2509.17786.) A child is the best
approximation in Frobenius norm (Eckart & Young 1936) of such a matrix C by the first parent's
rank r, C ~ U S V^T, written in the first parent's scale s:

    A = g V^T Q_A^T,    B = Q_B U S / (g s),    g = |A_1| / sqrt(r).

Factorization: the rows of A are orthogonal, of equal length, and as large together as the first
parent's, as LoRA's start has them; B carries the spectrum. A child of lower rank than r therefore
has zero columns in B alone, which training can use: no pair is dead.

The operators are `average`, `dare`, `extrapolate`, `svd_subspace` and `xes`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Slot
from lora_evo.linalg.thin import Span, prepared, span
from lora_evo.operators.measured import SlotChild, unchanged
from lora_evo.operators.operator import (
    Recipe,
    Request,
    checked_fitness,
    checked_number,
    shares,
    stream,
    uniform,
)

MOST_DROPPED = 0.99
_FARTHEST = 4.0


def average(request: Request) -> Recipe:
    """Average the updates: D = sum_k w_k D_k, with weights that add up to 1.

    Averaging A and B separately instead (as LoRA mergers often do, and `factor_average` shows)
    gives sum_jk w_j w_k B_j A_k, whose cross terms depend on the factorization of the parents.
    Independent parents with decaying spectra lose little by the truncation; the loss is reported.
    Without weights all parents count alike. Preserves everything that the parents agree on; the
    child depends on the parents' updates alone.
    """
    return blend(shares(request))


def dare(request: Request) -> Recipe:
    """Add parts of the differences between the parents to the first, made up for.

        D = D_1 + sum_k w_k drop_p(D_k - D_1),      drop_p(E) = sum_j m_j S_j u_j v_j^T / (1 - p),

    with E = U S V^T the difference of the other parent from the first, and m_j = 0 with probability
    p, else 1; the sum is truncated to the first parent's rank. Before that, the mean of D over
    seeds is the weighted mean of the parents. DARE (Yu et al., arXiv 2311.03099) drops entries of
    the difference of a fine-tuned model from its base. Done to the parents themselves that ruins
    them (an adapter crossed with itself ends far from itself: see `factor_dare`), and on the
    entries of updates it would need dense matrices. Here the first parent is the base, singular
    components take the place of entries, and equal parents give themselves. p = 0 is `average`.
    """
    p = checked_number(request, "p", 0.0, MOST_DROPPED)
    weights = shares(request)

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        if alike(slots) or weights[0] == 1.0:
            return unchanged(slots[0])
        joint = join(slots)
        base = joint.updates[0]
        wanted = base.clone()
        for index in range(1, len(slots)):
            u, values, vt = torch.linalg.svd(joint.updates[index] - base, full_matrices=False)
            points = stream(request.seed, path, "drop", str(index)).random(len(values))
            kept = torch.from_numpy(points >= p).double() / (1 - p)
            wanted += weights[index] * (u * (values * kept)) @ vt
        return joint.child(wanted)

    return recipe


def extrapolate(request: Request) -> Recipe:
    """Go from the worse parent through the better one and a little beyond.

        D = D_worse + eta (D_better - D_worse)

    on the updates s*B*A of two parents, truncated to the first parent's rank: the extrapolative
    crossover of PopuLoRA (arXiv 2605.16727), without the cross terms that it has on factors, where
    D is quadratic in eta (`factor_extrapolate`). `fitness=[f1, f2]` says which parent is better;
    without it the first parent counts as the better one, as it does on a tie. eta is drawn once per
    child, evenly from [eta_low, eta_high], or given as `eta`; 1 is the better parent itself, 0 the
    worse.
    """
    return blend(beyond(request))


def svd_subspace(request: Request) -> Recipe:
    """Mix the singular triplets of the parents' updates.

        D_k = sum_j S_kj u_kj v_kj^T  (largest first),      D = sum_j S_(c_j)j u_(c_j)j v_(c_j)j^T

    with the parent c_j of place j drawn on its own, with equal chances or in proportion to the
    weights, and the sum truncated to the first parent's rank. After the SVD-subspace crossover of
    PopuLoRA (arXiv 2605.16727), whose public form always takes the leading triplets from one parent
    and the tail from the other, so that the second parent hardly counts; here every place is open
    to both. A triplet moves whole (u and v together), so that signs of singular vectors do not
    matter, and the joined triplets, which are not orthogonal, are decomposed again. Singular values
    that coincide within one parent leave its triplets undefined, and there the child depends on
    rounding.
    """
    bounds = torch.tensor(shares(request), dtype=torch.float64).cumsum(dim=0)

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        if alike(slots):
            return unchanged(slots[0])
        joint = join(slots)
        count = max(min(slot.rank, *joint.updates[0].shape) for slot in slots)
        points = torch.from_numpy(stream(request.seed, path, "triplet").random(count))
        # The last bound is 1 but for rounding; a point above it belongs to the last parent.
        parents = torch.searchsorted(bounds[:-1].contiguous(), points, right=True)
        wanted = torch.zeros_like(joint.updates[0])
        for index, update in enumerate(joint.updates):
            u, values, vt = torch.linalg.svd(update, full_matrices=False)
            own = torch.where(parents == index, values[:count], 0.0)
            wanted += (u[:, :count] * own) @ vt[:count]
        return joint.child(wanted)

    return recipe


def xes(request: Request) -> Recipe:
    """Take an evolution-strategy step: the mean of the parents, moved towards the fit ones.

        D = sum_k w_k D_k + eta * sum_k (z_k / n) D_k,      z = (f - mean f) / std f,

    on the updates s*B*A, truncated to the first parent's rank. f are the fitnesses
    (`fitness=[...]`) and w the weights of the mean, equal if not given; with weights and no
    fitness, the weights are the fitnesses too. The z add up to 0, so the coefficients add up to 1,
    and equal parents give themselves. Equal fitnesses give the mean. With two parents z = (1, -1):
    eta = 1 on equal weights is a copy of the better one, eta = 0.5 (the default) three quarters of
    it. The z-scored direction is that of evolution strategies (Salimans et al., arXiv 1703.03864),
    used on factors by peers (`factor_xes`).
    """
    return blend(stepped(request))


def beyond(request: Request) -> tuple[float, float]:
    """Return the coefficients of both parents, (eta, 1 - eta) in the order of better and worse."""
    if len(request.configs) != 2:
        raise LoraEvoError(
            f"extrapolation goes from one parent to another; got {len(request.configs)} parents, "
            "expected 2"
        )
    if request.weights is not None:
        raise LoraEvoError(
            "extrapolation takes no weights; tell which parent is better with --set "
            "'fitness=[0.7, 0.4]', or put the better one first"
        )
    fitness = checked_fitness(request) or (1.0, 0.0)
    if request.parameters["eta"] is None:
        low = checked_number(request, "eta_low", 0.0, _FARTHEST)
        high = checked_number(request, "eta_high", low, _FARTHEST)
        eta = low + (high - low) * uniform(request.seed, "eta")
    else:
        eta = checked_number(request, "eta", 0.0, _FARTHEST)
    return (eta, 1 - eta) if fitness[0] >= fitness[1] else (1 - eta, eta)


def stepped(request: Request) -> tuple[float, ...]:
    """Return the coefficients of the parents, w_k + eta z_k / n; they add up to 1."""
    fitness = checked_fitness(request) or request.weights
    if fitness is None:
        raise LoraEvoError(
            "xes needs to know how fit the parents are: give --set 'fitness=[0.7, 0.4]', one "
            "number for each parent, or weights"
        )
    eta = checked_number(request, "eta", 0.0, 4.0)
    count = len(fitness)
    middle = math.fsum(fitness) / count
    spread = math.sqrt(math.fsum((value - middle) ** 2 for value in fitness) / count)
    if spread <= 1e-12 * max(abs(value) for value in fitness):
        return shares(request)
    pairs = zip(shares(request), fitness, strict=True)
    return tuple(share + eta * (value - middle) / spread / count for share, value in pairs)


@dataclass(frozen=True, eq=False)
class JointCore:
    """Updates of n parents in common orthonormal bases: D_k = Q_B `updates[k]` Q_A^T."""

    first: Slot
    left: Span
    right: Span
    updates: tuple[torch.Tensor, ...]
    """[min(out, sum r_k), min(in, sum r_k)] each, float64."""

    def child(self, wanted: torch.Tensor) -> SlotChild:
        """Return the child nearest to Q_B `wanted` Q_A^T, in the first parent's rank and scale."""
        slot, own = self.first, self.updates[0]
        norm = float(torch.linalg.matrix_norm(own))
        u, values, vt = torch.linalg.svd(wanted)
        kept = min(slot.rank, len(values))
        nearest = (u[:, :kept] * values[:kept]) @ vt[:kept]
        whole = float(torch.linalg.vector_norm(values))
        lost = float(torch.linalg.vector_norm(values[kept:])) / whole if whole else 0.0
        change = float(torch.linalg.matrix_norm(nearest - own))
        size = float(torch.linalg.matrix_norm(prepared(slot.A).double()))
        length = size / slot.rank**0.5 or 1.0
        a = self.right.spread(vt[: slot.rank].T * length).T
        b = self.left.spread(u[:, :kept] * (values[:kept] / (length * slot.scale)))
        # Zeros where the module is narrower than its rank: there are no more directions.
        a = pad(a, (0, 0, 0, slot.rank - len(a)))
        b = pad(b, (0, slot.rank - kept))
        return SlotChild(
            Slot(a, b, slot.scale),
            values[:kept],
            change / norm if norm else (None if change else 0.0),
            norm,
            truncation_loss=lost,
        )


def join(slots: Sequence[Slot]) -> JointCore:
    """Bring the parents' updates of one module into common bases; ranks and scales may differ."""
    # Scales stay out of the factorisation, where they would only spoil the condition of the stack.
    left = span([prepared(slot.B) for slot in slots])
    right = span([prepared(slot.A).T for slot in slots])
    parts = zip(slots, left.uppers, right.uppers, strict=True)
    updates = tuple((slot.scale * low) @ high.T for slot, low, high in parts)
    return JointCore(slots[0], left, right, updates)


def alike(slots: Sequence[Slot]) -> bool:
    """Return whether all slots hold the same numbers."""
    first = slots[0]
    return all(
        slot.scale == first.scale and _equal(slot.A, first.A) and _equal(slot.B, first.B)
        for slot in slots[1:]
    )


def blend(coefficients: Sequence[float]) -> Recipe:
    """Return the recipe of the child sum_k c_k D_k, for coefficients c_k that add up to 1.

    Gives the first parent back bit for bit when all parents are equal or the others have no part.
    """

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        if alike(slots) or (coefficients[0] == 1.0 and not any(coefficients[1:])):
            return unchanged(slots[0])
        joint = join(slots)
        parts = zip(coefficients, joint.updates, strict=True)
        return joint.child(torch.stack([share * update for share, update in parts]).sum(dim=0))

    return recipe


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    # The first row tells most unequal tensors apart, without reading the rest.
    return torch.equal(one[:1], two[:1]) and torch.equal(one, two)
