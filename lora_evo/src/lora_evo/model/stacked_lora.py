"""Many LoRA adapters on one frozen base: every row of a batch goes through its own.

y = W x + scale_m B_m A_m x for the row's member m (Hu et al. 2021), all members in one pass. Every
member keeps its own fp32 matrices A [r, in] and B [out, r] as separate parameters, so that it has
its own optimiser state; they are stacked only for the multiplication. Which row belongs to whom is
set for the extent of a `with adapters.route(...)` block; outside of one the model is the base.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lora_evo import Adapter, AdapterConfig, Slot
from lora_evo.errors import LoraEvoError
from lora_evo.model.base import model_class
from lora_evo.model.engine import derive_seed, stream, unknown_adapter
from lora_evo.model.four_bit import dense, in_four_bits, product
from lora_evo.model.lean_layers import patch_llama_modules
from lora_evo.peft.config import TARGET_MODULES

BASE = -1
"""Member index of rows that use no adapter."""
_GROUP_FROM_TOKENS = 16
"""From this many tokens a row on, every stretch of one member has products of its own."""


_EXPERTS_NAMES = ("gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3")
"""Layers which PEFT 0.21 takes for those that were of experts, in most mixtures of experts."""
_OWN_NAMES = ("qwen2_moe", "lfm2_moe")
"""Mixtures of experts in which it does not."""
_MAMBAS = ("mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h")
"""Families of which PEFT refuses out_proj."""


@dataclass(frozen=True)
class Route:
    """Whom each row of the batch belongs to, prepared for the products."""

    rows: tuple[int, ...]
    """Member's index per row, or BASE."""
    runs: tuple[tuple[int, int, int], ...]
    """(member, first row, row after the last) for each stretch of equal members; not the base."""
    device: torch.device

    @classmethod
    def of(cls, rows: Sequence[int], device: torch.device) -> "Route":
        """Prepare a route; rows of one member should be adjacent, though they need not be."""
        runs, stop = [], 0
        for member, group in groupby(rows):
            start, stop = stop, stop + len(list(group))
            if member != BASE:
                runs.append((member, start, stop))
        return cls(tuple(rows), tuple(runs), device)

    @cached_property
    def members(self) -> tuple[int, ...]:
        """The different members, the base first."""
        return tuple(sorted(set(self.rows)))

    @cached_property
    def blocks(self) -> tuple[Tensor, Tensor] | None:
        """Rows in one block for each member, all as long as the longest; None for one member.

        Two vectors: [members * length] the row at each place, repeated to fill up, and [rows] the
        place of each row.
        """
        if len(self.members) == 1:
            return None
        blocks = [[i for i, m in enumerate(self.rows) if m == member] for member in self.members]
        length = max(map(len, blocks))
        row_at = [row for block in blocks for row in block + block[:1] * (length - len(block))]
        place_of = [0] * len(self.rows)
        for number, block in enumerate(blocks):
            for place, row in enumerate(block, number * length):
                place_of[row] = place
        return torch.tensor(row_at, device=self.device), torch.tensor(place_of, device=self.device)


class Routing:
    """The route in force, shared by all layers of one model."""

    def __init__(self) -> None:
        self.current: Route | None = None
        self.keeps = False
        """Whether layers keep the stacks of all members from pass to pass."""

    @contextmanager
    def fixed(self, route: Route | None) -> Iterator[None]:
        """Have this route in force inside the block."""
        before, self.current = self.current, route
        try:
            yield
        finally:
            self.current = before


