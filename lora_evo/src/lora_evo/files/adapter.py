"""An adapter in memory: a configuration, and one pair of factors per module."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.files.layout import LINEAR, Layout

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@dataclass(frozen=True, eq=False)
class Slot:
    """The factors of one module; its update as a matrix is `scale * B @ A`."""

    A: torch.Tensor
    """[r, n], for every kind of layer; n = in for a linear one."""
    B: torch.Tensor
    """[m, r]; m = out for a linear layer."""
    scale: float
    layout: Layout = LINEAR
    """The kind of layer, and how the factors lie in the file."""

    @property
    def rank(self) -> int:
        """Number of rank-one pairs, dead or alive."""
        return int(self.A.shape[0])


@dataclass(frozen=True, eq=False)
class Adapter:
    """A PEFT configuration with its slots.

    Raises `LoraEvoError` when a slot contradicts the configuration or itself; values are checked
    where they are read or used (`check_finite`), not here.
    """

    config: AdapterConfig
    slots: Mapping[str, Slot]
    """By module path without PEFT's prefix: `model.layers.0.self_attn.q_proj`."""

    def __post_init__(self) -> None:
        if not self.slots:
            raise LoraEvoError("the adapter has no slots: it would change no module")
        for path, slot in self.slots.items():
            check_slot(self.config, path, slot)

    @property
    def paths(self) -> tuple[str, ...]:
        """Module paths in sorted order."""
        return tuple(sorted(self.slots))

    def slot(self, path: str) -> Slot:
        """The slot at `path`, after a check for NaN and infinity."""
        check_finite(path, self.slots[path])
        return self.slots[path]


class SlotSource(Protocol):
    """What is read module by module: an `Adapter` in memory or an `AdapterReader` on disk."""

    @property
    def config(self) -> AdapterConfig: ...

    @property
    def paths(self) -> tuple[str, ...]: ...

    def slot(self, path: str) -> Slot: ...


def check_slot(config: AdapterConfig, path: str, slot: Slot) -> None:
    """Refuse a slot whose shapes, dtype, rank or scale do not fit its configuration."""
    check_shapes(config, path, tuple(slot.A.shape), tuple(slot.B.shape))
    if slot.A.shape[1] % math.prod(slot.layout.kernel):
        raise LoraEvoError(
            f"lora_A of {path} is {list(slot.A.shape)}, which is not a multiple of its layout's "
            f"kernel {list(slot.layout.kernel)}"
        )
    for name, factor in (("A", slot.A), ("B", slot.B)):
        if factor.dtype not in DTYPES:
            given, *known = (str(dtype).removeprefix("torch.") for dtype in (factor.dtype, *DTYPES))
            raise LoraEvoError(
                f"lora_{name} of {path} is {given}; expected one of {', '.join(known)}"
            )
    expected = config.scale(path)
    if not math.isclose(slot.scale, expected, rel_tol=1e-6):
        raise LoraEvoError(
            f"the slot {path} has scale {slot.scale}, but its configuration says {expected} "
            "(alpha/r, or alpha/sqrt(r) with use_rslora); build it with config.scale(path)"
        )


def check_shapes(config: AdapterConfig, path: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Refuse shapes of (flattened) factors that are not a pair of the configured rank."""
    if len(a) != 2 or len(b) != 2:
        raise LoraEvoError(
            f"{path} has A of shape {list(a)} and B of shape {list(b)}; a slot holds matrices, "
            "[r, n] and [m, r]: flatten the kernel and set the slot's layout"
        )
    if a[0] != b[1]:
        raise LoraEvoError(
            f"the pair of {path} does not fit together: lora_A is {list(a)}, lora_B is {list(b)}; "
            "expected [r, in] and [out, r] with one r"
        )
    if 0 in a or 0 in b:
        raise LoraEvoError(f"{path} is empty: lora_A is {list(a)}, lora_B is {list(b)}")
    if a[0] != config.rank(path):
        raise LoraEvoError(
            f"{path} has rank {a[0]}, but the configuration says {config.rank(path)}; "
            "set r or rank_pattern to what the weights hold"
        )
    if not config.targets(path):
        raise LoraEvoError(
            f"the weights hold {path}, which target_modules does not name; PEFT would drop it "
            "silently: add it to target_modules"
        )


def all_finite(factor: torch.Tensor) -> bool:
    """Whether no value is NaN or infinite.

    One sum tells: NaN and infinity survive every addition. Only where it is not finite itself,
    which an overflow of large values can cause too, every value is looked at.
    """
    values = factor.detach()
    narrow = values.dtype == torch.float16
    total = values.sum(dtype=torch.float32) if narrow else values.sum()
    return bool(torch.isfinite(total)) or bool(torch.isfinite(values).all())


def check_finite(path: str, slot: Slot) -> None:
    """Refuse NaN and infinity, naming the tensor."""
    for name, factor in (("A", slot.A), ("B", slot.B)):
        if not all_finite(factor):
            bad = int((~torch.isfinite(factor)).sum())
            raise LoraEvoError(
                f"lora_{name} of {path} holds {bad} NaN or infinite value(s); "
                "go back to a checkpoint from before training diverged"
            )
