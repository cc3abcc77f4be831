"""Singular values, norms, distances and retention of updates s B A, which are never formed."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

import torch

from lora_evo.errors import LoraEvoError
from lora_evo.peft.adapter import Adapter, Slot, check_comparable, open_adapter, slot_digest
from lora_evo.peft.directory import PathLike, combine
from lora_evo.thin import one_thread, prepared, triangle

# A singular value below this share of the largest one counts as 0: masked, or never trained.
NEGLIGIBLE = 1e-6
# Below this share of the squared norms the Gram formula is inaccurate, and QR is used.
CANCELLED = 1e-8
# A difference below this share of the norms is rounding, between equal updates of other factors.
ROUNDING = 1e-13


def singular_values(slot: Slot) -> torch.Tensor:
    """Return the singular values of the update s B A, largest first (float64).

    They are those of s R_B R_A^T, for B = Q_B R_B and A^T = Q_A R_A with orthonormal Qs.
    """
    left, right = triangle(slot.B), triangle(slot.A.T)
    values: torch.Tensor = torch.linalg.svdvals(left.mm(right.T).mul(slot.scale))
    return values


def effective_rank(values: torch.Tensor) -> float:
    """Return exp of the entropy of the normalised singular values (Roy & Vetterli 2007)."""
    plain = [value for value in values.tolist() if value > 0.0]
    total = math.fsum(plain)
    shares = [value / total for value in plain]
    return math.exp(-sum(share * math.log(share) for share in shares)) if shares else 0.0


def numerical_rank(values: torch.Tensor) -> int:
    """Return the number of singular values (largest first) above a millionth of the largest."""
    return int((values > NEGLIGIBLE * values[0]).sum())


def dead_pairs(slot: Slot) -> int:
    """Return the number of zero rows of A whose column of B is zero, too: they never learn."""
    a = (slot.A.detach() != 0).any(dim=1)
    b = (slot.B.detach() != 0).any(dim=0)
    return int((~(a | b)).sum())


def any_update(slot: Slot) -> bool:
    """Return whether neither A nor B is 0."""
    return bool(slot.A.any()) and bool(slot.B.any())


@dataclass(frozen=True)
class Gap:
    """Frobenius norms of one or more updates: of both sides and of their difference."""

    first: float
    second: float
    difference: float

    @property
    def distance(self) -> float:
        """Difference divided by the root mean square of both norms: 0 to 2; 1.41 is orthogonal."""
        mean = math.sqrt((self.first**2 + self.second**2) / 2)
        return self.difference / mean if mean else 0.0

    @property
    def relative_change(self) -> float | None:
        """Difference divided by the first norm; None if only the first is zero."""
        if self.first:
            return self.difference / self.first
        return None if self.difference else 0.0

    @property
    def norm_ratio(self) -> float | None:
        """Second norm divided by the first; None if the first is zero."""
        return self.second / self.first if self.first else None

    @property
    def cosine(self) -> float | None:
        """Cosine of the angle between both updates; None if one of them is zero.

        1 - cos = (d^2 - (n1 - n2)^2) / 2 n1 n2, which is accurate for small angles.
        """
        if not self.first or not self.second:
            return None
        excess = self.difference**2 - (self.second - self.first) ** 2
        return min(1.0, max(-1.0, 1.0 - excess / (2 * self.first * self.second)))

    def to_dict(self) -> dict[str, float | None]:
        names = ("distance", "relative_change", "cosine", "norm_ratio")
        return {name: getattr(self, name) for name in names}


def distance(first: Adapter, second: Adapter) -> float:
    """Return the symmetric relative Frobenius distance of the updates of two adapters.

    |D1 - D2| / sqrt((|D1|^2 + |D2|^2) / 2) over all modules together, D = s B A. Ranks and alphas
    may differ. Raises `LoraEvoError` if the adapters have different modules.

    Example:

        >>> parent = load_adapter("members/t0")
        >>> round(distance(parent, mutate(parent, "svd_structured", seed=1, strength=0.15)), 2)
        0.15
    """
    return _compared({"the first": first, "the second": second}, any_base=True).whole.distance


@dataclass(frozen=True)
class Retention:
    """A parent's update (first) and a child's; independent of their factorizations."""

    whole: Gap
    modules: dict[str, Gap]
    """By path, in sorted order."""

    def to_dict(self) -> dict[str, Any]:
        modules = {path: gap.to_dict() for path, gap in self.modules.items()}
        return {"whole": self.whole.to_dict(), "modules": modules}


def retention(
    parent: Adapter | PathLike, child: Adapter | PathLike, *, any_base: bool = False
) -> Retention:
    """Compare a child with a parent, without the base model and without forming dense updates.

    Both are adapters, or directories, which are read module by module. Ranks and alphas may differ.
    any_base: the names of their base models may differ, too. Raises `LoraEvoError`.
    """
    return _compared({"the parent": parent, "the child": child}, any_base)


def _compared(sides: Mapping[str, Adapter | PathLike], any_base: bool) -> Retention:
    named = {t: a if isinstance(a, Adapter) else open_adapter(a) for t, a in sides.items()}
    (one, _), (two, _) = check_comparable(named, any_base=any_base)
    with one_thread():
        gaps = {path: slot_gap(path, one.slot(path), two.slot(path)) for path in one.paths}
    return Retention(total_gap(gaps.values()), gaps)


def total_gap(parts: Iterable[Gap]) -> Gap:
    return Gap(*(math.hypot(*norms) for norms in zip(*map(astuple, parts), strict=True)))


def slot_gap(path: str, first: Slot, second: Slot) -> Gap:
    """Measure two updates of one module and their difference."""
    check_same_ends(path, first, second)
    # <D1, D2> = s1 s2 sum((B1^T B2) * (A1 A2^T)), and |D1 - D2|^2 = |D1|^2 + |D2|^2 - 2 <D1, D2>.
    b1, b2, a1, a2 = map(prepared, (first.B, second.B, first.A, second.A))
    grams = zip(_grams(b1, b2), _grams(a1.T, a2.T), strict=True)
    scales = first.scale**2, first.scale * second.scale, second.scale**2
    one, inner, two = (
        scale * float((low * high).sum()) for scale, (low, high) in zip(scales, grams, strict=True)
    )
    squared = one + two - 2 * inner
    norms = math.sqrt(max(one, 0.0)), math.sqrt(max(two, 0.0))
    if same(first, second):
        return Gap(*norms, 0.0)
    if squared > CANCELLED * (one + two):
        return Gap(*norms, math.sqrt(squared))
    left = triangle(torch.cat((first.scale * b1.double(), -second.scale * b2.double()), dim=1))
    right = triangle(torch.cat((a1.double(), a2.double())).T)
    difference = float(torch.linalg.matrix_norm(left @ right.T))
    return Gap(*norms, difference if difference > ROUNDING * math.hypot(*norms) else 0.0)


def same(first: Slot, second: Slot) -> bool:
    equal = first.scale == second.scale and torch.equal(first.A, second.A)
    return equal and torch.equal(first.B, second.B)


def _grams(one: torch.Tensor, two: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return F^T F, F^T G and G^T G (float64) of two tall factors F and G."""
    f, g = one.double(), two.double()
    return f.T @ f, f.T @ g, g.T @ g


