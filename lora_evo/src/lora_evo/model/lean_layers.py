"""Norms and gated activations of the Llama family that keep less for the backward pass.

transformers' own keep the residual stream in float32 for every norm, and the activation of every
gate. Here a norm keeps its input in its dtype and one scale for each token, and the backward pass
computes the activation again: a quarter less memory for a layer, in fewer kernels.
"""

from types import MethodType
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lora_evo.model.decoding import FAMILIES


def patch_llama_modules(model: nn.Module) -> list[nn.Module]:
    """Replace the forward passes of norms and gated layers of a known family, in place.

    Returns the changed modules; `del module.forward` restores them.
    """
    config: Any = getattr(model, "config", None)
    if getattr(config, "model_type", None) not in FAMILIES:
        return []
    changed = []
    for module in model.modules():
        kind = type(module).__name__
        if kind.endswith("RMSNorm"):
            module.forward = MethodType(_norm, module)
        elif kind.endswith("MLP") and config.hidden_act == "silu":
            module.forward = MethodType(_gated, module)
        else:
            continue
        changed.append(module)
    return changed


def _norm(module: Any, x: Tensor) -> Tensor:
    weight, eps = module.weight, module.variance_epsilon
    if x.is_cuda or not torch.is_grad_enabled():  # on a GPU torch has fused kernels
        return F.rms_norm(x, weight.shape, weight, eps)
    return cast(Tensor, _RMSNorm.apply(x, weight, eps))  # type: ignore[no-untyped-call]


def _gated(module: Any, x: Tensor) -> Tensor:
    gate, up = module.gate_proj(x), module.up_proj(x)
    if not torch.is_grad_enabled():
        return cast(Tensor, module.down_proj(F.silu(gate).mul_(up)))
    y = _SwiGLU.apply(gate, up)  # type: ignore[no-untyped-call]
    return cast(Tensor, module.down_proj(y))


class _RMSNorm(torch.autograd.Function):
    """w x / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019) with frozen w, computed in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, scale)
        return (wide * scale * weight).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        unit, slope = x * scale, grad.float() * weight
        slope.sub_(unit * (slope * unit).mean(-1, keepdim=True))
        return slope.mul_(scale).to(x.dtype), None, None


class _SwiGLU(torch.autograd.Function):
    """silu(gate) * up (Shazeer 2020, "GLU Variants Improve Transformer"); keeps gate and up."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate).mul_(up)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        to_gate = torch.ops.aten.silu_backward(grad * up, gate)
        return to_gate, F.silu(gate).mul_(grad)
