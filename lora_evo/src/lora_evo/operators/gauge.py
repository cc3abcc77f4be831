"""Which of the many factor pairs of an update a child is written in.

(B G, G^-1 A) is the same update for every invertible G. Training is not: a learning rate meets A
and B apart, and LoRA starts with long rows in A and zeros in B. With B A = U S V^T, `gauge=` takes

* `operator`: what the operator itself writes, which its page states (the default);
* `balanced`: B = U sqrt(S), A = sqrt(S) V^T: equal norms on both sides, pair by pair, as an SVD
  split evenly gives;
* `parent`: A = rho V^T, B = U S / rho, with rho the root mean square length of the rows of the
  first parent's A: A keeps its size, and B carries the spectrum.

`balanced` and `parent` turn the pairs into singular components, so optimiser moments are lost. A
pair without a singular value keeps a row of A (as long as the smallest living one) and a column of
zeros in B, so that it stays alive. An update of zero is left as it is.
"""

from dataclasses import replace

import torch

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Slot
from lora_evo.linalg.spectrum import NEGLIGIBLE
from lora_evo.linalg.thin import prepared, thin
from lora_evo.operators.operator import SlotChild

GAUGES = ("operator", "balanced", "parent")


def checked_gauge(gauge: object) -> str:
    """The policy of that name; `LoraEvoError` when there is none."""
    if gauge not in GAUGES:
        raise LoraEvoError(f"gauge is {gauge!r}; expected one of {', '.join(GAUGES)}")
    return str(gauge)


def in_gauge(child: SlotChild, parent: Slot, gauge: str) -> SlotChild:
    """The same update written under another policy; `parent` is the first parent's slot."""
    slot = child.slot
    if gauge == "operator":
        return child
    left, right = thin(prepared(slot.B)), thin(prepared(slot.A).T)
    u, values, vt = torch.linalg.svd(left.upper @ right.upper.T, full_matrices=False)
    if float(values[0]) == 0.0:
        return child
    alive = values > NEGLIGIBLE * values[0]
    if gauge == "balanced":
        lengths = values.sqrt()
        lengths[~alive] = lengths[alive].min()
    else:
        size = torch.linalg.vector_norm(prepared(parent.A), dtype=torch.float64)
        lengths = (size / parent.rank**0.5).expand(len(values))
    if float(lengths.min()) == 0.0:
        raise LoraEvoError("gauge='parent' needs a parent with an A that is not zero")
    a = right.spread(vt.T * lengths).T
    b = left.spread(u * torch.where(alive, values / lengths, 0.0))
    rank, count = slot.rank, len(values)
    if count < rank:  # a module narrower than its rank: the pairs beyond stay as they are, unused
        a = torch.cat((a.to(slot.A), slot.A[count:]))
        b = torch.cat((b.to(slot.B), torch.zeros_like(slot.B[:, count:])), dim=1)
    return replace(child, slot=replace(slot, A=a, B=b), moments_valid=False)