def check_same_ends(path: str, first: Slot, second: Slot) -> None:
    """Raise `LoraEvoError` for two slots on modules of different width."""
    one, two = (f"{slot.A.shape[1]} to {len(slot.B)}" for slot in (first, second))
    if one != two:
        raise LoraEvoError(f"{path} maps {one} in one adapter and {two} in another")


def inspect_directory(directory: PathLike) -> dict[str, Any]:
    """Measure every module of an adapter directory, one at a time. Raises `LoraEvoError`.

    Returns `content_hash`, `config`, and by path in `modules`:

    - `inputs`, `outputs`, `alpha`, `scale`, `dtype`, and `rank`, that of the factors;
    - `norm`, `norm_a`, `norm_b`: |s B A|, |A| and |B| (Frobenius);
    - `effective_rank`, and `numerical_rank`: number of singular values above a millionth of the
      largest;
    - `dead`: number of pairs whose A row and B column are both zero, so that no gradient reaches
      them.
    """
    modules: dict[str, dict[str, Any]] = {}
    digests: dict[str, str] = {}
    reader = open_adapter(directory)
    config = reader.config
    with one_thread():
        for path in reader.paths:
            slot = reader.slot(path)
            values = singular_values(slot)
            digests[path] = slot_digest(slot)
            modules[path] = {
                "inputs": int(slot.A.shape[1]),
                "outputs": int(slot.B.shape[0]),
                "alpha": float(config.alpha(path)),
                "scale": slot.scale,
                "dtype": str(slot.A.dtype).removeprefix("torch."),
                "norm": float(torch.linalg.vector_norm(values)),
                "norm_a": float(torch.linalg.matrix_norm(slot.A.double())),
                "norm_b": float(torch.linalg.matrix_norm(slot.B.double())),
                "rank": slot.rank,
                "effective_rank": effective_rank(values),
                "numerical_rank": numerical_rank(values),
                "dead": dead_pairs(slot),
            }
    content = combine(config, digests)
    return {"content_hash": content, "config": config.to_dict(), "modules": modules}
