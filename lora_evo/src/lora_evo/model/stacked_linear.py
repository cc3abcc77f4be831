"""A frozen linear layer with the LoRA updates of many members: every row goes through its own.

y = W x + scale_m B_m A_m x for the row's member m (Hu et al. 2021), all members in one pass. Every
member keeps its own fp32 matrices A [r, in] and B [out, r] as separate parameters, so that it has
its own optimiser state; they are stacked only for the multiplication.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lora_evo.errors import LoraEvoError
from lora_evo.model.four_bit import dense, in_four_bits, product

BASE = -1
"""Member index of rows that use no adapter."""
_GROUP_FROM_TOKENS = 16
"""From this many tokens a row on, every stretch of one member has products of its own."""


Runs: TypeAlias = tuple[tuple[int, int, int], ...]
"""(member, first row, row after the last) of stretches of equal members."""
Plan: TypeAlias = tuple[nn.Linear, Runs, list[int], list[float]]
"""A frozen layer, the runs on it, which of the stacked factors each run has, and its scale."""


@dataclass(frozen=True)
class Route:
    """Whom each row of the batch belongs to, prepared for the products."""

    rows: tuple[int, ...]
    """Member's index per row, or BASE."""
    runs: Runs
    """Not those of the base."""
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
        members = [member for member, _, _ in route.runs]
        down, up, entries = self._stacks(members, x)
        factors = [self.lora_A[m] for m in members] + [self.lora_B[m] for m in members]
        plan: Plan = base, route.runs, entries, [self.scales[m] for m in members]
        y = _GroupedLinear.apply(  # type: ignore[no-untyped-call]
            rows.contiguous(), down, up, plan, *factors
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
            z = torch.bmm(x.reshape(g, -1, n_in), down)
            y.view(g, -1, up.shape[2]).baddbmm_(z, up)
            return y
        row_at, place_of = order
        updates = torch.bmm(torch.bmm(x.index_select(0, row_at).view(g, -1, n_in), down), up)
        return y.add_(updates.view(-1, *y.shape[1:]).index_select(0, place_of))

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


def _add_to_gradients(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor]
) -> list[Tensor | None]:
    """Add to all gradients in one kernel, or one more for each time that a parameter comes again.

    Returns what autograd is left to add: everything as long as a parameter has no gradient.
    """
    if any(p.grad is None for p in parameters):
        return list(gradients)
    pairs = list(zip(parameters, gradients, strict=True))
    while pairs:
        now = dict(reversed(pairs))  # of each parameter, the first of its gradients that are left
        torch._foreach_add_([cast(Tensor, p.grad) for p in now], list(now.values()))
        pairs = [(p, gradient) for p, gradient in pairs if gradient is not now[p]]
    return [None] * len(parameters)


class _GroupedLinear(torch.autograd.Function):
    """x W^T + bias, plus scale_i x_i A_i^T B_i^T on the rows of each run i; gradients of x, A, B.

    Forward and backward add the updates in place into the dense product, which saves three passes
    over the activations. x [rows, T, in]; down [n, r, in] and up [n, r, out] are A and scale * B^T
    in the dtype of x, factors each run's A and then each B itself, whose gradients have the
    parameter's dtype. Rows in no run get no update.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, down: Tensor, up: Tensor, plan: Plan, *factors: Tensor
    ) -> Tensor:
        base, runs, entries, _ = plan
        y = product(base, x)
        z = x.new_empty(x.shape[0] * x.shape[1], down.shape[1])
        for entry, (here, x_i, y_i) in zip(entries, _slices(runs, x, y), strict=True):
            torch.mm(x_i, down[entry].t(), out=z[here])
            y_i.addmm_(z[here], up[entry])
        ctx.save_for_backward(x, down, up, z)
        ctx.plan, ctx.factors = plan, factors
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, down, up, z = ctx.saved_tensors
        base, runs, entries, scales = ctx.plan
        grad, g, grad_x = grad.contiguous(), len(runs), None
        if ctx.needs_input_grad[0]:
            weight = dense(base)
            grad_x = torch.matmul(grad.to(weight.dtype), weight).to(grad.dtype)
        grad_down = down.new_empty(g, *down.shape[1:])
        grad_up = up.new_empty(g, *up.shape[1:])
        slices = zip(entries, _slices(runs, grad, x), strict=True)
        for i, (entry, (here, grad_i, x_i)) in enumerate(slices):
            grad_z = grad_i @ up[entry].t()
            torch.mm(z[here].t(), grad_i, out=grad_up[i])
            torch.mm(grad_z.t(), x_i, out=grad_down[i])
            if grad_x is not None:
                grad_x.view(-1, x.shape[2])[here].addmm_(grad_z, down[entry])
        dtype = ctx.factors[0].dtype
        ups = torch._foreach_mul(grad_up.to(dtype).transpose(1, 2).unbind(), scales)
        gradients = _add_to_gradients(ctx.factors, [*grad_down.to(dtype).unbind(), *ups])
        return grad_x, None, None, None, *gradients


def _slices(runs: Runs, one: Tensor, other: Tensor) -> list[tuple[slice, Tensor, Tensor]]:
    """For each run: its slice of the flattened rows, and both tensors there as matrices."""
    T = one.shape[1]
    flat = one.view(-1, one.shape[2]), other.view(-1, other.shape[2])
    slices = [slice(start * T, stop * T) for _, start, stop in runs]
    return [(here, flat[0][here], flat[1][here]) for here in slices]
