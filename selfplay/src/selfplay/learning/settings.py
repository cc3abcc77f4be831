"""Settings of the joint learner, and the schedule of its learning rate."""

import math
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from selfplay.errors import SelfplayError
from selfplay.records.ranges import AtLeastOne, Count, NotNegative, Positive, Share

TARGET_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
LOSS_TYPES = ("grpo", "dapo", "bnpo", "dr_grpo")
SCHEDULES = ("constant", "linear", "cosine")
Decay = Annotated[float, Meta(ge=0, lt=1)]


@dataclass(frozen=True, slots=True)
class LearnerConfig:
    """Adapters, optimiser and loss of the joint learner; names as in TRL and PEFT."""

    r: AtLeastOne = 8
    """Rank of the adapters."""
    lora_alpha: Positive = 16.0
    """Scale of the adapters: the update is lora_alpha / r times B A."""
    target_modules: tuple[str, ...] = TARGET_MODULES
    """Names of the linear layers that carry adapters."""
    learning_rate: NotNegative = 1e-5
    """AdamW step size."""
    teacher_learning_rate: float | None = None
    """AdamW step size of teachers where it differs; null: the same."""
    lr_scheduler_type: str = "constant"
    """Course of both over the run: constant, linear or cosine, down to min_lr_rate."""
    min_lr_rate: Share = 0.0
    """Share of the learning rate at the last step of a linear or cosine schedule."""
    warmup_steps: Count = 0
    """Steps over which the learning rate rises from 0 first."""
    adam_beta1: Decay = 0.9
    """AdamW decay of the gradient's moving average."""
    adam_beta2: Decay = 0.999
    """AdamW decay of the squared gradient's moving average."""
    adam_epsilon: Positive = 1e-8
    """AdamW constant in the denominator."""
    weight_decay: NotNegative = 0.0
    """AdamW decoupled weight decay."""
    max_grad_norm: float = 1.0
    """A member's gradient longer than this is scaled down to it; 0 or less: never."""
    epsilon: float = 0.2
    """Lower clip range of the policy ratio."""
    epsilon_high: float = 0.2
    """Upper clip range of the policy ratio (DAPO uses 0.28)."""
    num_iterations: int = 1
    """Optimiser steps per batch of samples."""
    loss_type: str = "grpo"
    """Averaging per member: grpo (sequences), dapo or bnpo (tokens), dr_grpo (constant length)."""
    max_completion_length: int = 256
    """Divisor of dr_grpo; in a run it is rollout.max_completion_length."""
    importance_sampling_correction: bool = True
    """Weigh tokens by pi(learner) / pi(sampler), truncated from above."""
    importance_sampling_clip_max: float = 2.0
    """Largest importance weight."""
    mask_truncated_completions: bool = False
    """Leave completions that ran into the length limit out of the loss."""
    beta: NotNegative = 0.0
    """Coefficient of the KL divergence from the frozen base (k3 estimate); 0: not computed."""
    entropy_coef: NotNegative = 0.0
    """Coefficient of the entropy bonus; 0: not computed."""
    temperature: float = 1.0
    """Temperature under which log-probabilities are taken; in a run it is rollout.temperature."""
    micro_batch_tokens: int = 4096
    """Padded tokens per forward pass; changes speed and memory, not the result."""
    micro_batch_members: Count = 0
    """Most members that share a forward pass; 0: any number. Changes speed and memory only."""
    logits_chunk_tokens: Count = 0
    """Tokens that go through the output layer at a time; 0: as suits the vocabulary."""
    gradient_checkpointing: bool = False
    """Compute each layer again in the backward pass instead of keeping its activations."""
    optimizer_offload: bool = False
    """Keep optimiser states, and gradients by noise group, in main memory; no use on a CPU."""
    noise_groups: int = 4
    """Parts of a batch whose gradients are compared to tell signal from noise; 0: not measured."""

    def __post_init__(self) -> None:
        if self.num_iterations < 1 or self.micro_batch_tokens < 1:
            raise SelfplayError("num_iterations and micro_batch_tokens must be at least 1")
        if self.temperature <= 0.0:
            raise SelfplayError(f"temperature is {self.temperature}, expected a number above 0")
        if self.lr_scheduler_type not in SCHEDULES:
            raise SelfplayError(
                f"lr_scheduler_type is {self.lr_scheduler_type!r}, expected {', '.join(SCHEDULES)}"
            )
        if not 0.0 <= self.min_lr_rate <= 1.0 or self.warmup_steps < 0:
            raise SelfplayError(
                f"min_lr_rate is {self.min_lr_rate} and warmup_steps {self.warmup_steps}, "
                "expected 0 to 1, and at least 0"
            )
        if self.noise_groups < 0 or self.noise_groups == 1:
            raise SelfplayError(f"noise_groups is {self.noise_groups}, expected 0 or at least 2")
        if self.loss_type not in LOSS_TYPES:
            raise SelfplayError(
                f"loss_type is {self.loss_type!r}, expected {', '.join(LOSS_TYPES)}"
            )
        if not 0.0 <= self.epsilon < 1.0 or self.epsilon_high < 0.0:
            raise SelfplayError(
                f"epsilon is {self.epsilon} and epsilon_high {self.epsilon_high}, expected "
                "0 <= epsilon < 1 and epsilon_high >= 0"
            )
        if self.importance_sampling_clip_max <= 0.0 or self.max_completion_length < 1:
            raise SelfplayError(
                "importance_sampling_clip_max must be above 0 and max_completion_length at least 1"
            )
        if self.beta < 0.0 or self.entropy_coef < 0.0:
            raise SelfplayError(
                f"beta is {self.beta} and entropy_coef {self.entropy_coef}, expected 0 or more"
            )

    @property
    def regularises(self) -> bool:
        """Whether tokens without advantage have a gradient, too."""
        return self.beta > 0.0 or self.entropy_coef > 0.0

    def learning_rate_of(self, role: str) -> float:
        """Return the step size of a role before its schedule."""
        if role == "teacher" and self.teacher_learning_rate is not None:
            return self.teacher_learning_rate
        return self.learning_rate

    def schedule(self, step: int, steps: int) -> float:
        """Return the factor of the learning rate in step 1 to `steps` of a run."""
        if step <= self.warmup_steps:
            return step / (self.warmup_steps + 1)
        if self.lr_scheduler_type == "constant":
            return 1.0
        whole = max(1, steps - self.warmup_steps - 1)
        done = min(1.0, (step - self.warmup_steps - 1) / whole)
        left = (
            1.0 - done if self.lr_scheduler_type == "linear" else (1 + math.cos(math.pi * done)) / 2
        )
        return self.min_lr_rate + (1.0 - self.min_lr_rate) * left
