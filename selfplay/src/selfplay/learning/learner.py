"""The joint learner: one forward and one backward pass for all members, one AdamW for each.

Rows of similar length from all members share micro-batches of a bounded number of tokens; in a run
with pieces, the rows of one shard do. Each member's loss is normalised over its own batch, so
neither the cut into micro-batches nor the other members change its gradient. When memory runs out,
the passes are repeated in smaller micro-batches; a row that does not fit alone is run with gradient
checkpointing from then on.

Several learners with the same members share the shards of an update through an `Exchange`.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from lora_evo import Adapter
from lora_evo.model import (
    BASE,
    MemberAdamW,
    Scorer,
    StackedAdapters,
    export_adapter,
    import_adapter,
    stack_adapters,
)
from selfplay.config import LearnerConfig, RolloutConfig
from selfplay.errors import SelfplayError, is_out_of_memory
from selfplay.files.rows import START, MemberRow, role_of
from selfplay.learning.batch import Row, Shard, StepResult, TrainingSample, make_batch, share_out
from selfplay.learning.exchange import Exchange, Homes, Part, add
from selfplay.learning.loss import ForwardPass
from selfplay.learning.statistics import StatsSum

Advance: TypeAlias = Callable[[int, int], None]
"""Called with the number of work items done and the total."""
_FLOAT16_SCALE = 2.0**12
"""Loss scale for a float16 base: a token weighs 1e-6 of a large batch, so that most gradients would
be below 6e-8, the least number of float16. A power of two changes no other bit."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """The state of one member: its parameters and its optimiser's."""

    name: str
    tensors: Mapping[str, Tensor]
    """`weights/<module>.lora_A`, `exp_avg/...`, `exp_avg_sq/...` and the optimiser's `step`."""


