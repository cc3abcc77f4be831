"""Many LoRA adapters on one frozen base, in a stack that goes on its linear layers.

Which row of a batch belongs to whom is set for the extent of a `with adapters.route(...)` block;
outside of one the model is the base.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from lora_evo import Adapter, AdapterConfig, Slot
from lora_evo.errors import LoraEvoError
from lora_evo.model.base import check_shapes, linear_shapes, model_class
from lora_evo.model.engine import unknown_adapter
from lora_evo.model.lean_layers import patch_llama_modules
from lora_evo.model.stacked_linear import BASE, Route, Routing, StackedLoRALinear
from lora_evo.peft.config import TARGET_MODULES
from lora_evo.random_streams import derive_seed, stream

_EXPERT_NAMES = ("gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3")
"""Layers that PEFT 0.21 takes for layers of experts, in most mixtures of experts."""
_UNMISTAKEN = ("qwen2_moe", "lfm2_moe")
"""Mixtures of experts in which it does not make this mistake."""
_MAMBAS = ("mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h")
"""Families of which PEFT refuses out_proj."""


@dataclass(eq=False)
class StackedAdapters:
    """Handle on all adapters of one model: names, routing, and the parameters of each member.

    - patched: modules of the base with a forward pass that keeps less.
    """

    model: nn.Module
    layers: dict[str, StackedLoRALinear]
    members: list[str]
    r: int
    lora_alpha: float
    routing: Routing
    patched: list[nn.Module]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def index(self, member: str | None) -> int:
        """Return the member's index; None is the base."""
        if member is None:
            return BASE
        if member not in self.members:
            raise unknown_adapter(member, self.members)
        return self.members.index(member)

    @contextmanager
    def route(self, rows: Sequence[int], keep: bool = False) -> Iterator[None]:
        """Send row i of every batch inside the block through member rows[i].

        keep: leave the stacks of these members for the next route, until `forget` is called.
        """
        try:
            with self.routing.fixed(Route.of(rows, self.device)):
                yield
        finally:
            if not keep:
                self.forget()

    def forget(self) -> None:
        """Free the stacks that decoding made."""
        for layer in self.layers.values():
            layer.blocks = None

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Bring A and B into the base's number type once for all passes inside the block.

        No parameter may change in it; gradients arrive at the parameters after every pass.
        """
        self.routing.keeps = True
        try:
            yield
        finally:
            self.routing.keeps = False
            for layer in self.layers.values():
                layer.kept = None

    def parameters_of(self, member: int) -> dict[str, nn.Parameter]:
        """Return the member's matrices by name: `<module path>.lora_A` and `.lora_B`."""
        return {
            f"{path}.{name}": cast(nn.Parameter, getattr(layer, name)[member])
            for path, layer in self.layers.items()
            for name in ("lora_A", "lora_B")
        }

    def remove(self) -> None:
        """Give the model its own layers back; the stack cannot be used any more."""
        for path, layer in self.layers.items():
            self.model.set_submodule(path, layer.base)
        for module in self.patched:
            del module.forward


@torch.no_grad()
def stack_adapters(
    model: nn.Module,
    members: Sequence[str],
    *,
    r: int,
    lora_alpha: float,
    target_modules: Sequence[str] = TARGET_MODULES,
    seed: int,
) -> StackedAdapters:
    """Freeze the model and put the members' adapters on its target linear layers, in place.

    model: a transformers causal language model; target_modules: last parts of module names. Members
    start as in PEFT, with A by (seed, member, module) and B zero, so that they equal the base.
    """
    if not members or len(set(members)) != len(members):
        raise LoraEvoError(f"members must be one or more different names, found {list(members)}")
    linears = trainable_layers(model)
    names = dict.fromkeys(path.rpartition(".")[2] for path in linears)
    if missing := set(target_modules) - names.keys():
        some = ", ".join(names) or (
            "none: no layer of this family is an nn.Linear, as all are of Llama's and Qwen's: "
            "choose a base of another family"
        )
        raise LoraEvoError(
            f"the model has no linear layer named {', '.join(sorted(missing))} that members can be "
            f"trained on (experts cannot); expected target_modules among {some}"
        )
    chosen = {p: linear for p, linear in linears.items() if p.rpartition(".")[2] in target_modules}
    largest = max(min(linear.in_features, linear.out_features) for linear in chosen.values())
    if not 1 <= r <= largest:
        raise LoraEvoError(f"rank r is {r}; expected 1 to {largest}, which an update here can have")
    adapters = put_on(model, chosen, list(members), r, lora_alpha)
    for path, layer in adapters.layers.items():
        for member, down in zip(members, layer.lora_A, strict=True):
            down.copy_(starting_a(tuple(down.shape), derive_seed(seed, "lora_A", member, path)))
    return adapters


