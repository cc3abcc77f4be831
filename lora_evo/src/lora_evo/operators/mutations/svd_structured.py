"""Mutation by the singular value decomposition: turn both subspace bases, rescale the spectrum.

With D = s*B*A = U S V^T over its k non-zero singular values, the child is

    D' = U R_U(e) S exp(g(e z)) R_V(e)^T V^T,      R(e) = (I - e K / 2)^-1 (I + e K / 2),

z standard normal, g(x) = c tanh(x / c) with c = log 8, and K = (M - M^T) / sqrt(4 k) for M standard
normal: the Cayley transform of a skew matrix is exactly orthogonal (Cayley 1846), so U R_U and
V R_V stay orthonormal. (The first-order form I + e K of public implementations is not, and grows
with the rank.) K_V has the sign by which both rotations add up. The step e is solved for so that
|D' - D| = strength * |D| in Frobenius norm, whatever the rank; a draw that cannot reach it makes
way for the next one. The operator is the "SVD-structured" spectral mutation of PopuLoRA (arXiv
2605.16727).

Gauge: B' = U R_U E U^T B and A' = A V E R_V^T V^T with E = exp(g / 2), which multiply to D', become
B and A as e goes to 0, and commute with any change of gauge (B G, G^-1 A): the balance of norms
between A and B is the parent's. Signs of singular vectors are fixed by a probe, so that the child's
update depends on the parent's update alone (as long as its singular values differ).

A module with D = 0 (a fresh LoRA, B = 0) has no spectrum: it stays as it is, and alive.
"""

from lora_evo.operators.mutations.turns import turned
from lora_evo.operators.operator import Operator, Recipe, Request
from lora_evo.operators.parameters import checked_number, checked_strength


def _prepare(request: Request) -> Recipe:
    strength = checked_strength(request, "svd_structured")
    rotation = checked_number(request, "rotation", 0.0, 100.0)
    return lambda path, slots: turned(
        path, slots[0], request.seed, strength, rotation, rescaling=1.0
    )


SVD_STRUCTURED = Operator(
    name="svd_structured",
    kind="mutation",
    summary="turn both singular bases by exact rotations and rescale the singular values",
    preserves="column and row space of every update, rank, gauge, norm balance of A and B",
    prepare=_prepare,
    defaults={"rotation": 1.0},
    default_strength=0.15,
    moments="reset",
)
