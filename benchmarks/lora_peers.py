"""Synthetic adapters, and children of them by populora and PEFT; both peers are optional."""

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
    """A second parent, related to `parent` as `kind` says."""
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


POPULORA = {
    "M1 svd_structured": "mutation_svd_structured",
    "M2 layer_selective_gaussian": "mutation_layer_selective_gaussian",
    "M3 component_masking": "mutation_component_masking",
    "M4 full_gaussian": "mutation_full_gaussian",
    "average": "crossover_average",
    "X1 dare": "crossover_dare",
    "X2 layer_wise": "crossover_layer_wise",
    "X3 svd_subspace": "crossover_svd_subspace",
    "X4 extrapolative": "crossover_extrapolative",
}


def population(parents: list[Adapter]) -> Any:
    """What populora's operators read: factors of all members stacked, A transposed.

    The last member is the place of the child. populora knows no scale; s goes into B, the best
    that a user of it could do.
    """
    members = [*parents, parents[0]]
    down, up = {}, {}
    for path in parents[0].paths:
        slots = [member.slots[path] for member in members]
        key = path.replace(".", "_")
        down[key] = torch.nn.Parameter(
            torch.stack([slot.A.T for slot in slots]).contiguous(), requires_grad=False
        )
        up[key] = torch.nn.Parameter(
            torch.stack([(slot.scale * slot.B).to(slot.B.dtype) for slot in slots]),
            requires_grad=False,
        )
    return SimpleNamespace(weight_down=down, weight_up=up, device=torch.device("cpu"))


def populora_call(name: str, members: Any) -> Callable[[], None]:
    """One child into the last place of `members`, with populora's default parameters."""
    operators = importlib.import_module("populora.operators")
    function = getattr(operators, POPULORA[name])
    child = len(next(iter(members.weight_down.values()))) - 1
    places = torch.tensor([child])
    if name.startswith("M"):
        return lambda: function(members, places)
    parents = torch.tensor([[0, 1]])
    fitness = torch.tensor([1.0, 0.5, 0.0])
    return lambda: function(members, parents, places, fitnesses=fitness)


def peft_updates(
    parents: list[Adapter], kind: str, weights: list[float], density: float = 0.3
) -> dict[str, Any]:
    """Dense updates of `add_weighted_adapter` on a model made for the occasion."""
    peft = importlib.import_module("peft")
    model = torch.nn.Module()
    for path, slot in parents[0].slots.items():
        *walk, last = path.split(".")
        place = model
        for name in walk:
            if not hasattr(place, name):
                place.add_module(name, torch.nn.Module())
            place = getattr(place, name)
        place.add_module(last, torch.nn.Linear(slot.A.shape[1], len(slot.B), bias=False))
    wrapped: Any = None
    for index, parent in enumerate(parents):
        config = peft.LoraConfig(
            r=parent.config.r,
            lora_alpha=parent.config.lora_alpha,
            target_modules=list(parent.config.target_modules or ()),
        )
        if wrapped is None:
            wrapped = peft.PeftModel(model, config, adapter_name=f"p{index}")
        else:
            wrapped.add_adapter(f"p{index}", config)
        for path, slot in parent.slots.items():
            layer = wrapped.base_model.model.get_submodule(path)
            layer.lora_A[f"p{index}"].weight.data.copy_(slot.A)
            layer.lora_B[f"p{index}"].weight.data.copy_(slot.B)
    names = [f"p{index}" for index in range(len(parents))]
    extra = {"density": density} if kind.startswith(("dare", "ties")) else {}
    rank = {"svd_rank": parents[0].config.r} if kind.endswith("svd") else {}
    wrapped.add_weighted_adapter(names, weights, "child", combination_type=kind, **extra, **rank)
    return {
        path: wrapped.base_model.model.get_submodule(path).get_delta_weight("child").double()
        for path in parents[0].slots
    }


def dense(child: Adapter) -> dict[str, torch.Tensor]:
    """The updates of an adapter, in float64."""
    return {p: s.scale * s.B.double() @ s.A.double() for p, s in child.slots.items()}


def cut(matrix: torch.Tensor, rank: int) -> torch.Tensor:
    """The best approximation of a rank."""
    u, values, vt = torch.linalg.svd(matrix, full_matrices=False)
    return (u[:, :rank] * values[:rank]) @ vt[:rank]


def relative_error(result: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]) -> float:
    """|result - exact| / |exact| over all modules."""
    gap = sum(float((result[path] - target).norm()) ** 2 for path, target in exact.items())
    return math.sqrt(gap / sum(float(target.norm()) ** 2 for target in exact.values()))
