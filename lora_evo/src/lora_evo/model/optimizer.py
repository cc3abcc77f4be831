"""One AdamW for each member (Loshchilov and Hutter 2017), with its own steps and gradient norm.

A member without a gradient in an update does not change: its moments do not decay, and its bias
correction stays right. Gradients are clipped by the member's own norm.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(slots=True)
class AdamState:
    """Steps and moments of one member; moments in the order of its parameters."""

    step: int
    exp_avg: list[Tensor]
    exp_avg_sq: list[Tensor]


_BETA1, _EPSILON = 0.9, 1e-8
"""Decay of the gradient's moving average, and the constant in the denominator."""


class MemberAdamW:
    """AdamW over the parameters of several members, each with a state of its own."""

    def __init__(
        self,
        parameters: Sequence[Mapping[str, nn.Parameter]],
        *,
        beta2: float = 0.999,
        weight_decay: float = 0.0,
        max_grad_norm: float = 0.0,
        offload: bool = False,
    ):
        """parameters[m]: the member's matrices by name; the names are equal for all members.

        beta2: decay of the squared gradient's moving average. max_grad_norm: longest gradient of a
        member; 0: no clipping. offload: keep moments in main memory, except during a step.
        """
        self._beta2, self._weight_decay = beta2, weight_decay
        self._max_grad_norm, self._offload = max_grad_norm, offload
        self._parameters = parameters
        self.states = {member: self._fresh(member) for member in range(len(parameters))}

    def _fresh(self, member: int) -> AdamState:
        home, parameters = "cpu" if self._offload else None, self._parameters[member]
        moments = (
            [torch.zeros_like(p, device=home) for p in parameters.values()] for _ in range(2)
        )
        return AdamState(0, *moments)

    def reset(self, member: int) -> None:
        self.states[member] = self._fresh(member)

    def zero_grad(self) -> None:
        for parameters in self._parameters:
            for p in parameters.values():
                p.grad = None

    @torch.no_grad()
    def step(
        self, member: int, learning_rate: float, loss_scale: float = 1.0
    ) -> tuple[float, bool]:
        """Clip and apply the member's gradients; a missing gradient counts as 0.

        loss_scale: factor of the loss, by which gradients are divided. Returns the norm before
        clipping, and whether the step was taken: a gradient that is not finite changes neither
        parameters nor state.
        """
        state, beta2 = self.states[member], self._beta2
        parameters: list[Tensor] = list(self._parameters[member].values())
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        if loss_scale != 1.0:
            grads = list(torch._foreach_div(grads, loss_scale))
        norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))))
        if not math.isfinite(norm):
            return norm, False
        if 0.0 < self._max_grad_norm < norm + 1e-6:
            grads = list(torch._foreach_mul(grads, self._max_grad_norm / (norm + 1e-6)))
        first, second = (
            [m.to(p.device) for m, p in zip(moments, parameters, strict=True)]
            for moments in (state.exp_avg, state.exp_avg_sq)
        )
        state.step += 1
        if self._weight_decay:
            torch._foreach_mul_(parameters, 1.0 - learning_rate * self._weight_decay)
        torch._foreach_lerp_(first, grads, 1.0 - _BETA1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, grads, grads, 1.0 - beta2)
        denominator = torch._foreach_sqrt(second)
        torch._foreach_div_(denominator, math.sqrt(1.0 - beta2**state.step))
        torch._foreach_add_(denominator, _EPSILON)
        rate = learning_rate / (1.0 - _BETA1**state.step)
        torch._foreach_addcdiv_(parameters, first, denominator, -rate)
        if self._offload:
            torch._foreach_copy_(state.exp_avg, first)
            torch._foreach_copy_(state.exp_avg_sq, second)
        return norm, True

    def tensors(self, member: int) -> dict[str, Tensor]:
        """Return, not copied, `weights/<name>`, `exp_avg/...` and `exp_avg_sq/...` of a member."""
        parameters, state = self._parameters[member], self.states[member]
        tensors: dict[str, Tensor] = {f"weights/{name}": p for name, p in parameters.items()}
        for kind, moments in (("exp_avg", state.exp_avg), ("exp_avg_sq", state.exp_avg_sq)):
            pairs = zip(parameters, moments, strict=True)
            tensors |= {f"{kind}/{name}": moment for name, moment in pairs}
        return tensors

    @torch.no_grad()
    def load(self, member: int, tensors: Mapping[str, Tensor], step: int) -> None:
        """Load tensors that `tensors` returned for a member with equal parameters, and its step."""
        for name, tensor in self.tensors(member).items():
            tensor.copy_(tensors[name])
        self.states[member].step = step
