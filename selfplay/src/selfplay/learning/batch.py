"""The samples of an update, their weights, and how the work of a phase is cut into pieces.

A piece holds rows of one member, sampled or learned from without company: no bit of it depends on
other pieces, so any number of workers gives the same bytes. Pieces of an update are its shards.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite

from msgspec import structs
from torch import Tensor

from lora_evo.model import Rollout
from selfplay.config import LearnerConfig
from selfplay.errors import SelfplayError
from selfplay.files.rows import MemberRow
from selfplay.learning.statistics import StatsSum

NO_ADVANTAGE = 1e-9
"""Advantages up to this size are rounding: such a sample has no gradient."""
SMALL_ROWS, GOOD_ROWS = 12, 80
"""Rows of each of two pieces, and of each of more, at least: what a batch costs whatever is in it
is that of 40 rows on the built-in model."""


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
    token_share: float = 0.0
    """What one of its tokens is of all tokens of its member that are learned from."""
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


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows whose gradient is computed alone: of one member, or of all in a run without cut."""

    rows: list[Row]

    @property
    def members(self) -> list[int]:
        """Places of the members that learn from it."""
        return sorted({row.member for row in self.rows})

    @property
    def tokens(self) -> int:
        """Tokens of prompts and completions."""
        return sum(row.length for row in self.rows)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step of the optimiser did to a member.

    sums: of the samples that it learned from; norm: of its gradient; fault: which number was not
    finite.
    """

    sums: StatsSum
    norm: float | None
    stepped: bool
    fault: str


@dataclass(frozen=True, slots=True)
class UpdateBatch:
    """The samples of an update.

    rows: all of them. faults: by place, what keeps a member from learning. rates: step sizes by
    place. shards: the rows that move a member.
    """

    rows: list[Row]
    faults: dict[int, str]
    rates: list[float]
    shards: list[Shard]

    def stats(
        self, members: Sequence[str], outcomes: Mapping[int, StepResult]
    ) -> dict[str, MemberRow]:
        """Return the statistics of each member with samples. outcomes: of those that learned."""
        sums = {place: StatsSum() for place in sorted({row.member for row in self.rows})}
        for row in self.rows:
            sums[row.member].add_row(row.sample.rollout.logprobs)
        stats = {}
        for place, of_all in sums.items():
            fault = self.faults.get(place, "")
            done = outcomes.get(place, StepResult(StatsSum(), None, False, fault))
            of_all.add(done.sums)
            said = of_all.stats(done.norm, done.stepped, done.fault)
            said = structs.replace(said, learning_rate=self.rates[place])
            told = any(r.has_signal for r in self.rows if r.member == place)
            if done.stepped and not told:
                said = structs.replace(said, regularised=True)
            stats[members[place]] = said
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
    """Return the rows of these samples, and the shards that their gradients are made of.

    members, roles: by place; a member whose learning rate, times lr_factor, is 0 is in no shard.
    pieces: those that the rows of a role are cut into, at least one for each member; 0: all rows
    are one shard. rates: learning rates of members where they differ from the configuration's.
    """
    rows = batch_rows(samples, members, config, max_completion_length)
    faults = {row.member: row.fault for row in reversed(rows) if row.fault}
    sizes = [lr_factor * rate for rate in _rates(members, roles, config, rates or {})]
    learned = [
        row
        for row in rows
        if row.member not in faults and sizes[row.member] > 0.0 and _moves(row, config)
    ]
    if not pieces:
        return UpdateBatch(rows, faults, sizes, [Shard(learned)] if learned else [])
    rows_of: dict[int, list[Row]] = defaultdict(list)
    of_role: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(learned, key=lambda row: (row.member, row.sample.phase, row.length)):
        rows_of[row.member].append(row)
        of_role[roles[row.member]].append(row)
    shards: list[tuple[float, Shard]] = []
    for place, own in rows_of.items():
        role = roles[place]
        full = sum(row.length for row in of_role[role]) // config.micro_batch_tokens
        wanted = min(pieces, batches(len(of_role[role]), full))
        groups: dict[tuple[int, ...], list[Row]] = defaultdict(list)  # which share a prompt
        for row in own:
            groups[row.prompt_ids].append(row)
        count = min(even(ceil(wanted / roles.count(role))), len(groups))
        for n in range(count):
            dealt = [row for group in list(groups.values())[n::count] for row in group]
            shards.append(((n + 0.5) / count, Shard(dealt)))
    shards.sort(key=lambda pair: pair[0])  # so that neighbours are of several members
    return UpdateBatch(rows, faults, sizes, [shard for _, shard in shards])


def _rates(
    members: Sequence[str], roles: Sequence[str], config: LearnerConfig, own: Mapping[str, float]
) -> list[float]:
    """Return learning rates by place; own: those that are not the configuration's."""
    for name, rate in own.items():
        if name not in members or not 0.0 <= rate < inf:
            raise SelfplayError(
                f"rates has {rate} for {name!r}; expected a number of at least 0 for one of "
                f"{', '.join(members)}"
            )
    rates = map(config.learning_rate_of, roles, members)
    return [
        rate if name in config.frozen else own.get(name, rate)
        for name, rate in zip(members, rates, strict=True)
    ]


def share_out(
    shards: Sequence[Shard], learners: int
) -> tuple[list[list[Shard]], dict[int, list[int]]]:
    """Give neighbouring shards to each learner; return them, and who has which parts of members."""
    shares = [
        [shards[number] for number in block]
        for block in blocks([shard.tokens for shard in shards], learners)
    ]
    homes: dict[int, list[int]] = defaultdict(list)
    for rank, share in enumerate(shares):
        for place in (place for shard in share for place in shard.members):
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
    """Check the samples and weigh them; those without completion are left out.

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
    weights, shares = (
        token_weights(members, lengths, truncated, options, max_completion_length)
        for options in (config, replace(config, loss_type="dapo"))
    )
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


def even(count: int) -> int:
    """Return the largest power of two, for halves of workers, that is not above; 1 or more."""
    return 1 << (max(1, count).bit_length() - 1)


def batches(rows: int, good: int | None = None) -> int:
    """Return in how many batches so many rows may well go; good: how many good ones they make."""
    return max(min(2, rows // SMALL_ROWS), rows // GOOD_ROWS if good is None else good)


def deal(keys: Sequence[Hashable], count: int) -> list[list[int]]:
    """Deal numbers to so many hands, the next to the emptiest; those of equal keys together."""
    equal: dict[Hashable, list[int]] = defaultdict(list)
    for number, key in enumerate(keys):
        equal[key].append(number)
    hands: list[list[int]] = [[] for _ in range(count)]
    for numbers in equal.values():
        min(hands, key=len).extend(numbers)
    return [hand for hand in hands if hand]


def blocks(weights: Sequence[int], workers: int) -> list[range]:
    """Give neighbouring pieces to each worker, so that the sums of weights are about equal."""
    total, before, ends = sum(weights) or 1, 0, [0] * workers
    for number, weight in enumerate(weights):
        middle = 2 * before + weight
        ends[min(workers - 1, middle * workers // (2 * total))] = number + 1
        before += weight
    for worker in range(1, workers):
        ends[worker] = max(ends[worker - 1], ends[worker])
    return [range(start, end) for start, end in zip((0, *ends), ends, strict=False)]
