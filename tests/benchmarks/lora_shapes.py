"""Synthetic adapters of the shapes of Qwen2.5-7B, or of a reduced model."""

from pathlib import Path

import torch

from lora_evo import Adapter, AdapterConfig, Slot, save_adapter

# Module: (outputs, inputs).
FULL = {
    "self_attn.q_proj": (3584, 3584),
    "self_attn.k_proj": (512, 3584),
    "self_attn.v_proj": (512, 3584),
    "self_attn.o_proj": (3584, 3584),
    "mlp.gate_proj": (18944, 3584),
    "mlp.up_proj": (18944, 3584),
    "mlp.down_proj": (3584, 18944),
}
REDUCED = {"self_attn.q_proj": (160, 192), "mlp.down_proj": (192, 320)}
KINDS = ("identical", "flipped", "rotated", "sibling", "independent")


def adapter(
    seed: int,
    rank: int,
    dtype: torch.dtype,
    shapes: dict[str, tuple[int, int]] = FULL,
    layers: int = 28,
    alpha: float | None = None,
) -> Adapter:
    """A at PEFT's initial scale, the columns of B decaying as 1/j, as after training."""
    noise = torch.Generator().manual_seed(seed)
    config = AdapterConfig.new(
        r=rank,
        lora_alpha=alpha or 2 * rank,
        target_modules=[name.rpartition(".")[2] for name in shapes],
        base_model_name_or_path="synthetic",
    )
    slots = {}
    for layer in range(layers):
        for name, (outputs, inputs) in shapes.items():
            path = f"model.layers.{layer}.{name}"
            a = (torch.rand(rank, inputs, generator=noise) * 2 - 1) / inputs**0.5
            b = 0.02 * torch.randn(outputs, rank, generator=noise) / torch.arange(1, rank + 1)
            slots[path] = Slot(a.to(dtype), b.to(dtype), config.scale(path))
    return Adapter(config, slots)


def relative(parent: Adapter, kind: str, seed: int = 2) -> Adapter:
    """A second parent that stands to `parent` as `kind` says."""
    noise = torch.Generator().manual_seed(seed)
    slots = {}
    for path, slot in parent.slots.items():
        a, b, rank = slot.A.double(), slot.B.double(), slot.rank
        if kind == "flipped":
            signs = torch.ones(rank, dtype=torch.float64)
            signs[::2] = -1
            a, b = signs[:, None] * a, b * signs
        elif kind == "rotated":
            drawn = torch.randn(rank, rank, generator=noise, dtype=torch.float64)
            turn = torch.linalg.qr(drawn).Q
            a, b = turn.T @ a, b @ turn
        elif kind == "sibling":
            decay = torch.arange(1, rank + 1)
            a = a + 0.1 * a.std() * torch.randn(a.shape, generator=noise)
            b = b + 0.002 * torch.randn(b.shape, generator=noise) / decay
        elif kind == "independent":
            a = a.std() * torch.randn(a.shape, generator=noise).double()
            b = 0.02 * torch.randn(b.shape, generator=noise) / torch.arange(1, rank + 1)
        slots[path] = Slot(a.to(slot.A.dtype), b.to(slot.B.dtype), slot.scale)
    return Adapter(parent.config, slots)


def write_family(folder: Path, rank: int, dtype: torch.dtype, layers: int) -> None:
    """Folders `first`, `independent` and `sibling`."""
    first = adapter(1, rank, dtype, layers=layers)
    save_adapter(first, folder / "first")
    for kind in ("independent", "sibling"):
        save_adapter(relative(first, kind), folder / kind)