class StackedLoRALinear(nn.Module):
    """A frozen linear layer with one low-rank update per member.

    Input [rows, T, in], output [rows, T, out]; [rows * T, in] and [rows, ..., in] are read as such.
    `lora_A[m]` is [r, in] and `lora_B[m]` [out, r].
    """

    def __init__(self, base: nn.Linear, n_members: int, r: int, scale: float, routing: Routing):
        super().__init__()
        self.base = base
        device = base.weight.device

        def matrices(*shape: int) -> nn.ParameterList:
            zeros = (torch.zeros(shape, device=device) for _ in range(n_members))
            return nn.ParameterList(nn.Parameter(z) for z in zeros)

        self.lora_A = matrices(r, base.in_features)
        self.lora_B = matrices(base.out_features, r)
        self.scales = [scale] * n_members
        self._routing = routing
        self.blocks: tuple[Route, Any, Tensor, Tensor, Any] | None = None
        """What `_by_member` returned for the last route."""
        self.kept: tuple[Tensor, Tensor] | None = None
        """The stacks of all members while the routing keeps them."""

    def forward(self, x: Tensor) -> Tensor:
        route, base = self._routing.current, self.base
        if route is None or not route.runs:
            return product(base, x)
        n = len(route.rows)
        packed = x.dim() > 2 and x.shape[0] == 1 < n == x.shape[:-1].numel()
        flat = x.dim() == 2 and x.shape[0] % n == 0
        if not (packed or flat or (x.dim() > 2 and x.shape[0] == n)):
            raise LoraEvoError(f"the route has {n} rows, the batch {x.shape[0]}")
        rows = x.reshape(n, -1, x.shape[-1])
        if rows.shape[1] < _GROUP_FROM_TOKENS and not (packed or torch.is_grad_enabled()):
            return self.by_row(rows).view(*x.shape[:-1], -1)
        runs = route.runs
        if torch.is_grad_enabled() and rows.shape[1] >= _GROUP_FROM_TOKENS and not _even(runs, n):
            # one batched product of all rows, in place of one for each run
            runs = tuple((m, row, row + 1) for m, *ends in runs for row in range(*ends))
        members = [member for member, _, _ in runs]
        down, up, entries = self._stacks(members, x)
        factors = [self.lora_A[m] for m in members] + [self.lora_B[m] for m in members]
        scales = [self.scales[m] for m in members]
        y = _GroupedLinear.apply(  # type: ignore[no-untyped-call]
            rows.contiguous(), base, down, up, scales, runs, entries, *factors
        )
        return cast(Tensor, y).view(*x.shape[:-1], -1)

    @property
    def weight(self) -> Tensor:
        """Refused: a model that reads it instead of calling the layer passes over the adapters."""
        raise LoraEvoError(
            "this model reads the weights of a layer among the target_modules without calling it, "
            "as Mamba and Jamba do with dt_proj: leave that one out of them"
        )

    @torch.no_grad()
    def _stacks(self, members: Sequence[int], x: Tensor) -> tuple[Tensor, Tensor, list[int]]:
        """A [n, r, in], scale * B^T [n, r, out] in the dtype of x, and which of n each has."""
        if self._routing.keeps and self.kept is not None:
            return *self.kept, list(members)
        having = list(range(len(self.scales))) if self._routing.keeps else sorted(set(members))
        down, up = zip(*(self._pair(member, x) for member in having), strict=True)
        stacks = torch.stack(down), torch.stack(up)
        if self._routing.keeps:
            self.kept = stacks
        return *stacks, [having.index(member) for member in members]

    def _pair(self, member: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """A [r, in] and scale * B^T [r, out] of a member in the dtype of x."""
        up = (self.lora_B[member] * self.scales[member]).to(x.dtype)
        return self.lora_A[member].to(x.dtype), up.t().contiguous()

    def by_row(self, x: Tensor) -> Tensor:
        """Do `forward` of few tokens a row [rows, T, in], without gradients, in few words."""
        route = self._routing.current
        if route is None or not route.runs:
            return product(self.base, x)
        if self.blocks is None or self.blocks[0] is not route:
            self.blocks = self._by_member(route, x)
        *_, down, up, plain = self.blocks
        order = route.blocks
        y = product(self.base, x) if plain is None else F.linear(x, *plain)
        g, n_in, _ = down.shape
        if order is None:
            z = torch.bmm(x.view(g, -1, n_in), down)
            y.view(g, -1, up.shape[2]).baddbmm_(z, up)
            return y
        row_at, place_of = order
        updates = torch.bmm(torch.bmm(x[row_at].view(g, -1, n_in), down), up)
        return y.add_(updates.view(-1, *y.shape[1:])[place_of])

    def _by_member(self, route: Route, x: Tensor) -> tuple[Route, Any, Tensor, Tensor, Any]:
        """The route, what the rest depends on, A^T [g, in, r] and scale * B^T [g, r, out], and the
        base's weights and bias, None if it has no plain product.

        g is the number of members in the route, the base among them, whose factors are zeros. They
        are those of the route before where the members and their factors are the same.
        """
        factors = [self.lora_A[m] for m in route.members if m != BASE]
        factors += [self.lora_B[m] for m in route.members if m != BASE]
        origin = route.members, x.dtype, [factor._version for factor in factors]
        if self.blocks is not None and self.blocks[1] == origin:
            return route, *self.blocks[1:]
        pairs = [self._pair(member, x) for member in route.members if member != BASE]
        if route.members[0] == BASE:
            down, up = self.lora_A[0], self.lora_B[0]
            pairs.insert(0, (x.new_zeros(down.shape), x.new_zeros(up.shape[::-1])))
        base = self.base
        plain = base.weight.dtype == x.dtype and not in_four_bits(base)
        down, up = (torch.stack(side) for side in zip(*pairs, strict=True))
        down = down.transpose(1, 2).contiguous()
        return route, origin, down, up, (base.weight, base.bias) if plain else None


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
        """Where the model is."""
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

    def same_route(self) -> AbstractContextManager[None]:
        """Return a block in which the route in force at this call is in force once more."""
        return self.routing.fixed(self.routing.current)

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
            _put(self.model, path, layer.base)
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
    adapters = put_on(model, chosen, members, r, lora_alpha)
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
    left_out |= set(_EXPERTS_NAMES if mixture and kind not in _OWN_NAMES else ())
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
    layers = trainable_layers(model).items()
    shapes = {path: (layer.in_features, layer.out_features) for path, layer in layers}
    return sum(p.numel() for p in model.parameters()), shapes


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
    odd = sorted(theirs - ours if smaller else ours ^ theirs)
    if odd:
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
    """Add the update scale * B A of an adapter to the dense weights of a model, in place."""
    for path, slot in adapter.slots.items():
        weight = model.get_submodule(path).weight
        update = slot.scale * (slot.B.float() @ slot.A.float())
        weight.copy_((weight.float() + update).to(weight.dtype))


def put_on(
    model: nn.Module,
    linears: Mapping[str, nn.Linear],
    members: Sequence[str],
    r: int,
    lora_alpha: float,
) -> StackedAdapters:
    """Freeze the model and put members whose A and B are 0 on these of its layers, in place."""
    model.requires_grad_(False)
    _keep_soft_caps(model)
    routing = Routing()
    if some := [path for path in linears if "experts" in path.split(".")]:
        raise LoraEvoError(
            f"{some[0]} is of an expert, which gets some of the tokens, and whose rows these are "
            "cannot be told: leave layers of experts out of the target_modules"
        )
    layers = {
        path: StackedLoRALinear(linear, len(members), r, lora_alpha / r, routing)
        for path, linear in linears.items()
    }
    for path, layer in layers.items():
        _put(model, path, layer)
    patched = patch_llama_modules(model)
    return StackedAdapters(model, layers, list(members), r, lora_alpha, routing, patched)


def text_path(model: Any) -> str:
    """Return how the paths of the text model begin in one that reads pictures too; else ''."""
    if model.config.get_text_config() is model.config:
        return ""
    decoder = model.get_decoder()
    return next(f"{path}." for path, module in model.named_modules() if module is decoder)


def _put(model: nn.Module, path: str, layer: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, layer)


def _keep_soft_caps(model: Any) -> None:
    """Choose the attention that caps its scores where the model's are capped (Gemma 2).

    transformers' default, torch's scaled_dot_product_attention, leaves the cap out silently.
    """
    config: Any = model.config.get_text_config() if hasattr(model, "config") else None
    if getattr(config, "attn_logit_softcapping", None) and config._attn_implementation == "sdpa":
        model.set_attn_implementation("eager")


def _even(runs: Sequence[tuple[int, int, int]], rows: int) -> bool:
    """All runs have one length and together cover every row."""
    lengths = [stop - start for _, start, stop in runs]
    return len(set(lengths)) == 1 and sum(lengths) == rows


def _chosen(stack: Tensor, entries: list[int]) -> Tensor:
    """Return the matrices of these entries; a view where they are neighbours."""
    first, last = entries[0], entries[-1] + 1
    if entries == list(range(first, last)):
        return stack[first:last]
    return torch.stack([stack[entry] for entry in entries])


def _add_to_gradients(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor]
) -> list[Tensor | None]:
    """Add to all gradients in one kernel, or one more for each time that a parameter comes again.

    Returns what autograd is left to add: everything as long as a parameter has no gradient.
    """
    if any(p.grad is None for p in parameters):
        return list(gradients)
    left = list(zip(parameters, gradients, strict=True))
    while left:
        now = dict(reversed(left))  # of each parameter, the first of its gradients that are left
        torch._foreach_add_([cast(Tensor, p.grad) for p in now], list(now.values()))
        left = [(p, gradient) for p, gradient in left if gradient is not now[p]]
    return [None] * len(parameters)


