"""A rule of thumb: how soon a child is likely to be back at its parent's level."""

from typing import Literal

Verdict = Literal["mild", "borderline", "strong"]

# From a study of 41 children of 4-layer MLPs with LoRA of rank 16 on synthetic data, recovery
# being a loss within 3 % of the parent's. Steps to it, by relative change: up to 14 below 0.2, up
# to 36 below 0.4, 0 to more than 240 above; by KL ratio: up to 36 below 0.2, 80 and more above
# 0.35. They rank with the change (Spearman 0.83 and 0.87) and with the KL (0.91 and 0.85).
_CHANGE = (0.2, 0.4)
_KL_RATIO = (0.1, 0.2)

HINT = (
    "mild, borderline and strong are hints from a study of small MLPs with rank-16 adapters: "
    "there, children with a change below 0.2 were back at their parent's loss within 14 steps, "
    "with a change below 0.4 or a KL ratio below 0.2 within 36; only training shows the recovery"
)


def verdict(relative_change: float | None, kl_ratio: float | None = None) -> Verdict:
    """Judge by the KL ratio where it is known, which sees the inputs, else by the relative change.

    mild: change below 0.2 or KL ratio below 0.1; strong: change above 0.4 or KL ratio above 0.2,
    or nothing to compare with (a parent whose update is zero).
    """
    value, (low, high) = (relative_change, _CHANGE) if kl_ratio is None else (kl_ratio, _KL_RATIO)
    if value is None or value > high:
        return "strong"
    return "mild" if value < low else "borderline"
