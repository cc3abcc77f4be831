"""The joint learner: one forward and one backward pass for all members, one AdamW for each.

Rows of similar length from all members share micro-batches of a bounded number of tokens. The loss
of every member is normalised over that member's own batch, so neither the cut into micro-batches
nor the other members change its gradient. When a GPU's memory does not suffice, the passes are done
again in smaller micro-batches; rows that do not fit alone are checkpointed from then on.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lora_evo import Adapter
from lora_evo.model import StackedAdapters, export_adapter, import_adapter, stack_adapters
from selfplay.config import LearnerConfig
from selfplay.errors import SelfplayError
from selfplay.learning.batch import Row, TrainingSample, batch_rows, micro_batches
from selfplay.learning.optimizer import MemberAdamW
from selfplay.learning.policy_loss import ForwardPass
from selfplay.learning.statistics import StatsSum, UpdateStats

NamedState = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors (for safetensors) and plain values (for JSON)."""


_FLOAT16_SCALE = 2.0**12
"""A token weighs 1e-6 of a large batch: what passes backwards through float16 layers would mostly
be below 6e-8, its least number. A power of two changes no other bit."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """One member of a learner at one moment."""

    name: str
    tensors: Mapping[str, Tensor]
    """`weights/<module>.lora_A`, `exp_avg/...`, `exp_avg_sq/...`."""
    optimizer: Mapping[str, float]
    """Step count and learning rate."""


def join_states(states: Sequence[MemberState]) -> NamedState:
    """Return the members' states in the order of their places; tensors under `<place>/<name>`."""
    tensors = {
        f"{place}/{key}": tensor
        for place, state in enumerate(states)
        for key, tensor in state.tensors.items()
    }
    return tensors, {
        "members": [state.name for state in states],
        "optimizer": [dict(state.optimizer) for state in states],
    }


