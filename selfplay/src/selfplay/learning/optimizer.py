"""One AdamW per member (Loshchilov and Hutter 2017), with its own steps, norm and step size.

A member that does not take part in an update is not touched: its moments do not decay and its step
count does not change, so its bias correction stays right. Gradients are clipped by the norm of that
member alone; one exploding member cannot shrink the others' updates.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from selfplay.config import LearnerConfig


@dataclass(slots=True)
class AdamState:
    """Optimiser state of one member; moments in the order of its parameters."""

    step: int = 0
    exp_avg: list[Tensor] = field(default_factory=list)
    exp_avg_sq: list[Tensor] = field(default_factory=list)


_BETA1, _EPSILON = 0.9, 1e-8
"""Decay of the gradient's moving average, and the constant in the denominator."""


class MemberAdamW:
    """AdamW over the parameters of several members, each with a state of its own."""

    def __init__(
        self,
        parameters: Sequence[Mapping[str, nn.Parameter]],
        config: LearnerConfig,
        learning_rates: Sequence[float] | None = None,
        owned: Sequence[int] | None = None,
    ):
        """parameters[m] are the member's matrices by name, the same names for all members.

        learning_rates[m] is the member's step size; without them it is that of the config.
        owned: members that have a state and make steps here; all without it.
        With optimizer_offload moments are in main memory, and on the parameters' device during a
        step only.
        """
        self.config = config
        self._rates = learning_rates or [config.learning_rate] * len(parameters)
        self._names = [list(p) for p in parameters]
        self._parameters: list[list[Tensor]] = [list(p.values()) for p in parameters]
        owned = range(len(parameters)) if owned is None else owned
        self.states = {member: self._fresh(member) for member in owned}

    def _fresh(self, member: int) -> AdamState:
        home = "cpu" if self.config.optimizer_offload else None
        zeros = [torch.zeros_like(p, device=home) for p in self._parameters[member]]
        more = [torch.zeros_like(p, device=home) for p in self._parameters[member]]
        return AdamState(exp_avg=zeros, exp_avg_sq=more)

    def reset(self, member: int) -> None:
        """Forget the member's moments and step count."""
        self.states[member] = self._fresh(member)

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for parameters in self._parameters:
            for p in parameters:
                p.grad = None

    @torch.no_grad()
    def step(
        self, member: int, lr_factor: float = 1.0, loss_scale: float = 1.0
    ) -> tuple[float, bool]:
        """Clip and apply the member's gradients; a missing gradient counts as 0.

        lr_factor is the schedule's factor of the learning rate; loss_scale that of the loss, which
        is divided out of the gradients. Returns the norm before clipping
        and whether the member moved: a gradient that is not finite changes neither the parameters
        nor the state.
        """
        o, state, parameters = self.config, self.states[member], self._parameters[member]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        if loss_scale != 1.0:
            grads = list(torch._foreach_div(grads, loss_scale))
        norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))))
        if not math.isfinite(norm):
            return norm, False
        if 0.0 < o.max_grad_norm < norm + 1e-6:
            grads = list(torch._foreach_mul(grads, o.max_grad_norm / (norm + 1e-6)))
        first, second = (
            [m.to(p.device) for m, p in zip(moments, parameters, strict=True)]
            for moments in (state.exp_avg, state.exp_avg_sq)
        )
        state.step += 1
        lr = self._rates[member] * lr_factor
        if o.weight_decay:
            torch._foreach_mul_(parameters, 1.0 - lr * o.weight_decay)
        torch._foreach_lerp_(first, grads, 1.0 - _BETA1)
        torch._foreach_mul_(second, o.adam_beta2)
        torch._foreach_addcmul_(second, grads, grads, 1.0 - o.adam_beta2)
        correction1 = 1.0 - _BETA1**state.step
        correction2 = 1.0 - o.adam_beta2**state.step
        denominator = torch._foreach_sqrt(second)
        torch._foreach_div_(denominator, math.sqrt(correction2))
        torch._foreach_add_(denominator, _EPSILON)
        torch._foreach_addcdiv_(parameters, first, denominator, -lr / correction1)
        if o.optimizer_offload:
            torch._foreach_copy_(state.exp_avg, first)
            torch._foreach_copy_(state.exp_avg_sq, second)
        return norm, True

    def tensors(self, member: int) -> dict[str, Tensor]:
        """Return the member's moments themselves: `exp_avg/<parameter>`, `exp_avg_sq/...`."""
        state, names = self.states[member], self._names[member]
        first = zip(names, state.exp_avg, strict=True)
        second = zip(names, state.exp_avg_sq, strict=True)
        return {f"exp_avg/{name}": moment for name, moment in first} | {
            f"exp_avg_sq/{name}": moment for name, moment in second
        }

    def scalars(self, member: int) -> dict[str, float]:
        """Return the member's numbers, ready for JSON."""
        return {"step": self.states[member].step}

    @torch.no_grad()
    def load(
        self, member: int, tensors: Mapping[str, Tensor], scalars: Mapping[str, float]
    ) -> None:
        """Restore what `tensors` and `scalars` returned of a member with the same parameters."""
        for name, moment in self.tensors(member).items():
            moment.copy_(tensors[name])
        self.states[member].step = int(scalars["step"])  # JSON's reader makes a float of it
