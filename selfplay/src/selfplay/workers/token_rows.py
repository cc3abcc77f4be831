"""Token rows of many samples as columns: what goes between processes by the thousand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

N = TypeVar("N", np.int32, np.float64)
Row: TypeAlias = tuple[Any, Any, Any]
"""Prompt ids, completion ids and log-probabilities: numbers that can be counted and walked."""


class Tokens(Protocol):
    """A sample by tokens: a rollout, or what is learned from one."""

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The prompt; the same object in samples of the same prompt."""
        ...

    @property
    def completion_ids(self) -> tuple[int, ...]:
        """What was sampled."""
        ...

    @property
    def logprobs(self) -> tuple[float, ...]:
        """One a sampled token."""
        ...


@dataclass(frozen=True)
class TokenRows:
    """Samples in order, each kind of number in one array; prompts that are one object once."""

    prompt_ids: NDArray[np.int32]
    prompt_lengths: list[int]
    prompt_of: list[int]
    """Number of each sample's prompt."""
    completion_ids: NDArray[np.int32]
    logprobs: NDArray[np.float64]
    lengths: list[int]
    """Completion tokens of each sample."""

    @classmethod
    def of(cls, samples: Sequence[Tokens]) -> "TokenRows":
        """Lay samples out."""
        prompts = {id(sample.prompt_ids): sample.prompt_ids for sample in samples}
        number = {key: i for i, key in enumerate(prompts)}
        return cls(
            _joined(list(prompts.values()), np.int32),
            [len(prompt) for prompt in prompts.values()],
            [number[id(sample.prompt_ids)] for sample in samples],
            _joined([sample.completion_ids for sample in samples], np.int32),
            _joined([sample.logprobs for sample in samples], np.float64),
            [len(sample.completion_ids) for sample in samples],
        )

    def views(self) -> Iterator[Row]:
        """Yield the rows without copying a number."""
        prompts = list(_cut(self.prompt_ids, self.prompt_lengths))
        ids = _cut(self.completion_ids, self.lengths)
        logprobs = _cut(self.logprobs, self.lengths)
        for number, row_ids, row_logprobs in zip(self.prompt_of, ids, logprobs, strict=True):
            yield prompts[number], row_ids, row_logprobs

    def tuples(self) -> Iterator[Row]:
        """Yield the rows as an engine gives them."""
        prompts = [tuple(p.tolist()) for p in _cut(self.prompt_ids, self.prompt_lengths)]
        for prompt, (_, ids, logprobs) in zip(self.prompt_of, self.views(), strict=True):
            yield prompts[prompt], tuple(ids.tolist()), tuple(logprobs.tolist())


def _cut(numbers: NDArray[N], lengths: Sequence[int]) -> Iterator[NDArray[N]]:
    end = 0
    for length in lengths:
        start, end = end, end + length
        yield numbers[start:end]


def _joined(parts: Sequence[Any], dtype: type[N]) -> NDArray[N]:
    return np.concatenate([np.zeros(0, dtype), *(np.asarray(part, dtype) for part in parts)])