def split_state(tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> list[MemberState]:
    """Take apart what `join_states` returned. Raises SelfplayError when parts are missing."""
    names, scalars = [str(name) for name in values["members"]], values["optimizer"]
    if len(scalars) != len(names):
        raise SelfplayError(f"the state has {len(names)} members, expected {len(scalars)}")
    tensors_of: list[dict[str, Tensor]] = [{} for _ in names]
    try:
        for key, tensor in tensors.items():
            place, _, name = key.partition("/")
            tensors_of[int(place)][name] = tensor
    except (IndexError, ValueError) as error:
        raise SelfplayError(f"the state has {len(names)} members and a part {key!r}") from error
    return [MemberState(*parts) for parts in zip(names, tensors_of, scalars, strict=True)]


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
        roles: Sequence[str] | None = None,
        temperature: float = 1.0,
        max_completion_length: int = 256,
        by_member: bool = False,
    ):
        """Put fresh adapters for `members` on the model, in place.

        tokenizer_pad_id fills rows on the right (any valid id: no loss ever sees it); base_model is
        the name written into exported adapters; roles[m] chooses the learning rate of place m;
        temperature is that of the samples; max_completion_length, in tokens, divides dr_grpo;
        by_member: a micro-batch has rows of one member only.
        """
        self.model = model
        self.config = config
        self.base_model = base_model
        self.adapters: StackedAdapters = stack_adapters(
            model,
            members,
            r=config.r,
            lora_alpha=config.lora_alpha,
            target_modules=config.target_modules,
            seed=seed,
        )
        self.optimizer = MemberAdamW(
            [self.adapters.parameters_of(m) for m in range(len(members))],
            config,
            [config.learning_rate_of(role) for role in roles or [""] * len(members)],
        )
        self.forward_pass = ForwardPass(model, self.adapters, config, tokenizer_pad_id, temperature)
        self.max_completion_length = max_completion_length
        self.by_member = by_member
        self.micro_batch_tokens = config.micro_batch_tokens
        """Padded tokens per forward pass; halved where memory does not suffice."""
        self.loss_scale = _FLOAT16_SCALE if model.dtype == torch.float16 else 1.0
        """What the loss is multiplied by, and the float32 gradients are divided by."""
        self._batch: list[Row] = []
        """What is in the passes, or was last."""
        self._rows = (0, 0)
        """How many rows of this update are through the passes, and how many there are."""
        self._advance: Callable[[int, int], None] | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """Names in the order of their places."""
        return tuple(self.adapters.members)

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Callable[[int, int], None] | None = None,
    ) -> dict[str, UpdateStats]:
        """Take `num_iterations` steps for every member with a sample that says something.

        lr_factor scales every member's learning rate; advance hears after every micro-batch how
        many rows of how many are done. Samples without weight are left out of the
        passes, and without beta and entropy_coef those without advantage; a member that has no
        other is left as it is, and so is one with a reward, a log-probability, a loss or a gradient
        that is not finite: its statistics say which. Returns the statistics of each member with
        samples: of the first iteration, the clip ratio of the last. Raises SelfplayError when a
        single row does not fit into a GPU's memory; the members that had stepped before keep their
        step.
        """
        rows = batch_rows(samples, self.adapters, self.config, self.max_completion_length)
        faults = {row.member: row.fault for row in reversed(rows) if row.fault}
        learned = [row for row in rows if row.member not in faults and self._moves(row)]
        sums = {m: StatsSum() for m in sorted({row.member for row in rows})}
        for row in rows:
            sums[row.member].add_row(row.sample.rollout.logprobs)
        norms: dict[int, tuple[float | None, bool]] = dict.fromkeys(sums, (None, False))
        self._rows, self._advance = (0, self.config.num_iterations * len(learned)), advance
        for iteration in range(self.config.num_iterations):
            now = {m: StatsSum() for m in sums} if iteration else sums
            self.optimizer.zero_grad()
            self._backward_that_fits(learned, now)
            for member in sorted({row.member for row in learned}):
                norm, stepped = self.optimizer.step(member, lr_factor, self.loss_scale)
                norms[member] = norms[member] if iteration else (norm, stepped)
                if not stepped:
                    loss = now[member].loss
                    name = "the norm of its gradient" if math.isfinite(loss) else "its loss"
                    faults[member] = f"{name} is {norm if math.isfinite(loss) else loss}"
            for member in sums:
                sums[member].clipped = now[member].clipped
        self.optimizer.zero_grad()
        return {self.members[m]: s.stats(*norms[m], faults.get(m, "")) for m, s in sums.items()}

    def _moves(self, row: Row) -> bool:
        return row.has_signal or (self.config.has_kl_or_entropy and row.weight > 0.0)

    def _backward_that_fits(self, rows: Sequence[Row], sums: dict[int, StatsSum]) -> None:
        """Do the passes; where memory runs out, all of them again in smaller micro-batches."""
        before, olds, rows_before = deepcopy(sums), [row.old for row in rows], self._rows
        while True:
            try:
                with self.adapters.unchanged():
                    self.backward(rows, sums)
                return
            except torch.OutOfMemoryError:
                pass  # outside of this block the failed pass's tensors are free
            self.optimizer.zero_grad()
            torch.cuda.empty_cache()
            self._save_memory()
            self._rows = rows_before
            sums |= deepcopy(before)
            for row, old in zip(rows, olds, strict=True):
                row.old = old

    def _save_memory(self) -> None:
        """Take half the tokens of the batch that did not fit; checkpoint a row that was alone."""
        tokens, forward = max(row.length for row in self._batch), self.forward_pass
        if len(self._batch) > 1:
            tokens *= len(self._batch)
            self.micro_batch_tokens = min(self.micro_batch_tokens, tokens) // 2
            remedy = f"learner.micro_batch_tokens={self.micro_batch_tokens}"
        elif tokens > forward.checkpoint_from_tokens:
            raise SelfplayError(
                f"out of memory: a single row of {tokens} tokens does not fit; set smaller "
                "rollout.max_completion_length, or learner.optimizer_offload=true"
            )
        else:
            forward.checkpoint_from_tokens = tokens - 1  # a row is read but for its last token
            remedy = f"rows of {tokens} tokens and more checkpointed"
        warnings.warn(f"out of memory in an update: done again with {remedy}", stacklevel=2)

    def backward(self, rows: Sequence[Row], sums: dict[int, StatsSum]) -> None:
        """Add the gradient of these rows' loss to the parameters', batch by batch."""
        for batch in micro_batches(rows, self.micro_batch_tokens, self.by_member):
            self._batch = batch
            loss = self.loss_scale * self.forward_pass.loss(batch, sums)
            loss.backward()  # type: ignore[no-untyped-call]
            self._rows = self._rows[0] + len(batch), self._rows[1]
            if self._advance is not None:
                self._advance(*self._rows)

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

    def member_state(self, member: str) -> MemberState:
        """Return a copy of all that continues this member elsewhere, in main memory."""
        place = self.adapters.index(member)
        return MemberState(
            member,
            {k: t.detach().to("cpu", copy=True) for k, t in self._tensors(place).items()},
            self.optimizer.scalars(place),
        )

    def state_dict(self) -> NamedState:
        """Return tensors (for safetensors) and plain values (for JSON) that continue this learner.

        Tensors: `<place>/weights/<module>.lora_A`, `<place>/exp_avg/...`, `<place>/exp_avg_sq/...`.
        """
        return join_states([self.member_state(member) for member in self.members])

    def load_state_dict(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken; the numbers of members must agree."""
        self.load_members(split_state(tensors, values))

    @torch.no_grad()
    def load_members(self, states: Sequence[MemberState]) -> None:
        """Put a state into every place; on a misfit raise SelfplayError and change nothing."""
        if len(states) != len(self.members):
            raise SelfplayError(
                f"the state has {len(states)} members, expected {len(self.members)}"
            )
        for place, state in enumerate(states):
            for key, like in self._tensors(place).items():
                shape = tuple(state.tensors[key].shape) if key in state.tensors else None
                if shape != tuple(like.shape):
                    raise SelfplayError(
                        f"learner state of {state.name} {key!r}: found {shape}, expected "
                        f"{tuple(like.shape)}"
                    )
        for place, state in enumerate(states):
            for name, p in self.adapters.parameters_of(place).items():
                p.copy_(state.tensors[f"weights/{name}"])
            self.optimizer.load(place, state.tensors, state.optimizer)
        self.adapters.members[:] = [state.name for state in states]

    def _tensors(self, place: int) -> dict[str, Tensor]:
        weights = self.adapters.parameters_of(place)
        return self.optimizer.tensors(place) | {f"weights/{k}": p for k, p in weights.items()}
