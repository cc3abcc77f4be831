"""Mutation by rotation alone: both singular bases turn within their spaces, the spectrum stays.

With D = s*B*A = U S V^T over its k non-zero singular values, the child is

    D' = U R_U(e) S R_V(e)^T V^T,      R(e) = (I - e K / 2)^-1 (I + e K / 2),

K = (M - M^T) / sqrt(4 k) with M standard normal: the Cayley transform of a skew matrix is exactly
orthogonal (Cayley 1846), so D' has the singular values of D, and its column and row space. K_V is
taken with the sign by which both rotations add up: <K_U S, S K_V> <= 0 (turned alike, U and V
would carry equal singular values back to where they were). The step e is solved for so that
|D' - D| = strength * |D|, whatever the rank. One of the two halves of the spectral mutation
`svd_structured`; the rotation of subspaces named by PopuLoRA (arXiv 2605.16727).

A rotation changes D by at most 2 |D|, but some draws, at odd or small k, turn back before they
reach the target. Then the next draw of the same seed is taken; a module that none of them can
change enough is refused by name.

Gauge: B' = U R_U U^T B and A' = A V R_V^T V^T, which commute with any change of gauge: the child's
update depends on the parent's alone (as long as its singular values differ), and A and B keep their
balance. An update of rank 1 has nothing to turn and is refused; a module with D = 0 stays as it
is, and alive.
"""

from lora_evo.operators.mutations.turns import turned
from lora_evo.operators.operator import Operator, Recipe, Request
from lora_evo.operators.parameters import checked_strength


def _prepare(request: Request) -> Recipe:
    strength = checked_strength(request, "subspace_rotation")
    return lambda path, slots: turned(
        path, slots[0], request.seed, strength, rotation=1.0, rescaling=0.0
    )


SUBSPACE_ROTATION = Operator(
    name="subspace_rotation",
    kind="mutation",
    summary="turn both singular bases within their spaces by exact rotations",
    preserves="singular values, column and row space of every update, gauge, balance of A and B",
    prepare=_prepare,
    default_strength=0.15,
    moments="reset",
)
