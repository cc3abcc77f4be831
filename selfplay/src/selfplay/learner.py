"""The joint learner: one forward and one backward pass for all members, one AdamW for each.

Rows of similar length from all members share micro-batches of a bounded number of tokens. The loss
of every member is normalised over that member's own batch, so neither the cut into micro-batches
nor the other members change its gradient.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lora_evo import Adapter
from selfplay.adapter_exchange import export_adapter, import_adapter
from selfplay.errors import SelfplayError
from selfplay.optimizer import AdamWOptions, MemberAdamW
from selfplay.policy_loss import LossOptions, token_losses, token_weights
from selfplay.stacked_lora import TARGET_MODULES, StackedAdapters, stack_adapters
from selfplay.update_stats import StatsSum, UpdateStats

__all__ = ["Learner", "LearnerConfig", "TrainingSample", "UpdateStats"]


@dataclass(frozen=True, slots=True)
class LearnerConfig:
    """Adapters, optimiser and loss of the joint learner; names as in TRL and PEFT."""

    r: int = 8
    """Rank of the adapters."""
    lora_alpha: float = 16.0
    """Scale of the adapters: the update is lora_alpha / r times B A."""
    target_modules: tuple[str, ...] = TARGET_MODULES
    """Names of the linear layers that carry adapters."""
    learning_rate: float = 1e-5
    """AdamW step size."""
    adam_beta1: float = 0.9
    """AdamW decay of the gradient's moving average."""
    adam_beta2: float = 0.999
    """AdamW decay of the squared gradient's moving average."""
    adam_epsilon: float = 1e-8
    """AdamW constant in the denominator."""
    weight_decay: float = 0.0
    """AdamW decoupled weight decay."""
    max_grad_norm: float = 1.0
    """A member's gradient longer than this is scaled down to it; 0 switches clipping off."""
    epsilon: float = 0.2
    """Lower clip range of the policy ratio."""
    epsilon_high: float = 0.2
    """Upper clip range of the policy ratio (DAPO uses 0.28)."""
    num_iterations: int = 1
    """Optimiser steps per batch of samples."""
    loss_type: str = "dapo"
    """Averaging per member: grpo (sequences), dapo or bnpo (tokens), dr_grpo (constant length)."""
    max_completion_length: int = 256
    """Divisor of dr_grpo: the number of tokens a completion may have."""
    importance_sampling_correction: bool = True
    """Weigh tokens by pi(learner) / pi(sampler), truncated from above."""
    importance_sampling_clip_max: float = 2.0
    """Largest importance weight."""
    mask_truncated_completions: bool = False
    """Leave completions that ran into the length limit out of the loss."""
    temperature: float = 1.0
    """Temperature under which log-probabilities are taken; the one the samples were drawn at."""
    micro_batch_tokens: int = 4096
    """Padded tokens per forward pass; changes speed and memory, not the result."""

    def __post_init__(self) -> None:
        if self.num_iterations < 1 or self.micro_batch_tokens < 1:
            raise SelfplayError("num_iterations and micro_batch_tokens must be at least 1")
        if self.temperature <= 0.0:
            raise SelfplayError(f"temperature is {self.temperature}, expected a number above 0")
        self.loss_options()

    def adamw_options(self) -> AdamWOptions:
        """The optimiser's part."""
        return AdamWOptions(**_part(AdamWOptions, self))

    def loss_options(self) -> LossOptions:
        """The loss's part."""
        return LossOptions(**_part(LossOptions, self))


def _part(kind: Any, config: LearnerConfig) -> dict[str, Any]:
    return {field.name: getattr(config, field.name) for field in fields(kind)}


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """One completion to learn from."""

    member: str
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """As reported by the sampler, one per completion token."""
    advantage: float
    truncated: bool = False
    """The completion ran into the length limit."""


@dataclass(slots=True)
class _Row:
    sample: TrainingSample
    member: int
    weight: float
    old: Tensor | None = None

    @property
    def length(self) -> int:
        return len(self.sample.prompt_ids) + len(self.sample.completion_ids)


