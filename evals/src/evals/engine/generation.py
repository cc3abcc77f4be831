"""Generation on the stacked model: all adapters in one batch, finished rows dropped.

The same layers train and generate, so that the learner's and the sampler's log-probabilities differ
by rounding only. Rows are processed at most `max_rows` at a time, those of similar prompt length
together; equal prompts of one adapter are read once. An adapter with many rows is merged into the
dense weights while it samples, which spares two products per layer and token; the others share
batches. What a request samples depends on its prompt, its adapter and its seed; the company in the
batch can only change the last bits of the arithmetic.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from evals.engine.decoder import KVCache, decoder_of, left_pad
from evals.engine.general_decoder import GeneralCache
from evals.engine.request import Completion, Request
from evals.engine.rollout import Rollout, SampleTable, TokenRequest
from evals.engine.stacked_lora import StackedAdapters
from evals.errors import EvalsError

Cache: TypeAlias = KVCache | GeneralCache
_FIRST_ROOM = 64
"""Positions set aside for completions at first."""
_COMPACT_BELOW = 0.9
"""Finished rows are dropped when at most this share of the rows is still open."""


class StackedEngine:
    """Implements `evals.engine.Engine` on a model with stacked adapters.

    tokenizer: a transformers tokenizer with an end token; max_rows: rows decoded together;
    merge_rows: rows of one adapter from which on it is merged to sample them, 0 for never.
    """

    def __init__(
        self, adapters: StackedAdapters, tokenizer: Any, *, max_rows: int = 128, merge_rows: int = 0
    ):
        if max_rows < 1 or merge_rows < 0:
            raise EvalsError(
                f"max_rows is {max_rows} and merge_rows {merge_rows}, expected at least 1 and 0"
            )
        self.adapters = adapters
        self.tokenizer = tokenizer
        self.max_rows = max_rows
        self.merge_rows = merge_rows
        self._decoder: Any = decoder_of(adapters.model)
        self.end_tokens = _end_tokens(adapters.model, tokenizer)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in the same order."""
        rollouts = self.rollouts([self.tokenise(request) for request in requests])
        return [
            self.completion(rollout, request.stop)
            for rollout, request in zip(rollouts, requests, strict=True)
        ]

    def close(self) -> None:
        """Nothing to free: the model belongs to the caller."""

    def tokenise(self, request: Request) -> TokenRequest:
        """Return the request by token ids; the prompt is taken as it is, no tokens added."""
        ids = self.tokenizer.encode(request.prompt, add_special_tokens=False)
        return TokenRequest(
            self.adapters.index(request.adapter),
            tuple(ids),
            request.max_tokens,
            request.temperature,
            request.seed,
            request.stop,
        )

    def completion(self, rollout: Rollout, stop: Sequence[str] = ()) -> Completion:
        """Decode a rollout; the text ends before the end token and before any stop text."""
        ids = rollout.completion_ids
        text = self.decode(ids[:-1] if ids and ids[-1] in self.end_tokens else ids)
        found = [at for s in stop if (at := text.find(s)) >= 0]
        text = text[: min(found)] if found else text
        return Completion(text, ids, rollout.logprobs, rollout.finish_reason)

    @torch.inference_mode()
    def rollouts(self, requests: Sequence[TokenRequest]) -> list[Rollout]:
        """Sample every request; results in the same order."""
        for request in requests:
            _check(request)
        by_member: dict[int, list[int]] = defaultdict(list)
        for i, request in enumerate(requests):
            by_member[request.member_index].append(i)
        shared: list[int] = []
        results: dict[int, Rollout] = {}
        for member, mine in sorted(by_member.items()):
            if 0 < self.merge_rows <= len(mine):
                with self.adapters.merged(member):
                    results |= self._sample_all(requests, mine)
            else:
                shared += mine
        results |= self._sample_all(requests, shared)
        return [results[i] for i in range(len(requests))]

    def _sample_all(
        self, requests: Sequence[TokenRequest], chosen: Sequence[int]
    ) -> dict[int, Rollout]:
        """Sample the chosen requests in chunks of similar prompt length."""
        order = sorted(
            chosen,
            key=lambda i: (len((r := requests[i]).prompt_ids), r.member_index, r.prompt_ids),
        )
        results: dict[int, Rollout] = {}
        for start in range(0, len(order), self.max_rows):
            chunk = order[start : start + self.max_rows]
            chunk.sort(key=lambda i: requests[i].member_index)
            rows = [requests[i] for i in chunk]
            results.update(zip(chunk, self._sample(rows), strict=True))
        return results

    def _sample(self, requests: list[TokenRequest]) -> list[Rollout]:
        logits, cache, mask = self._prefill(requests)
        table = SampleTable(requests, self.end_tokens, logits.device)
        live = torch.arange(len(requests), device=logits.device)
        tokens = table.draw(live, logits)
        self._apply_stops(table, requests)
        while bool((is_open := table.lengths[live] == 0).any()):
            keep = is_open.nonzero()[:, 0]
            if len(keep) < len(live):
                cache.select(keep)
                live, tokens = live[keep], tokens[keep]
                mask = None if mask is None else mask[keep]
            positions = table.prompt_lengths[live]
            with self.adapters.route([requests[i].member_index for i in live.tolist()]):
                enough = int(_COMPACT_BELOW * len(live))
                while int((table.lengths[live] == 0).sum()) > enough:
                    at = positions + table.drawn - 1
                    logits = self._decoder.step(tokens, at, mask, cache)
                    tokens = table.draw(live, logits)
                    self._apply_stops(table, requests)
        return table.rollouts()

    def _prefill(self, requests: list[TokenRequest]) -> tuple[Tensor, Cache, Tensor | None]:
        """Read each different (member, prompt) once and spread the result over the requests."""
        keys = [(r.member_index, r.prompt_ids) for r in requests]
        place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        device = self._decoder.device
        ids, real = left_pad([prompt for _, prompt in place], device)
        with self.adapters.route([member for member, _ in place]):
            logits, cache = self._decoder.prefill(ids, real)
        rows = torch.tensor([place[key] for key in keys], device=device)
        room = max(r.max_tokens for r in requests)
        cache.select(rows, cache.length + min(room, _FIRST_ROOM))
        mask = None
        if not bool(real.all()):
            mask = logits.new_zeros(len(rows), cache.length + room)
            mask[:, : cache.length].masked_fill_(~real[rows], float("-inf"))
        return logits[rows], cache, mask

    def _apply_stops(self, table: SampleTable, requests: list[TokenRequest]) -> None:
        """Close rows whose last tokens complete one of their stop texts."""
        for row in table.rows_with_stops:
            if int(table.lengths[row]) in (0, table.drawn):
                stops = requests[row].stop
                # A text of b bytes lies within its last b tokens: each has at least one byte.
                width = max(len(s.encode()) for s in stops)
                tail = table.tokens[row, max(0, table.drawn - width) : table.drawn].tolist()
                text = self.decode(tail)
                if any(s in text for s in stops):
                    table.close(row)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these tokens, special ones included."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text


def _check(request: TokenRequest) -> None:
    if not request.prompt_ids:
        raise EvalsError("a prompt is empty, expected at least one token")
    if request.max_tokens < 1:
        raise EvalsError(f"max_tokens is {request.max_tokens}; expected 1 or more")
    if not 0.0 <= request.temperature < math.inf:
        raise EvalsError(f"temperature is {request.temperature}; expected 0 or more")
    if "" in request.stop:
        raise EvalsError("a stop text is empty")


def _end_tokens(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """The end tokens of the tokenizer, the model and its generation settings."""
    ends: set[int] = set()
    for part in (tokenizer, model.config, getattr(model, "generation_config", None)):
        named = getattr(part, "eos_token_id", None)
        ends |= set(named if isinstance(named, list) else () if named is None else (named,))
    if not ends:
        raise EvalsError("the tokenizer names no end token: set its eos_token")
    return tuple(sorted(ends))
