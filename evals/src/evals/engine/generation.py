"""Generation on the stacked model: all adapters in one batch, finished rows dropped.

The same layers train and generate, so that the learner's and the sampler's log-probabilities differ
by rounding only. Rows are processed at most `max_rows` at a time, those of similar prompt length
together; equal prompts of one adapter are read once, and so is a long text that all prompts of a
batch begin with. An adapter with many rows is merged into the
dense weights while it samples, which spares two products per layer and token; the others share
batches. What a request samples depends on its prompt, its adapter and its seed; the company in the
batch can only change the last bits of the arithmetic.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from evals.engine.adapter_exchange import import_adapter
from evals.engine.decoder import Decoder, KVCache, decoder_of, left_pad
from evals.engine.general_decoder import GeneralCache
from evals.engine.rollout import Rollout, SampleTable, TokenRequest
from evals.engine.rollout_engine import (
    AdapterSource,
    RolloutEngine,
    check_request,
    end_tokens,
    read_adapter,
    stop_width,
)
from evals.engine.stacked_lora import StackedAdapters
from evals.errors import EvalsError

Cache: TypeAlias = KVCache | GeneralCache
_FIRST_ROOM = 64
"""Positions set aside for completions at first."""
_COMPACT_BELOW = 0.9
"""Finished rows are dropped when at most this share of the rows is still open."""
_SHARED_FROM = 32
"""Tokens from which on a beginning that all prompts have in common is read once per adapter."""


class StackedEngine(RolloutEngine):
    """Samples on a model with stacked adapters, which belongs to the caller.

    tokenizer: a transformers tokenizer with an end token; max_rows: rows decoded together;
    merge_rows: rows of one adapter from which on it is merged to sample them, 0 for never;
    by_member: rows of different adapters never share a batch, so that company changes no bit.
    """

    shares_parameters = True

    def __init__(
        self,
        adapters: StackedAdapters,
        tokenizer: Any,
        *,
        max_rows: int = 128,
        merge_rows: int = 0,
        by_member: bool = False,
    ):
        if max_rows < 1 or merge_rows < 0:
            raise EvalsError(
                f"max_rows is {max_rows} and merge_rows {merge_rows}, expected at least 1 and 0"
            )
        self.adapters = adapters
        self.tokenizer = tokenizer
        self.max_rows = max_rows
        self.merge_rows = merge_rows
        self.by_member = by_member
        model: Any = adapters.model
        self._decoder: Any = decoder_of(model)
        self._versions: dict[str, int] = {}
        self.context = getattr(model.config, "max_position_embeddings", None)
        generation_config = getattr(model, "generation_config", None)
        self.end_tokens = end_tokens(model.config, generation_config, tokenizer)

    @property
    def versions(self) -> dict[str, int]:
        """Names of the members, and the version that was last put in their place."""
        return {name: self._versions.get(name, 0) for name in self.adapters.members}

    def put_adapter(self, name: str, version: int, adapter: AdapterSource) -> None:
        """Copy an adapter into the member's place; the stack has the same places for ever."""
        import_adapter(self.adapters, self.adapters.index(name), read_adapter(adapter))
        self._versions[name] = version

    def drop_adapter(self, name: str) -> None:
        """Refused: the places belong to the stack."""
        self.adapters.index(name)
        raise EvalsError(f"{name!r} has a place in the stack, which can only be given another one")

    def release(self) -> None:
        """Nothing to give: caches live within a call."""

    def restore(self) -> None:
        """Nothing to take back."""

    def close(self) -> None:
        """Nothing to free: the model belongs to the caller."""

    def rollouts(self, requests: Sequence[TokenRequest]) -> list[Rollout]:
        """Sample every request; results in the same order."""
        results = dict(self.stream(requests))
        return [results[i] for i in range(len(requests))]

    def stream(self, requests: Sequence[TokenRequest]) -> Iterator[tuple[int, Rollout]]:
        """Yield (number of the request, its sample), adapter by adapter where rows are many."""
        by_member: dict[int, list[int]] = defaultdict(list)
        for i, request in enumerate(requests):
            check_request(request)
            by_member[self._place(request)].append(i)
        shared: list[int] = []
        for member, mine in sorted(by_member.items()):
            if 0 < self.merge_rows <= len(mine):
                with self.adapters.merged(member):
                    found = self._sample_all(requests, mine)
                yield from found.items()
            elif self.by_member:
                yield from self._sample_all(requests, mine).items()
            else:
                shared += mine
        yield from self._sample_all(requests, shared).items()

    @torch.inference_mode()
    def _sample_all(
        self, requests: Sequence[TokenRequest], chosen: Sequence[int]
    ) -> dict[int, Rollout]:
        """Sample the chosen requests in chunks of similar prompt length."""
        order = sorted(
            chosen,
            key=lambda i: (len((r := requests[i]).prompt_ids), self._place(r), r.prompt_ids),
        )
        results: dict[int, Rollout] = {}
        for start in range(0, len(order), self.max_rows):
            chunk = order[start : start + self.max_rows]
            chunk.sort(key=lambda i: self._place(requests[i]))
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
            with self.adapters.route([self._place(requests[i]) for i in live.tolist()]):
                enough = int(_COMPACT_BELOW * len(live))
                while int((table.lengths[live] == 0).sum()) > enough:
                    at = positions + table.drawn - 1
                    logits = self._decoder.step(tokens, at, mask, cache)
                    tokens = table.draw(live, logits)
                    self._apply_stops(table, requests)
        return table.rollouts()

    def _prefill(self, requests: list[TokenRequest]) -> tuple[Tensor, Cache, Tensor | None]:
        """Read each different (member, prompt) once and spread the result over the requests."""
        keys = [(self._place(r), r.prompt_ids) for r in requests]
        place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        members, prompts = [member for member, _ in place], [prompt for _, prompt in place]
        shared = _shared_length(members, prompts) if isinstance(self._decoder, Decoder) else 0
        device = self._decoder.device
        ids, real = left_pad([prompt[shared:] for prompt in prompts], device)
        before = [self._read_shared(members, prompts[0][:shared])] if shared else []
        with self.adapters.route(members):
            logits, cache = self._decoder.prefill(ids, real, *before)
        rows = torch.tensor([place[key] for key in keys], device=device)
        room = max(r.max_tokens for r in requests)
        cache.select(rows, cache.length + min(room, _FIRST_ROOM))
        mask = None
        if not bool(real.all()):
            mask = logits.new_zeros(len(rows), cache.length + room)
            mask[:, shared : cache.length].masked_fill_(~real[rows], float("-inf"))
        return logits[rows], cache, mask

    def _read_shared(self, members: Sequence[int], text: Sequence[int]) -> KVCache:
        """Read a text once for each different member; the cache has a row for each of `members`."""
        each = sorted(set(members))
        ids = torch.tensor([text] * len(each), device=self._decoder.device)
        cache: KVCache
        with self.adapters.route(each):
            _, cache = self._decoder.prefill(ids, torch.ones_like(ids, dtype=torch.bool))
        cache.select(torch.tensor([each.index(m) for m in members], device=ids.device))
        return cache

    def _apply_stops(self, table: SampleTable, requests: list[TokenRequest]) -> None:
        """Close rows whose last tokens complete one of their stop texts."""
        for row in table.rows_with_stops:
            if int(table.lengths[row]) in (0, table.drawn):
                stops = requests[row].stop
                start = max(0, table.drawn - stop_width(stops))
                text = self.decode(table.tokens[row, start : table.drawn].tolist())
                if any(s in text for s in stops):
                    table.close(row)

    def _place(self, request: TokenRequest) -> int:
        return self.adapters.index(request.adapter)


def _shared_length(members: Sequence[int], prompts: Sequence[tuple[int, ...]]) -> int:
    """Return how many tokens all prompts begin with, or 0 where reading them once saves little."""
    first, last = min(prompts), max(prompts)  # all that both begin with, all begin with
    most = min(map(len, prompts)) - 1
    length = next((i for i in range(most) if first[i] != last[i]), most)
    enough = length >= _SHARED_FROM and len(prompts) >= 2 * len(set(members))
    return length if enough else 0