class Learner:
    """Trains all adapters of one frozen base together."""

    def __init__(
        self,
        model: Any,
        tokenizer_pad_id: int,
        members: Sequence[str],
        config: LearnerConfig,
        *,
        seed: int,
        base_model: str | None = None,
    ):
        """Put fresh adapters for `members` on the model, in place.

        tokenizer_pad_id fills rows on the right (any valid id: no loss ever sees it); base_model is
        the name written into exported adapters.
        """
        self.model = model
        self.config = config
        self.base_model = base_model
        self._pad = tokenizer_pad_id
        self._seed = seed
        self.adapters: StackedAdapters = stack_adapters(
            model,
            members,
            r=config.r,
            lora_alpha=config.lora_alpha,
            target_modules=config.target_modules,
            seed=seed,
        )
        self.optimizer = MemberAdamW(
            [self.adapters.parameters_of(m) for m in range(len(members))], config.adamw_options()
        )

    @property
    def members(self) -> tuple[str, ...]:
        """Names in the order of their places."""
        return tuple(self.adapters.members)

    def update(self, samples: Sequence[TrainingSample]) -> dict[str, UpdateStats]:
        """Take `num_iterations` steps for every member with a sample that says something.

        A member all of whose samples have advantage or weight 0 is left as it is. Returns the
        statistics of each member with samples: of the first iteration, the clip ratio of the last.
        """
        rows = self._rows(samples)
        learning = sorted({r.member for r in rows if r.weight * r.sample.advantage != 0.0})
        present = sorted({r.member for r in rows})
        first = {m: StatsSum() for m in present}
        last = first
        outcomes: dict[int, tuple[float | None, bool]] = dict.fromkeys(present, (None, False))
        for iteration in range(self.config.num_iterations):
            last = {m: StatsSum() for m in present} if iteration else first
            self.optimizer.zero_grad()
            for batch in self._micro_batches(rows):
                self._forward(batch, last).backward()  # type: ignore[no-untyped-call]
            for member in learning:
                outcome = self.optimizer.step(member)
                if iteration == 0:
                    outcomes[member] = outcome
        self.optimizer.zero_grad()
        for member, sums in first.items():
            sums.clipped = last[member].clipped
        return {self.members[m]: s.stats(*outcomes[m]) for m, s in first.items()}

    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter in PEFT's layout."""
        return export_adapter(self.adapters, self.adapters.index(member), self.base_model)

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        """Put an adapter in a member's place under a new name, with a fresh optimiser state."""
        if new_name != member and new_name in self.members:
            raise SelfplayError(f"there is already a member named {new_name!r}")
        place = self.adapters.index(member)
        import_adapter(self.adapters, place, adapter)
        self.adapters.members[place] = new_name
        self.optimizer.reset(place)

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return tensors (for safetensors) and plain values (for JSON) that continue this learner.

        Tensors: `<place>/weights/<module>.lora_A`, `<place>/exp_avg/...`, `<place>/exp_avg_sq/...`.
        """
        tensors = self.optimizer.tensors()
        for place in range(len(self.members)):
            for name, p in self.adapters.parameters_of(place).items():
                tensors[f"{place}/weights/{name}"] = p.detach().clone()
        return tensors, {"members": list(self.members), "optimizer": self.optimizer.scalars()}

    @torch.no_grad()
    def load_state_dict(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken; the numbers of members must agree."""
        names = [str(name) for name in values["members"]]
        if len(names) != len(self.members):
            raise SelfplayError(f"the state has {len(names)} members, expected {len(self.members)}")
        weights = {
            f"{place}/weights/{name}": p
            for place in range(len(names))
            for name, p in self.adapters.parameters_of(place).items()
        }
        for key, p in weights.items():
            if key not in tensors or tensors[key].shape != p.shape:
                shape = list(tensors[key].shape) if key in tensors else None
                raise SelfplayError(
                    f"learner state {key!r}: found {shape}, expected {list(p.shape)}"
                )
        self.optimizer.load(tensors, values["optimizer"])
        for key, p in weights.items():
            p.copy_(tensors[key])
        self.adapters.members[:] = names

    def _rows(self, samples: Sequence[TrainingSample]) -> list[_Row]:
        members = [self.adapters.index(s.member) for s in samples]
        for s in samples:
            if not s.prompt_ids or len(s.logprobs) != len(s.completion_ids):
                raise SelfplayError(
                    f"a sample of {s.member!r} has {len(s.prompt_ids)} prompt tokens, "
                    f"{len(s.completion_ids)} completion tokens and {len(s.logprobs)} "
                    "log-probabilities; expected a prompt, and one log-probability per token"
                )
        if None in {s.member for s in samples}:
            raise SelfplayError("a sample has no member: the base model is frozen")
        weights = token_weights(
            members,
            [len(s.completion_ids) for s in samples],
            [s.truncated for s in samples],
            self.config.loss_options(),
        )
        rows = [_Row(s, m, w) for s, m, w in zip(samples, members, weights, strict=True)]
        return [r for r in rows if r.sample.completion_ids]

    def _micro_batches(self, rows: Sequence[_Row]) -> Iterator[list[_Row]]:
        """Cut rows, longest first, so that rows times longest stays within the token budget."""
        batch: list[_Row] = []
        for row in sorted(rows, key=lambda r: (-r.length, r.member)):
            if batch and (len(batch) + 1) * batch[0].length > self.config.micro_batch_tokens:
                yield sorted(batch, key=lambda r: r.member)
                batch = []
            batch.append(row)
        if batch:
            yield sorted(batch, key=lambda r: r.member)

    def _forward(self, batch: list[_Row], sums: dict[int, StatsSum]) -> Tensor:
        """Return the batch's part of the loss and add its tokens to the statistics."""
        device = next(self.model.parameters()).device
        T = max(row.length for row in batch) - 1
        ids = torch.full((len(batch), T), self._pad)
        places: list[Tensor] = []
        targets: list[int] = []
        rollout: list[float] = []
        lengths: list[int] = []
        for i, row in enumerate(batch):
            s = row.sample
            whole = (*s.prompt_ids, *s.completion_ids)
            ids[i, : len(whole) - 1] = torch.tensor(whole[:-1])
            places.append(torch.arange(len(s.prompt_ids) - 1, len(whole) - 1) + i * T)
            targets.extend(s.completion_ids)
            rollout.extend(s.logprobs)
            lengths.append(len(s.completion_ids))
        repeats = torch.tensor(lengths, device=device)

        def per_token(values: list[float]) -> Tensor:
            return torch.tensor(values, device=device).repeat_interleave(repeats)

        with self.adapters.route([row.member for row in batch]):
            # Causal attention and padding on the right: real tokens never see the padding.
            hidden = self.model.model(input_ids=ids.to(device), use_cache=False).last_hidden_state
        picked = hidden.reshape(-1, hidden.shape[-1])[torch.cat(places).to(device)]
        logits = self.model.lm_head(picked).float() / self.config.temperature
        table = F.log_softmax(logits, dim=-1)
        logprobs = table.gather(1, torch.tensor(targets, device=device)[:, None])[:, 0]
        now = logprobs.detach()
        for row, part in zip(batch, torch.split(now, lengths), strict=True):
            row.old = part if row.old is None else row.old
        old = torch.cat([row.old for row in batch if row.old is not None])
        parts = token_losses(
            logprobs,
            old,
            torch.tensor(rollout, device=device),
            per_token([row.sample.advantage for row in batch]),
            self.config.loss_options(),
        )
        weighted = parts.loss * per_token([row.weight for row in batch])
        entropy = -(table.detach().exp() * table.detach()).sum(-1)
        log_ratio = now - torch.tensor(rollout, device=device)
        columns = (weighted.detach(), entropy, parts.clipped, parts.importance, log_ratio)
        cap = self.config.importance_sampling_clip_max
        split = [torch.split(column, lengths) for column in columns]
        for row, *tokens in zip(batch, *split, strict=True):
            sums[row.member].add_tokens(*tokens, importance_clip_max=cap)
        return weighted.sum()
