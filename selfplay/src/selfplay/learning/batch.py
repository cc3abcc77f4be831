"""The samples of an update, their weights, and the shards (see `pieces`) of their gradients."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite
from typing import TypeAlias

from msgspec import UNSET
from torch import Tensor

from lora_evo.model import Rollout
from selfplay.config import LearnerConfig
from selfplay.errors import SelfplayError
from selfplay.files.rows import MemberRow
from selfplay.learning.pieces import batches, blocks, even
from selfplay.learning.statistics import StatsSum
from selfplay.sampling.texts import Attempt, Proposed

NO_ADVANTAGE = 1e-9
"""Advantages up to this size are rounding: such a sample has no gradient."""


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """One completion to learn from.

    - rollout: with one log-probability for each completion token.
    - phase: `propose` or `solve`.
    - task_id: rewards of solutions are centred over the samples of one task.
    - kind: of the task; rewards are whitened over member, phase and kind.
    - text: what it was made of; its row shows reward and advantage. Workers do not get it.
    """

    member: str
    rollout: Rollout
    advantage: float = 0.0
    phase: str = ""
    task_id: str = ""
    kind: str = ""
    reward: float = 0.0
    text: Proposed | Attempt | None = None


@dataclass(slots=True)
class Row:
    """A sample with its place in the stack and its weight in its member's loss."""

    sample: TrainingSample
    member: int
    weight: float
    """Weight of each of its tokens."""
    token_share: float = 0.0
    """Share of one of its tokens in all tokens that its member learns from."""
    old: Tensor | None = None
    """Log-probabilities before the update's first step."""

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """Tokens of the prompt."""
        return self.sample.rollout.prompt_ids

    @property
    def completion_ids(self) -> tuple[int, ...]:
        """Tokens of the completion."""
        return self.sample.rollout.completion_ids

    @property
    def length(self) -> int:
        """Tokens of prompt and completion."""
        return len(self.prompt_ids) + len(self.completion_ids)

    @property
    def fault(self) -> str:
        """Name the number of the sample that is not finite; '' if all are."""
        s = self.sample
        for name, number in (("reward", s.reward), ("advantage", s.advantage)):
            if not isfinite(number):
                return f"its {name} for {s.task_id} is {number}"
        number = next((p for p in s.rollout.logprobs if not isfinite(p)), 0.0)
        return f"a log-probability of its text for {s.task_id} is {number}" if number else ""

    @property
    def has_signal(self) -> bool:
        """Whether the row's advantage gives a gradient."""
        return self.weight > 0.0 and abs(self.sample.advantage) > NO_ADVANTAGE


Shard: TypeAlias = list[Row]
"""Rows whose gradient is computed on its own: of one member, or of all without pieces."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of an optimiser step for a member.

    sums: of the samples that it learned from; norm: of its gradient; fault: names the number that
    was not finite.
    """

    sums: StatsSum
    norm: float | None
    stepped: bool
    fault: str


@dataclass(frozen=True, slots=True)
class UpdateBatch:
    """The samples of an update.

    faults: the number that keeps a member from learning, by place. rates: step sizes by place.
    shards: the rows that give a gradient.
    """

    rows: list[Row]
    faults: dict[int, str]
    rates: list[float]
    shards: list[Shard]

    def stats(
        self, members: Sequence[str], outcomes: Mapping[int, StepResult]
    ) -> dict[str, MemberRow]:
        """Return the statistics of each member with samples; outcomes: of members that learned."""
        sums = {place: StatsSum() for place in sorted({row.member for row in self.rows})}
        for row in self.rows:
            sums[row.member].add_row(row.sample.rollout.logprobs)
        stats = {}
        for place, total in sums.items():
            fault = self.faults.get(place, "")
            result = outcomes.get(place, StepResult(StatsSum(), None, False, fault))
            total.add(result.sums)
            has_signal = any(row.has_signal for row in self.rows if row.member == place)
            stats[members[place]] = total.row(
                result.norm,
                stepped=result.stepped,
                skipped=result.fault or UNSET,
                learning_rate=self.rates[place],
                regularised=(result.stepped and not has_signal) or UNSET,
            )
        return stats


