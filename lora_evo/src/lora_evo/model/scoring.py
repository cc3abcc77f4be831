"""Completions under the members of a stack: rows, micro-batches, and log-probabilities of tokens.

What learns, by rewards or by examples, stands on this: no loss sees the prompt or the padding.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from lora_evo.model.checkpointing import checkpointed, layers_of, lower_mmap_threshold
from lora_evo.model.decoding import padded, turning_length
from lora_evo.model.output_layer import OutputLayer, Scores
from lora_evo.model.stacked_lora import BASE, StackedAdapters


class Completed(Protocol):
    """A prompt and its completion by token ids."""

    @property
    def prompt_ids(self) -> tuple[int, ...]: ...

    @property
    def completion_ids(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class TokenPair:
    """A prompt and its completion by token ids; the completion alone carries loss."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """Tokens of both."""
        return self.prompt_ids + self.completion_ids

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.prompt_ids) + len(self.completion_ids)


R = TypeVar("R", bound=Completed)


def micro_batches(
    rows: Iterable[R], tokens: float, member: Callable[[R], int] = lambda row: 0
) -> Iterator[list[R]]:
    """Cut rows so that their padded prompts, each once, and completions stay within the budget.

    Rows of one member with one prompt are together, as long as they fit; so are those of similar
    length. In a batch those of one member are next to each other; a longer row is alone.
    """
    groups: dict[tuple[int, tuple[int, ...]], list[R]] = {}
    for row in rows:
        groups.setdefault((member(row), row.prompt_ids), []).append(row)

    def longest(group: list[R]) -> int:
        return max(len(row.completion_ids) for row in group)

    batch: list[R] = []
    prompts, width, height = 0, 0, 0  # how many prompts, their longest, the longest completion
    order = sorted(groups.items(), key=lambda g: (-len(g[0][1]) - longest(g[1]), g[0][0]))
    for (_, prompt), group in order:
        new = 1
        for row in sorted(group, key=lambda row: -len(row.completion_ids)):
            w, h = max(width, len(prompt)), max(height, len(row.completion_ids))
            if batch and (prompts + new) * w + (len(batch) + 1) * h > tokens:
                yield sorted(batch, key=member)
                batch, prompts, new, w, h = [], 0, 1, len(prompt), len(row.completion_ids)
            batch.append(row)
            prompts, new, width, height = prompts + new, 0, w, h
    if batch:
        yield sorted(batch, key=member)


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """Rows as tensors, and where their completions are.

    Rows of one member with one prompt share a stem, the prompt, and each has a branch, its
    completion; another row is all stem.
    """

    stems: Tensor
    """[stems, L], padded on the left where there are branches, else on the right."""
    real: Tensor
    """[stems, L], False on padding."""
    stem_members: list[int]
    branches: Tensor
    """[branches, T], padded on the right; none where no prompt is shared."""
    parents: Tensor
    """[branches], each one's stem."""
    positions: Tensor
    """[branches, T], places in the row."""
    branch_members: list[int]
    places: Tensor
    """[tokens] of the flattened stems, then branches, whose next token belongs to a completion."""
    targets: Tensor
    """[tokens], those next tokens."""
    lengths: list[int]
    """Completion tokens of each row."""
    longest: int
    """Tokens of the longest row but for its last."""

    @classmethod
    def of(
        cls,
        rows: Sequence[Completed],
        members: Sequence[int],
        pad: int,
        device: torch.device,
        share: bool = True,
    ) -> "PaddedRows":
        """Lay rows out; pad may be any valid id, since no loss ever sees it.

        members: the place of each row's. share: whether a prompt may be a stem of several rows.
        """
        keys = [(member, row.prompt_ids) for row, member in zip(rows, members, strict=True)]
        counts = Counter(
            key for key, row in zip(keys, rows, strict=True) if len(row.completion_ids) > 1
        )
        stems: list[tuple[int, ...]] = []
        stem_members: list[int] = []
        stem_of: dict[tuple[int, tuple[int, ...]], int] = {}
        branch_of: dict[int, int] = {}  # by row
        parents: list[int] = []
        own: list[int] = []  # the stem of each row
        for i, (key, row) in enumerate(zip(keys, rows, strict=True)):
            shared = share and counts[key] > 1
            if not shared or key not in stem_of:
                stem_of[key] = len(stems)
                stems.append(row.prompt_ids if shared else row.prompt_ids + row.completion_ids[:-1])
                stem_members.append(key[0])
            own.append(stem_of[key])
            if shared and len(row.completion_ids) > 1:
                branch_of[i] = len(parents)
                parents.append(stem_of[key])
        ids, real = padded(stems, device, left=bool(parents))
        L, T = ids.shape[1], max((len(rows[i].completion_ids) - 1 for i in branch_of), default=0)
        branches = torch.full((len(parents), T), pad)
        places: list[int] = []
        for i, row in enumerate(rows):
            stem = own[i]
            start = stem * L + (L - len(stems[stem]) if parents else 0)
            last = start + len(row.prompt_ids) - 1
            if i in branch_of:
                b, rest = branch_of[i], row.completion_ids[:-1]
                branches[b, : len(rest)] = torch.tensor(rest)
                begin = len(stems) * L + b * T
                places += [last, *range(begin, begin + len(rest))]
            else:
                places += range(last, last + len(row.completion_ids))
        lengths = torch.tensor([len(stems[stem]) for stem in parents], dtype=torch.long)
        return cls(
            torch.where(real, ids, pad),
            real,
            stem_members,
            branches.to(device),
            torch.tensor(parents, dtype=torch.long, device=device),
            (lengths[:, None] + torch.arange(T)).to(device),
            [stem_members[stem] for stem in parents],
            torch.tensor(places, device=device),
            torch.tensor([t for row in rows for t in row.completion_ids], device=device),
            [len(row.completion_ids) for row in rows],
            max(len(row.prompt_ids) + len(row.completion_ids) for row in rows) - 1,
        )

    def per_token(self, values: Sequence[float]) -> Tensor:
        """Repeat one value per row over the row's completion tokens."""
        device = self.targets.device
        repeats = torch.tensor(self.lengths, device=device)
        tensor = torch.tensor(values, device=device)
        return tensor.repeat_interleave(repeats, output_size=len(self.targets))


