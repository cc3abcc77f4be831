"""Completions under the members of a stack: rows, micro-batches, and log-probabilities of tokens.

Both learners, by rewards and by examples, use it. No loss sees the prompt or the padding.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from lora_evo.errors import LoraEvoError
from lora_evo.model.checkpointing import checkpointed, layers_of, lower_mmap_threshold
from lora_evo.model.decoding import padded, turning_length
from lora_evo.model.engine import embedding_rows, refuse_unknown
from lora_evo.model.output_layer import OutputLayer, Scores
from lora_evo.model.stacked_lora import StackedAdapters


class Completed(Protocol):
    """A prompt and its completion by token ids."""

    @property
    def prompt_ids(self) -> tuple[int, ...]: ...

    @property
    def completion_ids(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class TokenPair:
    """A prompt and its completion by token ids; only the completion has a loss."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]

    @property
    def length(self) -> int:
        return len(self.prompt_ids) + len(self.completion_ids)


R = TypeVar("R", bound=Completed)


def micro_batches(
    rows: Iterable[R], tokens: float, member: Callable[[R], int] = lambda row: 0
) -> Iterator[list[R]]:
    """Yield micro-batches of rows whose padded prompts, each once, and completions fit the budget.

    Rows of one member with one prompt stay together if they fit, and rows of similar length do. In
    a batch, rows of one member are neighbours. A row over the budget is alone.
    """
    groups: dict[tuple[int, tuple[int, ...]], list[R]] = {}
    for row in rows:
        groups.setdefault((member(row), row.prompt_ids), []).append(row)

    def longest(group: list[R]) -> int:
        return max(len(row.completion_ids) for row in group)

    batch: list[R] = []
    prompts, width, height = 0, 0, 0  # number of prompts, the longest one, the longest completion
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
class LaidRows:
    """Rows as tensors, with the places of their completions."""

    places: Tensor
    """[completion tokens], indices into the flattened `ids` whose next token is in a completion."""
    targets: Tensor
    """[completion tokens], those next tokens."""
    lengths: list[int]
    """Completion tokens of each row."""
    longest: int
    """Tokens of the longest row without its last."""
    ids: Tensor
    """[1, tokens] of the packed texts; or [rows, T], padded on the right."""
    members: list[int]
    """Member of each packed token, or of each padded row."""
    positions: Tensor | None
    """[1, tokens], positions in the row's text; None for padded rows."""
    packing: Any
    """`Packing` of packed texts; None for padded rows."""

    def per_token(self, values: Sequence[float]) -> Tensor:
        """Repeat one value per row over the row's completion tokens."""
        device = self.targets.device
        tensor, repeats = (torch.tensor(x, device=device) for x in (values, self.lengths))
        return tensor.repeat_interleave(repeats, output_size=len(self.targets))


class Scorer:
    """Computes log-probabilities of completions under the members of a stack.

    temperature: divisor of the logits. chunk: most tokens of a table of logits, 0: by the
    vocabulary. checkpointing: gradient checkpointing of all layers; `checkpoint_from_tokens` can be
    lowered later.
    """

    def __init__(
        self,
        adapters: StackedAdapters,
        *,
        temperature: float = 1.0,
        chunk: int = 0,
        checkpointing: bool = False,
    ):
        self.adapters = adapters
        self._model: Any = adapters.model
        self.output = OutputLayer.of(self._model, temperature, chunk)
        self.checkpoint_from_tokens = 0 if checkpointing else math.inf
        """Tokens of a row without its last from which on layers are checkpointed."""
        self._vocabulary = embedding_rows(self._model)
        from lora_evo.model import packing  # imports transformers

        self._packing = packing
        self._packs = packing.can_pack(self._model)
        """Whether rows are packed."""
        self._turn = turning_length(self._model)
        if checkpointing and adapters.device.type == "cpu":
            lower_mmap_threshold()

    @staticmethod
    def tokens(rows: Sequence[Completed], members: Sequence[int]) -> int:
        """Return the padded tokens of a batch, as counted by `micro_batches`."""
        prompts = {(member, row.prompt_ids) for row, member in zip(rows, members, strict=True)}
        width = max(len(prompt) for _, prompt in prompts)
        return len(prompts) * width + len(rows) * max(len(row.completion_ids) for row in rows)

    def batches(
        self, rows: Iterable[R], tokens: float, member: Callable[[R], int] = lambda row: 0
    ) -> Iterator[list[R]]:
        """Yield micro-batches; rows beyond the model's turning length have batches of their own."""
        sides: tuple[list[R], list[R]] = [], []
        for row in rows:
            sides[len(row.prompt_ids) + len(row.completion_ids) - 1 > self._turn].append(row)
        for side in sides:
            yield from micro_batches(side, tokens, member)

    def laid(self, rows: Sequence[Completed], members: Sequence[int]) -> LaidRows:
        """Return rows as tensors on the model's device. members: each row's index in the stack.

        Raises LoraEvoError for a token that the model does not have, and for a row without tokens.
        """
        for row in rows:
            if not (row.prompt_ids and row.completion_ids):
                raise LoraEvoError("a prompt or completion is empty, expected a token or more each")
            refuse_unknown(row.prompt_ids + row.completion_ids, self._vocabulary)
        prompts, completions = [row.prompt_ids for row in rows], [r.completion_ids for r in rows]
        device, lengths = self.adapters.device, list(map(len, completions))
        laid: Any
        if self._packs:
            laid = self._packing.pack(prompts, completions, members, device)
        else:
            ids, _ = padded([row.prompt_ids + row.completion_ids[:-1] for row in rows], device)
            starts = [i * ids.shape[1] + len(prompt) - 1 for i, prompt in enumerate(prompts)]
            spans = [range(start, start + n) for start, n in zip(starts, lengths, strict=True)]
            laid = ids, list(members), None, None, spans
        *texts, places = laid
        return LaidRows(
            torch.tensor([place for row in places for place in row], device=device),
            torch.tensor([token for row in completions for token in row], device=device),
            lengths,
            max(len(row.prompt_ids) + len(row.completion_ids) for row in rows) - 1,
            *texts,
        )

    def scores(self, rows: LaidRows, *, member: int | None = None, entropy: bool = False) -> Scores:
        """Return log p of each completion token and, with entropy, the entropy of its distribution.

        member: index of the one, or BASE, to take instead of the rows' own. All [tokens], in nats,
        row after row.
        """
        decoder = self._model.get_decoder()
        layers = layers_of(decoder) if rows.longest >= self.checkpoint_from_tokens else []
        members = rows.members if member is None else [member] * len(rows.members)
        # Causal attention and padding on the right: real tokens never see the padding.
        how: dict[str, Any] = {"input_ids": rows.ids, "use_cache": False}
        if rows.packing is not None:  # the mask keeps transformers from detecting packed texts
            how |= {"position_ids": rows.positions, "attention_mask": torch.ones_like(rows.ids)}
        with (
            checkpointed(layers, self.adapters),
            self.adapters.route(members),
            self._packing.packed(rows.packing),
        ):
            hidden: Tensor = decoder(**how).last_hidden_state
        states = hidden.reshape(-1, hidden.shape[-1])
        return self.output.scores(states[rows.places], rows.targets, entropy=entropy)