def make_batch(
    samples: Sequence[TrainingSample],
    members: Sequence[str],
    roles: Sequence[str],
    config: LearnerConfig,
    *,
    max_completion_length: int,
    pieces: int,
    lr_factor: float = 1.0,
    rates: Mapping[str, float] | None = None,
) -> UpdateBatch:
    """Return the rows of these samples, and the shards of their gradients.

    members, roles: by place. A member is in no shard if its learning rate times lr_factor is 0.
    pieces: number of shards for the rows of a role, at least one for each member; 0: one shard for
    all rows. rates: learning rates of members that differ from the configuration's.
    """
    rows = batch_rows(samples, members, config, max_completion_length)
    faults = {row.member: row.fault for row in reversed(rows) if row.fault}
    sizes = [lr_factor * rate for rate in _rates(members, roles, config, rates or {})]
    able = {place for place, size in enumerate(sizes) if size > 0.0 and place not in faults}
    moving = [row for row in rows if row.member in able and _moves(row, config)]
    if not pieces:
        return UpdateBatch(rows, faults, sizes, [moving] if moving else [])
    # By member, and by prompt, which a group of rows shares.
    of_member: dict[int, dict[tuple[int, ...], list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(moving, key=lambda row: (row.member, row.sample.phase, row.length)):
        of_member[row.member][row.prompt_ids].append(row)
    shards: list[tuple[float, Shard]] = []
    for place, groups in of_member.items():
        role = roles[place]
        lengths = [row.length for row in moving if roles[row.member] == role]
        full = sum(lengths) // config.micro_batch_tokens
        role_shards = min(pieces, batches(len(lengths), full))
        count = min(even(ceil(role_shards / roles.count(role))), len(groups))
        for n in range(count):
            shard = [row for group in list(groups.values())[n::count] for row in group]
            shards.append(((n + 0.5) / count, shard))
    shards.sort(key=lambda pair: pair[0])  # so that neighbours are of several members
    return UpdateBatch(rows, faults, sizes, [shard for _, shard in shards])


def _rates(
    members: Sequence[str], roles: Sequence[str], config: LearnerConfig, rates: Mapping[str, float]
) -> list[float]:
    """Return learning rates by place; rates: of members that differ from the configuration's."""
    for name, rate in rates.items():
        if name not in members or not 0.0 <= rate < inf:
            raise SelfplayError(
                f"rates has {rate} for {name!r}; expected a number of at least 0 for one of "
                f"{', '.join(members)}"
            )
    own = {name: rate for name, rate in rates.items() if name not in config.frozen}
    return [own.get(n, config.learning_rate_of(r, n)) for r, n in zip(roles, members, strict=True)]


def share_out(
    shards: Sequence[Shard], learners: int
) -> tuple[list[list[Shard]], dict[int, list[int]]]:
    """Divide shards into blocks, one for each learner; return them, and the `Homes` of members."""
    parts = blocks([sum(row.length for row in shard) for shard in shards], learners)
    shares = [[shards[number] for number in part] for part in parts]
    homes: dict[int, list[int]] = defaultdict(list)
    for rank, share in enumerate(shares):
        for place in (place for shard in share for place in sorted({row.member for row in shard})):
            if homes[place] != [rank]:
                homes[place].append(rank)
    return shares, homes


def _moves(row: Row, config: LearnerConfig) -> bool:
    phase = row.sample.phase
    regularised = config.beta_of(phase) > 0.0 or config.entropy_coef_of(phase) > 0.0
    return row.has_signal or (regularised and row.weight > 0.0)


def batch_rows(
    samples: Sequence[TrainingSample],
    names: Sequence[str],
    config: LearnerConfig,
    max_completion_length: int = 256,
) -> list[Row]:
    """Check the samples, and return those with a completion as weighted rows.

    names: the members by place. max_completion_length: tokens, the divisor of the loss dr_grpo.
    """
    places = {name: place for place, name in enumerate(names)}
    rollouts = [s.rollout for s in samples]
    for s, rollout in zip(samples, rollouts, strict=True):
        if not rollout.prompt_ids or len(rollout.logprobs) != len(rollout.completion_ids):
            raise SelfplayError(
                f"a sample of {s.member!r} has {len(rollout.prompt_ids)} prompt tokens, "
                f"{len(rollout.completion_ids)} completion tokens and {len(rollout.logprobs)} "
                "log-probabilities; expected a prompt, and one log-probability per token"
            )
        if s.member not in places:
            raise SelfplayError(
                f"a sample is of {s.member!r}, which does not learn; expected one of "
                f"{', '.join(names)}"
            )
    members = [places[s.member] for s in samples]
    lengths = [len(rollout.completion_ids) for rollout in rollouts]
    truncated = [rollout.finish_reason == "length" for rollout in rollouts]
    ways = config, replace(config, loss_type="dapo")
    rest = members, lengths, truncated
    weights, shares = (token_weights(*rest, way, max_completion_length) for way in ways)
    return [
        Row(sample, member, weight, share)
        for sample, member, weight, share in zip(samples, members, weights, shares, strict=True)
        if sample.rollout.completion_ids
    ]


def token_weights(
    members: Sequence[int],
    lengths: Sequence[int],
    truncated: Sequence[bool],
    config: LearnerConfig,
    max_completion_length: int,
) -> list[float]:
    """Return the weight w_t of each sequence's tokens, 0 for a masked sequence.

    As in TRL, a masked sequence still counts in the number of sequences of "grpo" and "dr_grpo",
    and its tokens do not count in the number of tokens of "dapo" and "bnpo".
    """
    masks = config.mask_truncated_completions
    kept = [0 if cut and masks else n for n, cut in zip(lengths, truncated, strict=True)]
    sequences, tokens = Counter(members), Counter[int]()
    for member, length in zip(members, kept, strict=True):
        tokens[member] += length
    weights = []
    for member, length in zip(members, kept, strict=True):
        divisor = tokens[member]
        if config.loss_type in ("grpo", "dr_grpo"):
            whole = max_completion_length if config.loss_type == "dr_grpo" else length
            divisor = sequences[member] * whole
        weights.append(1.0 / divisor if length else 0.0)
    return weights
