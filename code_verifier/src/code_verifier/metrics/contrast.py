"""Two sets of programs side by side."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from code_verifier.errors import CodeVerifierError
from code_verifier.metrics.diversity import rarefied
from code_verifier.metrics.measurement import NUMBERS, Metrics
from code_verifier.metrics.summary import quantile

SHIFTS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class Shift:
    """One number of Metrics in two sets."""

    left_mean: float
    right_mean: float
    left_median: float
    right_median: float
    quantile_shift: dict[str, float]
    """Right minus left at the quantiles SHIFTS, named `p5` to `p95`."""
    ks: float
    """Largest distance of the two distribution functions (Kolmogorov-Smirnov), 0 to 1."""
    superiority: float
    """Chance that a program from the right has more than one from the left, ties half (Vargha
    and Delaney 2000)."""
    cliffs_delta: float
    """2 superiority - 1 (Cliff 1993), from -1 to 1."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two sets of programs: each number of Metrics, and the structures they share."""

    left_programs: int
    right_programs: int
    numbers: dict[str, Shift]
    left_distinct: int
    """Different structures."""
    right_distinct: int
    left_at_equal_size: float
    """Different structures expected among as many programs as the smaller set has."""
    right_at_equal_size: float
    jaccard: float
    """Shared structures / structures of either set."""
    left_in_right: float
    """Share of the left's programs whose structure occurs on the right."""
    right_in_left: float
    shared: tuple[str, ...]
    """Structures of both sets, the most common first; as are the next two."""
    left_only: tuple[str, ...]
    right_only: tuple[str, ...]


def compare_sets(left: Sequence[Metrics], right: Sequence[Metrics]) -> Contrast:
    """Compare two sets of measured programs. Raises CodeVerifierError when one is empty."""
    for name, side in (("left", left), ("right", right)):
        if not side:
            raise CodeVerifierError(f"the {name} set has no program; expected at least one")
    lefts, rights = (Counter(item.structure for item in side) for side in (left, right))
    shared = lefts.keys() & rights.keys()
    size = min(len(left), len(right))
    return Contrast(
        left_programs=len(left),
        right_programs=len(right),
        numbers={
            name: shift_of(*([float(getattr(m, name)) for m in side] for side in (left, right)))
            for name in NUMBERS
        },
        left_distinct=len(lefts),
        right_distinct=len(rights),
        left_at_equal_size=rarefied(lefts.values(), size),
        right_at_equal_size=rarefied(rights.values(), size),
        jaccard=len(shared) / len(lefts.keys() | rights.keys()),
        left_in_right=sum(lefts[key] for key in shared) / len(left),
        right_in_left=sum(rights[key] for key in shared) / len(right),
        shared=_ranked(lefts + rights, shared),
        left_only=_ranked(lefts, lefts.keys() - shared),
        right_only=_ranked(rights, rights.keys() - shared),
    )


def shift_of(left: Sequence[float], right: Sequence[float]) -> Shift:
    """How one number differs between two sets; both have at least one value."""
    a, b = sorted(left), sorted(right)
    more = sum(bisect_left(a, value) + bisect_right(a, value) for value in b)
    superiority = more / (2 * len(a) * len(b))
    return Shift(
        left_mean=sum(a) / len(a),
        right_mean=sum(b) / len(b),
        left_median=quantile(a, 0.5),
        right_median=quantile(b, 0.5),
        quantile_shift={f"p{round(100 * q)}": quantile(b, q) - quantile(a, q) for q in SHIFTS},
        ks=max(abs(bisect_right(a, x) / len(a) - bisect_right(b, x) / len(b)) for x in {*a, *b}),
        superiority=superiority,
        cliffs_delta=2.0 * superiority - 1.0,
    )


def _ranked(counts: Counter[str], keys: set[str]) -> tuple[str, ...]:
    return tuple(sorted(keys, key=lambda key: (-counts[key], key)))
