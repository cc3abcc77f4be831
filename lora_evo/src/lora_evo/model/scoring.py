"""Completions under the members of a stack: rows, micro-batches, and log-probabilities of tokens.

What learns, by rewards or by examples, stands on this: no loss sees the prompt or the padding.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from lora_evo.model.checkpointing import checkpointed, layers_of, lower_mmap_threshold
from lora_evo.model.engine import Rollout
from lora_evo.model.output_layer import OutputLayer, Scores
from lora_evo.model.stacked_lora import StackedAdapters


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


class Sized(Protocol):
    """What has tokens."""

    @property
    def length(self) -> int: ...


R = TypeVar("R", bound=Sized)


def micro_batches(
    rows: Iterable[R], tokens: float, member: Callable[[R], int] = lambda row: 0
) -> Iterator[list[R]]:
    """Cut rows so that rows times longest stays within the token budget; a longer one is alone.

    Rows of similar length are together, in a batch those of one member next to each other.
    """
    batch: list[R] = []
    for row in sorted(rows, key=lambda r: (-r.length, member(r))):
        if batch and (len(batch) + 1) * batch[0].length > tokens:
            yield sorted(batch, key=member)
            batch = []
        batch.append(row)
    if batch:
        yield sorted(batch, key=member)


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """Rows as tensors, padded on the right, and where their completions are."""

    ids: Tensor
    """[rows, T], prompt and completion but for the last token."""
    places: Tensor
    """[tokens] of the flattened [rows * T] whose next token belongs to a completion."""
    targets: Tensor
    """[tokens], those next tokens."""
    lengths: list[int]
    """Completion tokens of each row."""

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
        if checkpointing and adapters.device.type == "cpu":
            lower_mmap_threshold()

    def padded(self, rows: Sequence[Rollout | TokenPair]) -> PaddedRows:
        """Lay rows out on the model's device."""
        T = max(len(row.prompt_ids) + len(row.completion_ids) for row in rows) - 1
        ids, device = torch.full((len(rows), T), self._pad), self.adapters.device
        places: list[int] = []
        targets: list[int] = []
        for i, row in enumerate(rows):
            tokens = row.prompt_ids + row.completion_ids[:-1]
            ids[i, : len(tokens)] = torch.tensor(tokens)
            places += range(i * T + len(row.prompt_ids) - 1, i * T + len(tokens))
            targets += row.completion_ids
        return PaddedRows(
            ids.to(device),
            torch.tensor(places, device=device),
            torch.tensor(targets, device=device),
            [len(row.completion_ids) for row in rows],
        )

    def scores(
        self, padded: PaddedRows, members: Sequence[int], *, entropy: bool = False
    ) -> Scores:
        """Return log p of each completion token and, if asked for, the entropy before it.

        members: place of each row's in the stack, or BASE. All [tokens], in nats, row after row.
        """
        # Causal attention and padding on the right: real tokens never see the padding.
        decoder = self._model.get_decoder()
        layers = layers_of(decoder) if padded.ids.shape[1] >= self.checkpoint_from_tokens else []
        with self.adapters.route(members), checkpointed(layers, self.adapters):
            hidden: Tensor = decoder(input_ids=padded.ids, use_cache=False).last_hidden_state
        states = hidden.reshape(-1, hidden.shape[-1])[padded.places]
        return self.output.scores(states, padded.targets, entropy=entropy)
