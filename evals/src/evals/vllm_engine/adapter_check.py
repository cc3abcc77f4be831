"""What vLLM would take without a word and answer wrongly: checked before it sees an adapter."""

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import nn

from evals.errors import EvalsError
from lora_evo import Adapter, AdapterConfig, Slot

Shapes: TypeAlias = Mapping[str, tuple[int, int]]
"""(inputs, outputs) of the base's linear layers by path."""
_UNSERVED = ("lm_head", "embed_tokens")


def linear_shapes(model: nn.Module) -> dict[str, tuple[int, int]]:
    """The linear layers of a model by path; a model without weights (`meta`) has them too."""
    return {
        path: (module.in_features, module.out_features)
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear)
    }


def check_adapter(name: str, adapter: Adapter, shapes: Shapes, max_rank: int) -> None:
    """Raise EvalsError for an adapter that vLLM cannot serve truly.

    It takes factors of a wrong shape and puts them somewhere; and one that is not finite poisons
    the rows of other adapters through reused blocks of the cache.
    """
    for path, slot in adapter.slots.items():
        if path.rpartition(".")[2] in _UNSERVED:
            raise EvalsError(
                f"adapter {name!r} changes {path}, which vLLM does not serve; use --engine hf, or "
                "train without it in target_modules"
            )
        if path not in shapes:
            raise EvalsError(f"adapter {name!r} has factors of {path}, which the base has not")
        found = (slot.A.shape[1], slot.B.shape[0])
        if found != shapes[path]:
            raise EvalsError(
                f"adapter {name!r} maps {found[0]} to {found[1]} features in {path}, the base has "
                f"{shapes[path][0]} to {shapes[path][1]} there"
            )
        if len(slot.A) > max_rank:
            raise EvalsError(
                f"adapter {name!r} has rank {len(slot.A)} in {path}, the engine was opened for "
                f"{max_rank} at most"
            )
        if not bool(torch.isfinite(slot.A).all() and torch.isfinite(slot.B).all()):
            raise EvalsError(
                f"adapter {name!r} is not finite in {path}: it has diverged; go back to an earlier "
                "version, with a lower learning rate"
            )


def zero_adapter(shapes: Shapes) -> Adapter:
    """An adapter that changes nothing, for the base's rows.

    Rows without an adapter read the last slot on a CPU, whatever is left in it; an adapter of zeros
    is exact on every device.
    """
    path = next(path for path in shapes if path.rpartition(".")[2] not in _UNSERVED)
    inputs, outputs = shapes[path]
    config = AdapterConfig.new(r=1, lora_alpha=1, target_modules=(path.rpartition(".")[2],))
    slot = Slot(torch.zeros(1, inputs), torch.zeros(outputs, 1), 1.0)
    return Adapter(config, {path: slot})