class Scorer:
    """Reads completions under the members of a stack.

    pad: any valid token id, which fills rows on the right. temperature: that divides the logits.
    chunk: most tokens of a table of logits, 0 for as many as suit the vocabulary. checkpointing:
    of all layers; `checkpoint_from_tokens` can be lowered later.
    """

    def __init__(
        self,
        adapters: StackedAdapters,
        *,
        pad: int = 0,
        temperature: float = 1.0,
        chunk: int = 0,
        checkpointing: bool = False,
    ):
        self.adapters = adapters
        self._model: Any = adapters.model
        self.output = OutputLayer.of(self._model, temperature, chunk)
        self.checkpoint_from_tokens = 0 if checkpointing else math.inf
        """Tokens of a row, but for its last, from which on layers are checkpointed."""
        self._pad = pad
        from lora_evo.model import prompt_cache  # which brings transformers

        self._cache = prompt_cache
        self._turn = turning_length(self._model)
        self._shares = prompt_cache.holds_prompts(self._model) and self._turn == math.inf
        """Whether a prompt can be read once for the rows that share it, whatever their length."""
        if checkpointing and adapters.device.type == "cpu":
            lower_mmap_threshold()

    @staticmethod
    def tokens(rows: Sequence[Completed], members: Sequence[int]) -> int:
        """Return the padded tokens of a batch, by which `micro_batches` cuts."""
        prompts = {(member, row.prompt_ids) for row, member in zip(rows, members, strict=True)}
        width = max(len(prompt) for _, prompt in prompts)
        return len(prompts) * width + len(rows) * max(len(row.completion_ids) for row in rows)

    def batches(
        self, rows: Iterable[R], tokens: float, member: Callable[[R], int] = lambda row: 0
    ) -> Iterator[list[R]]:
        """Cut rows as `micro_batches` does, those beyond the model's turning length apart."""
        sides: tuple[list[R], list[R]] = [], []
        for row in rows:
            sides[len(row.prompt_ids) + len(row.completion_ids) - 1 > self._turn].append(row)
        for side in sides:
            yield from micro_batches(side, tokens, member)

    def padded(self, rows: Sequence[Completed], members: Sequence[int]) -> PaddedRows:
        """Lay rows out on the model's device. members: the place of each row's in the stack."""
        return PaddedRows.of(rows, members, self._pad, self.adapters.device, self._shares)

    def scores(self, rows: PaddedRows, *, base: bool = False, entropy: bool = False) -> Scores:
        """Return log p of each completion token and, if asked for, the entropy before it.

        base: under the base, whoever the rows' members are. All [tokens], in nats, row after row.
        """
        decoder = self._model.get_decoder()
        layers = layers_of(decoder) if rows.longest >= self.checkpoint_from_tokens else []
        members = [rows.stem_members, rows.branch_members]
        stems, branches = [[BASE] * len(m) for m in members] if base else members
        # Causal attention and padding on the right: real tokens never see the padding.
        how: dict[str, Any] = {"input_ids": rows.stems, "use_cache": False}
        if branches:
            cache = self._cache.of_stems()
            places = (rows.real.cumsum(1) - 1).clamp(min=0)
            how |= {"past_key_values": cache, "use_cache": True}
            how |= {"attention_mask": rows.real.long(), "position_ids": places}
        with checkpointed(layers, self.adapters), self.adapters.route(stems):
            hidden: Tensor = decoder(**how).last_hidden_state
        states = hidden.reshape(-1, hidden.shape[-1])
        if branches:
            cache = self._cache.of_branches(cache, rows.parents)
            seen = rows.real[rows.parents].long()
            seen = torch.cat((seen, torch.ones_like(rows.branches)), dim=1)
            how = {"input_ids": rows.branches, "past_key_values": cache, "use_cache": True}
            how |= {"attention_mask": seen, "position_ids": rows.positions}
            with checkpointed(layers, self.adapters), self.adapters.route(branches):
                hidden = decoder(**how).last_hidden_state
            states = torch.cat((states, hidden.reshape(-1, hidden.shape[-1])))
        return self.output.scores(states[rows.places], rows.targets, entropy=entropy)
