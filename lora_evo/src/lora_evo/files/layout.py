"""How the two factors of a layer lie in the file: as PEFT shapes and names them.

Every factor pair is held as two matrices, A [r, n] and B [m, r], so that s*B*A is the update as a
matrix whatever the layer is:

    linear      A [r, in]                 B [out, r]                 D [out, in]
    embedding   A [r, num_embeddings]     B [dim, r]                 D^T is added to the table
    conv        A [r, in, k1, k2, ...]    B [out, r, 1, 1, ...]      D [out, in * k1 * k2 * ...]

The last axes of a convolution are flattened in row-major order. (PEFT's `LoraLayer` classes.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lora_evo.errors import LoraEvoError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The kind of a layer."""

    kind: Literal["linear", "embedding", "conv"] = "linear"
    kernel: Shape = ()
    """Of a convolution: `(3, 3)`; empty for the others."""

    def __str__(self) -> str:
        return " ".join((self.kind, "x".join(map(str, self.kernel)))).strip()

    def stored(self, a: Sequence[int], b: Sequence[int]) -> tuple[Shape, Shape]:
        """Shapes in the file of factors A [r, n] and B [m, r]."""
        if self.kind != "conv":
            return tuple(a), tuple(b)
        inputs = a[1] // math.prod(self.kernel)
        return (a[0], inputs, *self.kernel), (b[0], b[1], *(1 for _ in self.kernel))


LINEAR = Layout()


def layout_from_shapes(path: str, a: Shape, b: Shape, *, embedding: bool) -> Layout:
    """The layout of a stored pair; raises `LoraEvoError` when B A cannot be its update."""
    if embedding:
        _check_axes(path, a, b, (2,), "an embedding: [r, num_embeddings] and [dim, r]")
        return Layout("embedding")
    if len(a) <= 2:
        _check_axes(path, a, b, (2,), "a linear layer: [r, in] and [out, r]")
        return LINEAR
    _check_axes(path, a, b, (3, 4, 5), "a convolution: [r, in, k...] and [out, r, 1...]")
    if any(size != 1 for size in b[2:]):
        raise LoraEvoError(
            f"lora_B of {path} is {list(b)}; expected a convolution with a kernel of ones, "
            "[out, r, 1...]: B A is not its update"
        )
    if a[0] != b[1] and b[1] and a[0] % b[1] == 0:
        raise LoraEvoError(
            f"{path} is a convolution in {a[0] // b[1]} groups (lora_A is {list(a)}, lora_B is "
            f"{list(b)}), whose B and A do not multiply to its update; leave it out of "
            "target_modules and train again"
        )
    return Layout("conv", a[2:])


def check_same_layouts(path: str, layouts: Sequence[Layout]) -> None:
    """Refuse parents that hold one module as layers of different kinds."""
    for number, other in enumerate(layouts[1:], start=2):
        if other != layouts[0]:
            raise LoraEvoError(
                f"{path} is a layer of kind {layouts[0]} in parent 1 and {other} in parent "
                f"{number}; expected adapters of the same base model"
            )


def flat(shape: Shape) -> tuple[int, int]:
    """A stored shape as that of a matrix: everything after the first axis in one."""
    return shape[0], math.prod(shape[1:])


def _check_axes(path: str, a: Shape, b: Shape, allowed: tuple[int, ...], expected: str) -> None:
    if len(a) not in allowed or len(b) != len(a):
        raise LoraEvoError(
            f"{path} has lora_A of shape {list(a)} and lora_B of shape {list(b)}; "
            f"expected those of {expected}"
        )