class _GroupedLinear(torch.autograd.Function):
    """x W^T + bias, plus scale_i x_i A_i^T B_i^T on the rows of each run i; gradients of x, A, B.

    Forward and backward add the updates in place into the dense product, which saves three passes
    over the activations. x [rows, T, in], base frozen with weights W [out, in]; down [n, r, in] and
    up [n, r, out] are A and scale * B^T in the dtype of x, entries[i] which of the n run i has,
    factors each run's A and then each B itself, whose gradients have the parameter's dtype; runs[i]
    = (member, first row, row after the last). Rows in no run get no update.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        base: nn.Linear,
        down: Tensor,
        up: Tensor,
        scales: list[float],
        runs: tuple[tuple[int, int, int], ...],
        entries: list[int],
        *factors: Tensor,
    ) -> Tensor:
        y = product(base, x)
        g = len(runs)
        if _even(runs, x.shape[0]):
            z = torch.bmm(x.view(g, -1, x.shape[2]), _chosen(down, entries).transpose(1, 2))
            y.view(g, -1, y.shape[2]).baddbmm_(z, _chosen(up, entries))
            z = z.view(-1, z.shape[2])
        else:
            z = x.new_empty(x.shape[0] * x.shape[1], down.shape[1])
            for entry, (here, x_i, y_i) in zip(entries, _slices(runs, x, y), strict=True):
                torch.mm(x_i, down[entry].t(), out=z[here])
                y_i.addmm_(z[here], up[entry])
        ctx.save_for_backward(x, down, up, z)
        ctx.base = base
        ctx.runs, ctx.scales, ctx.entries, ctx.factors = runs, scales, entries, factors
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, down, up, z = ctx.saved_tensors
        grad, g, grad_x = grad.contiguous(), len(ctx.runs), None
        if ctx.needs_input_grad[0]:
            weight = dense(ctx.base)
            grad_x = torch.matmul(grad.to(weight.dtype), weight).to(grad.dtype)
        if _even(ctx.runs, x.shape[0]):
            grad_g = grad.view(g, -1, grad.shape[2])
            grad_z = torch.bmm(grad_g, _chosen(up, ctx.entries).transpose(1, 2))
            grad_up = torch.bmm(z.view(g, -1, z.shape[1]).transpose(1, 2), grad_g)
            grad_down = torch.bmm(grad_z.transpose(1, 2), x.view(g, -1, x.shape[2]))
            if grad_x is not None:
                grad_x.view(g, -1, x.shape[2]).baddbmm_(grad_z, _chosen(down, ctx.entries))
        else:
            grad_down = down.new_empty(g, *down.shape[1:])
            grad_up = up.new_empty(g, *up.shape[1:])
            slices = zip(ctx.entries, _slices(ctx.runs, grad, x), strict=True)
            for i, (entry, (here, grad_i, x_i)) in enumerate(slices):
                grad_z = grad_i @ up[entry].t()
                torch.mm(z[here].t(), grad_i, out=grad_up[i])
                torch.mm(grad_z.t(), x_i, out=grad_down[i])
                if grad_x is not None:
                    grad_x.view(-1, x.shape[2])[here].addmm_(grad_z, down[entry])
        dtype = ctx.factors[0].dtype
        ups = torch._foreach_mul(grad_up.to(dtype).transpose(1, 2).unbind(), ctx.scales)
        left = _add_to_gradients(ctx.factors, [*grad_down.to(dtype).unbind(), *ups])
        return grad_x, *[None] * 6, *left


def _slices(
    runs: Sequence[tuple[int, int, int]], one: Tensor, other: Tensor
) -> list[tuple[slice, Tensor, Tensor]]:
    """For each run: its slice of the flattened rows, and both tensors there as matrices."""
    T = one.shape[1]
    flat = one.view(-1, one.shape[2]), other.view(-1, other.shape[2])
    slices = [slice(start * T, stop * T) for _, start, stop in runs]
    return [(here, flat[0][here], flat[1][here]) for here in slices]