def trainable_layers(model: Any) -> dict[str, nn.Linear]:
    """Return by path the linear layers that members can be trained on: those of the text model.

    Not the output layer, experts, names that PEFT refuses or takes for those of experts, and
    dt_proj, whose weights are read without a call.
    """
    text, kind, output = text_path(model), model.config.model_type, model.get_output_embeddings()
    mixture = any(p.dim() == 3 and ".experts." in name for name, p in model.named_parameters())
    left_out = {"dt_proj", *(("out_proj",) if kind in _MAMBAS else ())}
    left_out |= set(_EXPERT_NAMES if mixture and kind not in _UNMISTAKEN else ())
    return {
        path: module
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and path.startswith(text) and module is not output
        if path.rpartition(".")[2] not in left_out and "experts" not in path.split(".")
    }


def trainable_shapes(config: Any) -> tuple[int, dict[str, tuple[int, int]]]:
    """Return the number of parameters of a model, and (inputs, outputs) of its trainable layers.

    By transformers' configuration, without weights.
    """
    with torch.device("meta"):
        model = model_class(config).from_config(config)
    shapes, layers = linear_shapes(model), trainable_layers(model)
    return sum(p.numel() for p in model.parameters()), {path: shapes[path] for path in layers}


def starting_a(shape: tuple[int, ...], seed: int) -> Tensor:
    """Return A [r, in] as PEFT starts it, uniform in +-1/sqrt(in), in float64."""
    bound = 1.0 / math.sqrt(shape[1])
    return torch.from_numpy(stream(seed).uniform(-bound, bound, shape))


@torch.no_grad()
def stack_saved(model: Any, saved: Mapping[str, Adapter]) -> StackedAdapters:
    """Put saved adapters on the layers of a model that any of them has factors for, in place.

    Ranks, scales and modules may differ: shorter factors are filled up with zeros, and an adapter
    leaves alone what it has no factors for.
    """
    paths = dict.fromkeys(path for adapter in saved.values() for path in adapter.slots)
    linears = {path: model.get_submodule(path) for path in paths}
    r = max((slot.rank for a in saved.values() for slot in a.slots.values()), default=1)
    adapters = put_on(model, linears, list(saved), r, float(r))
    for member, adapter in enumerate(saved.values()):
        import_adapter(adapters, member, adapter, smaller=True)
    return adapters


def export_adapter(adapters: StackedAdapters, member: int, base_model: str | None) -> Adapter:
    """Copy a member out, on the CPU; `base_model` is the name PEFT will look the base up by."""
    names = sorted({path.rpartition(".")[2] for path in adapters.layers})
    text = text_path(adapters.model)
    config = AdapterConfig.new(
        r=adapters.r,
        lora_alpha=adapters.lora_alpha,
        target_modules=rf"{re.escape(text)}.*\.({'|'.join(names)})" if text else names,
        base_model_name_or_path=base_model,
    )
    slots = {}
    for path, layer in adapters.layers.items():
        factors = (layer.lora_A[member], layer.lora_B[member])
        a, b = (factor.detach().to("cpu", copy=True) for factor in factors)
        slots[path] = Slot(a, b, layer.scales[member])
    return Adapter(config, slots)