class Learner:
    """Trains all adapters of one frozen base together."""

    def __init__(
        self,
        model: Any,
        members: Sequence[str],
        config: LearnerConfig,
        *,
        seed: int,
        rollout: RolloutConfig | None = None,
        pieces: int = 0,
        exchange: Exchange | None = None,
        has_reference: bool = False,
    ):
        """Put fresh adapters for `members`, whose names tell their roles, on the model, in place.

        rollout: gives the temperature of the samples, and max_completion_length, the divisor of the
        loss dr_grpo. pieces: shards for the rows of each role, at least one for each member; 0:
        members share micro-batches. exchange: connects other learners of the same members.
        has_reference: the KL divergence is from the adapter of `set_reference`, not from the base.
        """
        self.model, self.config, self.pieces = model, config, pieces
        self.base_model: str | None = None
        """Name of the base in exported adapters."""
        self.base_hash = ""
        """A hash of its weights where it is known."""
        self.rollout, self.exchange = rollout or RolloutConfig(), exchange or Exchange()
        self.roles = [role_of(member) for member in members]
        """By place; they choose the learning rate."""
        self.adapters: StackedAdapters = stack_adapters(
            model,
            [*members, START] if has_reference else members,
            r=config.r,
            lora_alpha=config.lora_alpha,
            target_modules=config.target_modules,
            seed=seed,
        )
        self.optimizer = MemberAdamW(
            [self.adapters.parameters_of(m) for m in range(len(members))],
            beta2=config.adam_beta2,
            weight_decay=config.weight_decay,
            max_grad_norm=config.max_grad_norm,
            offload=config.optimizer_offload,
        )
        self.scorer = Scorer(
            self.adapters,
            temperature=self.rollout.temperature,
            chunk=config.logits_chunk_tokens,
            checkpointing=config.gradient_checkpointing,
        )
        self._count = len(members)
        self.forward_pass = ForwardPass(self.scorer, config, self._count if has_reference else BASE)
        self.micro_batch_tokens = config.micro_batch_tokens
        """Padded tokens per forward pass; halved when memory runs out."""
        self.loss_scale = _FLOAT16_SCALE if model.dtype == torch.float16 else 1.0
        """Factor of the loss, by which the float32 gradients are divided again."""
        self._batch: list[Row] = []
        """The current, or last, micro-batch."""
        self._rows = (0, 0)
        """Number of rows of this update that are done, and their total."""
        self._advance: Advance | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """Names in the order of their places."""
        return tuple(self.adapters.members[: self._count])

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
        rates: Mapping[str, float] | None = None,
    ) -> dict[str, MemberRow]:
        """Take `num_iterations` optimiser steps for every member with a gradient.

        lr_factor: scales every member's learning rate, from `rates` or else the configuration.
        advance: called after every micro-batch with the number of rows done and their total.

        Samples without weight are left out of the passes, and without beta and entropy_coef those
        without advantage. A member without other samples does not change, and neither does one with
        a reward, log-probability, loss or gradient that is not finite: its statistics say which.
        Returns the statistics of each member with samples, of the first iteration (the clip ratio:
        of the last). Each of several learners gets all samples, does its share of the passes, and
        returns all statistics. Raises PeerLost, and SelfplayError if a single row does not fit into
        memory; members that stepped before that keep their step.
        """
        batch = make_batch(
            samples,
            self.members,
            self.roles,
            self.config,
            max_completion_length=self.rollout.max_completion_length,
            pieces=self.pieces,
            lr_factor=lr_factor,
            rates=rates,
        )
        shares, homes = share_out(batch.shards, self.exchange.count)
        shards = shares[self.exchange.rank]
        rows = self.config.num_iterations * sum(map(len, shards))
        self._rows, self._advance = (0, rows), advance
        outcomes: dict[int, StepResult] = {}
        for iteration in range(self.config.num_iterations):
            parts = self._gradients(shards, homes)
            for place, ranks in sorted(homes.items()):
                parameters = self._parameters(place)
                gradient, sums = self.exchange.total(parts.pop(place, []), ranks, parameters)
                for p, grad in zip(parameters, gradient, strict=True):
                    p.grad = grad
                result = self._step(place, batch.rates[place], sums)
                if iteration:
                    first = outcomes[place]
                    first.sums.clipped = sums.clipped
                    result = replace(first, fault=first.fault or result.fault)
                outcomes[place] = result
                self.optimizer.zero_grad()
        return batch.stats(self.members, outcomes)

    def _step(self, place: int, rate: float, sums: StatsSum) -> StepResult:
        """Take a member's optimiser step; sums: of the samples that gave its gradient."""
        norm, stepped = self.optimizer.step(place, rate, self.loss_scale)
        fault = "" if stepped else f"the norm of its gradient is {norm}"
        if not stepped and not math.isfinite(sums.loss):
            fault = f"its loss is {sums.loss}"
        return StepResult(sums, norm, stepped, fault)

    def _gradients(self, shards: Sequence[Shard], homes: Homes) -> dict[int, list[Part]]:
        """Return the parts of these shards' gradients by member's place, the first ones summed.

        All shards of a member are one part on the learner that has its first shards.
        """
        parts: dict[int, list[Part]] = {}
        for shard in shards:
            self.optimizer.zero_grad()
            sums = {place: StatsSum() for place in sorted({row.member for row in shard})}
            self._backward_that_fits(shard, sums)
            for place, of_member in sums.items():
                part: Part = [p.grad for p in self._parameters(place)], of_member
                parts.setdefault(place, []).append(part)
                if homes[place][0] == self.exchange.rank and len(parts[place]) == 2:
                    parts[place] = [add(*parts[place])]
        self.optimizer.zero_grad()
        return parts

    def _parameters(self, place: int) -> list[Tensor]:
        return list(self.adapters.parameters_of(place).values())

    def _backward_that_fits(self, rows: Sequence[Row], sums: dict[int, StatsSum]) -> None:
        """Do the passes; when memory runs out, repeat them all in smaller micro-batches."""
        sums_before, olds, rows_before = deepcopy(sums), [row.old for row in rows], self._rows
        while True:
            try:
                with self.adapters.unchanged():
                    self.backward(rows, sums)
                return
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # Outside of that block the failed pass's tensors are freed
            self.optimizer.zero_grad()
            torch.cuda.empty_cache()
            self._halve_micro_batch()
            self._rows = rows_before
            sums |= deepcopy(sums_before)
            for row, old in zip(rows, olds, strict=True):
                row.old = old

    def _halve_micro_batch(self) -> None:
        """Halve the batch that did not fit; checkpoint rows as long as one that was alone."""
        tokens, scorer = max(row.length for row in self._batch), self.scorer
        if len(self._batch) > 1:
            tokens = scorer.tokens(self._batch, [row.member for row in self._batch])
            self.micro_batch_tokens = min(self.micro_batch_tokens, tokens) // 2
            remedy = f"learner.micro_batch_tokens={self.micro_batch_tokens}"
        elif tokens > scorer.checkpoint_from_tokens:
            raise SelfplayError(
                f"out of memory: a single row of {tokens} tokens does not fit; set smaller "
                "rollout.max_completion_length, or learner.optimizer_offload=true"
            )
        else:
            scorer.checkpoint_from_tokens = tokens - 1  # a row's last token is not read
            remedy = f"gradient checkpointing for rows of {tokens} tokens and more"
        if self.pieces:
            remedy += "; its bytes now depend on the number of workers"
        warnings.warn(f"out of memory in an update: repeated with {remedy}", stacklevel=2)

    def backward(self, rows: Sequence[Row], sums: dict[int, StatsSum]) -> None:
        """Add the gradient of these rows' loss to the parameters', batch by batch."""
        for batch in self.scorer.batches(rows, self.micro_batch_tokens, lambda row: row.member):
            self._batch = batch
            loss = self.loss_scale * self.forward_pass.loss(batch, sums)
            loss.backward()  # type: ignore[no-untyped-call]
            self._rows = self._rows[0] + len(batch), self._rows[1]
            if self._advance is not None:
                self._advance(*self._rows)

    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter in PEFT's layout."""
        return export_adapter(self.adapters, self.adapters.index(member), self.base_model)

    def set_reference(self, adapter: Adapter) -> None:
        """Set the reference of the KL divergence, which no update changes."""
        import_adapter(self.adapters, self._count, adapter)

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        """Put an adapter in a member's place under a new name, with a fresh optimiser state.

        Raises SelfplayError for a new name in the place of a frozen member.
        """
        if member in self.config.frozen and new_name != member:
            raise SelfplayError(
                f"{member} is frozen (learner.frozen) and cannot be replaced; replace another, or "
                "leave it out of learner.frozen"
            )
        if new_name != member and new_name in self.members:
            raise SelfplayError(f"there is already a member named {new_name!r}")
        place = self.adapters.index(member)
        import_adapter(self.adapters, place, adapter)
        self.adapters.members[place] = new_name
        self.optimizer.reset(place)

    def member_state(self, place: int) -> MemberState:
        """Return a copy of a member's state, in main memory."""
        tensors = self.optimizer.tensors(place).items()
        copies = {name: t.detach().contiguous().to("cpu", copy=True) for name, t in tensors}
        copies["step"] = torch.tensor(self.optimizer.states[place].step)
        return MemberState(self.members[place], copies)

    def load_member(self, place: int, state: MemberState) -> None:
        """Load a member's state into a place.

        Raises SelfplayError, and changes nothing, if shapes differ.
        """
        for key, like in self.optimizer.tensors(place).items():
            shape = tuple(state.tensors[key].shape) if key in state.tensors else None
            if shape != tuple(like.shape):
                raise SelfplayError(
                    f"learner state of {state.name} {key!r}: found {shape}, expected "
                    f"{tuple(like.shape)}"
                )
        self.optimizer.load(place, state.tensors, int(state.tensors["step"]))
        self.adapters.members[place] = state.name
