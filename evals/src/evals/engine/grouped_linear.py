"""One linear layer with a low-rank update for each run of rows, as a single autograd function.

Forward and backward add the updates in place into the result of the dense product, which saves
three passes over the activations against a composition of ordinary operations.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def grouped_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    down: Tensor,
    up: Tensor,
    runs: Sequence[tuple[int, int]],
) -> Tensor:
    """Return x W^T + bias, plus x_i A_i^T B_i^T on the rows of each run i.

    x [rows, T, in], weight [out, in] (frozen), down [runs, r, in], up [runs, out, r]; runs[i] =
    (first row, row after the last). Rows in no run get no update. Gradients: x, down, up.
    """
    y: Tensor = _GroupedLinear.apply(  # type: ignore[no-untyped-call]
        x.contiguous(), weight, bias, down, up, tuple(runs)
    )
    return y


def _even(runs: Sequence[tuple[int, int]], rows: int) -> bool:
    """All runs have one length and together cover every row."""
    return len({stop - start for start, stop in runs}) == 1 and sum(b - a for a, b in runs) == rows


class _GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        down: Tensor,
        up: Tensor,
        runs: tuple[tuple[int, int], ...],
    ) -> Tensor:
        y = F.linear(x, weight, bias)
        if _even(runs, x.shape[0]):
            g = len(runs)
            z = torch.bmm(x.view(g, -1, x.shape[2]), down.transpose(1, 2))
            y.view(g, -1, y.shape[2]).baddbmm_(z, up.transpose(1, 2))
            z = z.view(-1, z.shape[2])
        else:
            z = x.new_empty(x.shape[0] * x.shape[1], down.shape[1])
            for i, (here, x_i, y_i) in enumerate(_slices(runs, x, y)):
                torch.mm(x_i, down[i].t(), out=z[here])
                y_i.addmm_(z[here], up[i].t())
        ctx.save_for_backward(x, weight, down, up, z)
        ctx.runs = runs
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, down, up, z = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = torch.matmul(grad, weight) if ctx.needs_input_grad[0] else None
        if _even(ctx.runs, x.shape[0]):
            g = len(ctx.runs)
            grad_g = grad.view(g, -1, grad.shape[2])
            grad_z = torch.bmm(grad_g, up)
            grad_up = torch.bmm(grad_g.transpose(1, 2), z.view(g, -1, z.shape[1]))
            grad_down = torch.bmm(grad_z.transpose(1, 2), x.view(g, -1, x.shape[2]))
            if grad_x is not None:
                grad_x.view(g, -1, x.shape[2]).baddbmm_(grad_z, down)
            return grad_x, None, None, grad_down, grad_up, None
        grad_down, grad_up = torch.empty_like(down), torch.empty_like(up)
        for i, (here, grad_i, x_i) in enumerate(_slices(ctx.runs, grad, x)):
            grad_z = grad_i @ up[i]
            torch.mm(grad_i.t(), z[here], out=grad_up[i])
            torch.mm(grad_z.t(), x_i, out=grad_down[i])
            if grad_x is not None:
                grad_x.view(-1, x.shape[2])[here].addmm_(grad_z, down[i])
        return grad_x, None, None, grad_down, grad_up, None


def _slices(
    runs: Sequence[tuple[int, int]], one: Tensor, other: Tensor
) -> list[tuple[slice, Tensor, Tensor]]:
    """For each run: its slice of the flattened rows, and both tensors there as matrices."""
    T = one.shape[1]
    flat = one.view(-1, one.shape[2]), other.view(-1, other.shape[2])
    slices = [slice(start * T, stop * T) for start, stop in runs]
    return [(here, flat[0][here], flat[1][here]) for here in slices]