@torch.no_grad()
def import_adapter(
    adapters: StackedAdapters, member: int, adapter: Adapter, *, smaller: bool = False
) -> None:
    """Copy an adapter of the same base, modules and rank into the stack as this member.

    smaller: its rank and modules may be less than the stack's, zeros fill it up, and its scale
    becomes that of the member. Else the stack keeps its own scale; where the adapter's differs, the
    quotient goes into B, so that the update scale * B A stays the same. Raises LoraEvoError, and
    changes nothing, on a misfit.
    """
    ours, theirs = set(adapters.layers), set(adapter.slots)
    if odd := sorted(theirs - ours if smaller else ours ^ theirs):
        raise LoraEvoError(
            f"the adapter covers {len(theirs)} modules, the stack {len(ours)}; they differ in "
            f"{odd[0]}" + (f" and {len(odd) - 1} more" if len(odd) > 1 else "")
        )
    for path, slot in adapter.slots.items():
        layer = adapters.layers[path]
        rank = slot.rank if smaller and slot.rank < adapters.r else adapters.r
        for name, factor, here in (
            ("A", slot.A, layer.lora_A[0][:rank]), ("B", slot.B, layer.lora_B[0][:, :rank])
        ):  # fmt: skip
            if factor.shape != here.shape:
                raise LoraEvoError(
                    f"lora_{name} of {path} is {list(factor.shape)}, expected {list(here.shape)}: "
                    "another rank or another base model"
                )
    for path, layer in adapters.layers.items():
        a, b = layer.lora_A[member].zero_(), layer.lora_B[member].zero_()
        if path in theirs:
            slot = adapter.slots[path]
            a[: slot.rank].copy_(slot.A)
            if smaller:
                layer.scales[member] = slot.scale
            ratio = slot.scale / layer.scales[member]
            b[:, : slot.rank].copy_(slot.B if ratio == 1.0 else slot.B.float() * ratio)


@torch.no_grad()
def merge_adapter(model: Any, adapter: Adapter) -> None:
    """Add the update scale * B A of an adapter to the dense weights of a model, in place.

    Raises LoraEvoError, and changes nothing, where that is not all that the adapter does.
    """
    check_shapes("the adapter", adapter, linear_shapes(model), "the model")
    owners = Counter(id(weight) for _, weight in model.named_parameters(remove_duplicate=False))
    for path in adapter.slots:
        if owners[id(model.get_submodule(path).weight)] > 1:
            raise LoraEvoError(
                f"{path} has its weights in common with another layer (tie_word_embeddings), which "
                f"would change, too: give each its own weights, or leave {path} out of the adapter"
            )
    for path, slot in adapter.slots.items():
        weight = model.get_submodule(path).weight
        update = slot.scale * (slot.B.float() @ slot.A.float())
        weight.copy_((weight.float() + update).to(weight.dtype))


def put_on(
    model: Any, linears: Mapping[str, nn.Linear], members: list[str], r: int, alpha: float
) -> StackedAdapters:
    """Freeze the model and put members whose A and B are 0 on these of its layers, in place."""
    model.requires_grad_(False)
    config: Any = model.config.get_text_config() if hasattr(model, "config") else None
    if getattr(config, "attn_logit_softcapping", None) and config._attn_implementation == "sdpa":
        model.set_attn_implementation("eager")  # sdpa leaves Gemma 2's cap of scores out silently
    routing = Routing()
    if some := [path for path in linears if "experts" in path.split(".")]:
        raise LoraEvoError(
            f"{some[0]} is of an expert, which gets some of the tokens, and whose rows these are "
            "cannot be told: leave layers of experts out of the target_modules"
        )
    layers = {
        path: StackedLoRALinear(linear, len(members), r, alpha / r, routing)
        for path, linear in linears.items()
    }
    for path, layer in layers.items():
        model.set_submodule(path, layer)
    patched = patch_llama_modules(model)
    return StackedAdapters(model, layers, members, r, alpha, routing, patched)


def text_path(model: Any) -> str:
    """Return how the paths of the text model begin in one that reads pictures too; else ''."""
    if model.config.get_text_config() is model.config:
        return ""
    decoder = model.get_decoder()
    return next(f"{path}." for path, module in model.named_modules() if module is decoder)
