"""Token-level requests and their samples, and the table in which a batch of them grows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evals.engine.sampling import choose, row_uniforms
from evals.errors import EvalsError


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A request by token ids; see `evals.engine.request.Request`."""

    adapter: str | None
    """Name of an adapter that the engine holds; None is the base model."""
    prompt_ids: tuple[int, ...]
    max_tokens: int
    temperature: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rollout:
    """A sampled continuation by token ids, as the learner needs it."""

    adapter: str | None
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """Sampled tokens, the end token included when it was sampled."""
    logprobs: tuple[float, ...]
    """log p of each sampled token (nats) under the sampling temperature."""
    finish_reason: Literal["stop", "length"]


class SampleTable:
    """The tokens drawn so far for a batch of requests; all rows are at the same step."""

    def __init__(
        self, requests: Sequence[TokenRequest], end_tokens: Sequence[int], device: torch.device
    ):
        self.requests = requests
        self.drawn = 0
        """Tokens drawn per row so far."""
        rows, steps = len(requests), max(r.max_tokens for r in requests)
        uniforms = row_uniforms([r.seed for r in requests], steps)
        self._uniforms = torch.from_numpy(uniforms).to(device)
        temperatures = [float(r.temperature) for r in requests]
        self._temperatures = torch.tensor(temperatures, device=device)
        self._limits = torch.tensor([r.max_tokens for r in requests], device=device)
        self._ends = torch.tensor(list(end_tokens), device=device)
        self.prompt_lengths = torch.tensor([len(r.prompt_ids) for r in requests], device=device)
        self.tokens = torch.zeros(rows, steps, dtype=torch.long, device=device)
        self._logprobs = torch.zeros(rows, steps, device=device)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        """Length of the finished completion; 0 while the row is open."""
        self._stopped = torch.zeros(rows, dtype=torch.bool, device=device)
        self.rows_with_stops = [i for i, r in enumerate(requests) if r.stop]

    def draw(self, live: Tensor, logits: Tensor) -> Tensor:
        """Draw the next token of the rows `live` [k] from logits [k, vocabulary]; return them [k].

        Finished rows among them are drawn too, to no effect.
        """
        step = self.drawn
        if step == self.tokens.shape[1]:
            raise EvalsError(f"the table holds {step} tokens a row, all drawn")
        tokens, logprobs = choose(logits, self._uniforms[live, step], self._temperatures[live])
        self.tokens[live, step] = tokens
        self._logprobs[live, step] = logprobs
        self.drawn += 1
        is_open = self.lengths[live] == 0
        ended = torch.isin(tokens, self._ends)
        full = self._limits[live] <= self.drawn
        self.lengths[live] += self.drawn * (is_open & (ended | full))
        self._stopped[live] |= is_open & ended
        return tokens

    def close(self, row: int) -> None:
        """End an open row at its last token because of a stop text."""
        self.lengths[row] = self.drawn
        self._stopped[row] = True

    def rollouts(self) -> list[Rollout]:
        """Return the finished samples."""
        found = []
        tokens, logprobs = self.tokens.tolist(), self._logprobs.tolist()
        stopped = self._stopped.tolist()
        for row, (request, length) in enumerate(
            zip(self.requests, self.lengths.tolist(), strict=True)
        ):
            found.append(
                Rollout(
                    request.adapter,
                    request.prompt_ids,
                    tuple(tokens[row][:length]),
                    tuple(logprobs[row][:length]),
                    "stop" if stopped[row] else "length",
                )
            )
        return found
