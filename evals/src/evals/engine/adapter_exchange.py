"""Members in and out of the stack as `lora_evo.Adapter` values (the PEFT layout)."""

from collections.abc import Mapping

import torch
from torch import nn

from evals.engine.stacked_lora import StackedAdapters, put_on
from evals.errors import EvalsError
from lora_evo import Adapter, AdapterConfig, Slot


def export_adapter(adapters: StackedAdapters, member: int, base_model: str | None) -> Adapter:
    """Copy a member out, on the CPU; `base_model` is the name PEFT will look the base up by."""
    config = AdapterConfig.new(
        r=adapters.r,
        lora_alpha=adapters.lora_alpha,
        target_modules=sorted({path.rpartition(".")[2] for path in adapters.layers}),
        base_model_name_or_path=base_model,
    )
    slots = {
        path: Slot(
            layer.lora_A[member].detach().to("cpu", copy=True),
            layer.lora_B[member].detach().to("cpu", copy=True),
            layer.scales[member],
        )
        for path, layer in adapters.layers.items()
    }
    return Adapter(config, slots)


@torch.no_grad()
def import_adapter(adapters: StackedAdapters, member: int, adapter: Adapter) -> None:
    """Copy an adapter of the same base, modules and rank into a member's place.

    The stack keeps its own scale; where the adapter's differs, the quotient goes into B, so that
    the update scale * B A stays the same. Raises EvalsError, and changes nothing, on a misfit.
    """
    ours, theirs = set(adapters.layers), set(adapter.slots)
    if ours != theirs:
        odd = sorted(ours ^ theirs)
        raise EvalsError(
            f"the adapter covers {len(theirs)} modules, the stack {len(ours)}; they differ in "
            f"{odd[0]}" + (f" and {len(odd) - 1} more" if len(odd) > 1 else "")
        )
    for path, layer in adapters.layers.items():
        slot = adapter.slots[path]
        for name, found, here in (("A", slot.A, layer.lora_A[0]), ("B", slot.B, layer.lora_B[0])):
            if found.shape != here.shape:
                raise EvalsError(
                    f"lora_{name} of {path} is {list(found.shape)}, expected {list(here.shape)}: "
                    "another rank or another base model"
                )
    for path, layer in adapters.layers.items():
        slot = adapter.slots[path]
        layer.lora_A[member].copy_(slot.A)
        factor = slot.scale / layer.scales[member]
        layer.lora_B[member].copy_(slot.B if factor == 1.0 else slot.B.float() * factor)


@torch.no_grad()
def stack_saved(
    model: nn.Module, linears: Mapping[str, nn.Linear], saved: Mapping[str, Adapter]
) -> StackedAdapters:
    """Put saved adapters on these layers of a model, in place.

    Ranks, scales and modules may differ: shorter factors are filled up with zeros, and an adapter
    leaves alone what it has no factors for. linears: by path, all that an adapter has.
    """
    r = max((len(slot.A) for a in saved.values() for slot in a.slots.values()), default=1)
    adapters = put_on(model, linears, list(saved), r, float(r))
    for member, adapter in enumerate(saved.values()):
        for path, slot in adapter.slots.items():
            layer, rank = adapters.layers[path], len(slot.A)
            layer.lora_A[member][:rank].copy_(slot.A)
            layer.lora_B[member][:, :rank].copy_(slot.B)
            layer.scales[member] = slot.scale
    return adapters
