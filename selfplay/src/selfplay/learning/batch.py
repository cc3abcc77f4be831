"""The samples of an update, their weights, and how they are cut into micro-batches."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from torch import Tensor

from lora_evo.model import Rollout, StackedAdapters
from selfplay.config import LearnerConfig
from selfplay.errors import SelfplayError

NO_ADVANTAGE = 1e-9
"""Advantages up to this size are rounding: such a sample has no gradient."""


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """One completion to learn from.

    - rollout: as sampled, with one log-probability per completion token.
    - phase: what the member did, `propose` or `solve`.
    - task_id: samples of one task were compared with each other.
    - kind: of the task; rewards are compared within member, phase and kind.
    """

    member: str
    rollout: Rollout
    advantage: float = 0.0
    phase: str = ""
    task_id: str = ""
    kind: str = ""
    reward: float = 0.0


@dataclass(slots=True)
class Row:
    """A sample with its place in the stack and its weight in its member's loss."""

    sample: TrainingSample
    member: int
    weight: float
    """Weight of each of its tokens."""
    old: Tensor | None = None
    """Log-probabilities before the update's first step."""

    @property
    def length(self) -> int:
        """Tokens of prompt and completion."""
        rollout = self.sample.rollout
        return len(rollout.prompt_ids) + len(rollout.completion_ids)

    @property
    def fault(self) -> str:
        """Say which number of the sample is not finite; empty where all are."""
        s = self.sample
        for name, number in (("reward", s.reward), ("advantage", s.advantage)):
            if not isfinite(number):
                return f"its {name} for {s.task_id} is {number}"
        bad = next((p for p in s.rollout.logprobs if not isfinite(p)), None)
        return "" if bad is None else f"a log-probability of its text for {s.task_id} is {bad}"

    @property
    def has_signal(self) -> bool:
        """Whether the row's advantage moves its member."""
        return self.weight > 0.0 and abs(self.sample.advantage) > NO_ADVANTAGE


def batch_rows(
    samples: Sequence[TrainingSample],
    adapters: StackedAdapters,
    config: LearnerConfig,
    max_completion_length: int = 256,
) -> list[Row]:
    """Check the samples and weigh them; those without completion are left out.

    max_completion_length: tokens, the divisor of the loss dr_grpo.
    """
    members = [adapters.index(s.member) for s in samples]
    rollouts = [s.rollout for s in samples]
    for s, rollout in zip(samples, rollouts, strict=True):
        if not rollout.prompt_ids or len(rollout.logprobs) != len(rollout.completion_ids):
            raise SelfplayError(
                f"a sample of {s.member!r} has {len(rollout.prompt_ids)} prompt tokens, "
                f"{len(rollout.completion_ids)} completion tokens and {len(rollout.logprobs)} "
                "log-probabilities; expected a prompt, and one log-probability per token"
            )
    if None in {s.member for s in samples}:
        raise SelfplayError("a sample has no member: the base model is frozen")
    weights = token_weights(
        members,
        [len(rollout.completion_ids) for rollout in rollouts],
        [rollout.finish_reason == "length" for rollout in rollouts],
        config,
        max_completion_length,
    )
    return [
        Row(sample, member, weight)
        for sample, member, weight in zip(samples, members, weights, strict=True)
        if sample.rollout.completion_ids
    ]


def token_weights(
    members: Sequence[int],
    lengths: Sequence[int],
    truncated: Sequence[bool],
    config: LearnerConfig,
    max_completion_length: int,
) -> list[float]:
    """Return w_t for the tokens of each sequence (equal within a sequence), 0 where masked.

    As in TRL, a masked sequence still counts in the number of sequences of "grpo" and "dr_grpo",
    and its tokens do not count in the number of tokens of "dapo" and "bnpo".
    """
    keep = [not (t and config.mask_truncated_completions) for t in truncated]
    sequences = Counter(members)
    tokens: Counter[int] = Counter()
    for member, length, kept in zip(members, lengths, keep, strict=True):
        tokens[member] += length * kept
    weights = []
    for member, length, kept in zip(members, lengths, keep, strict=True):
        if not kept or length == 0:
            weights.append(0.0)
        elif config.loss_type == "grpo":
            weights.append(1.0 / (sequences[member] * length))
        elif config.loss_type == "dr_grpo":
            weights.append(1.0 / (sequences[member] * max_completion_length))
        else:
            weights.append(1.0 / tokens[member])
    return weights


def micro_batches(rows: Sequence[Row], tokens: int, by_member: bool = False) -> Iterator[list[Row]]:
    """Cut rows so that rows times longest stays within the token budget; a longer one is alone.

    by_member: a batch has rows of one member only.
    """
    members = sorted({row.member for row in rows})
    for share in [{member} for member in members] if by_member else [set(members)]:
        batch: list[Row] = []
        chosen = (row for row in rows if row.member in share)
        for row in sorted(chosen, key=lambda r: (-r.length, r.member)):
            if batch and (len(batch) + 1) * batch[0].length > tokens:
                yield sorted(batch, key=lambda r: r.member)
                batch = []
            batch.append(row)
        if batch:
            yield sorted(batch, key=lambda r: r.member)
