"""The `hf` engine: generation on the stacked model, all adapters in one batch.

The same layers train and generate, so that the learner's and the sampler's log-probabilities differ
by rounding only. Rows are processed at most `max_rows` at a time, those of similar prompt length
together; equal prompts of one adapter are read once, and so is a long text that all prompts of a
batch begin with. An adapter with many rows is merged into the dense weights while it samples, which
spares two products per layer and token; the others share batches.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lora_evo import Adapter
from lora_evo.errors import LoraEvoError
from lora_evo.model.decoding import Decoder, GeneralCache, KVCache, decoder_of, padded
from lora_evo.model.engine import (
    Engine,
    Rollout,
    TokenRequest,
    check_request,
    end_tokens,
    stop_width,
    stream,
)
from lora_evo.model.stacked_lora import StackedAdapters, import_adapter

Cache: TypeAlias = KVCache | GeneralCache
_FIRST_ROOM = 64
"""Positions set aside for completions at first."""
_COMPACT_BELOW = 0.9
"""Finished rows are dropped when at most this share of the rows is still open."""
_SHARED_FROM = 32
"""Tokens from which on a beginning that all prompts have in common is read once per adapter."""


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
        columns = (self.tokens, self._logprobs, self.lengths, self._stopped)
        rows = zip(self.requests, *(column.tolist() for column in columns), strict=True)
        return [
            Rollout(
                request.adapter,
                request.prompt_ids,
                tuple(tokens[:length]),
                tuple(logprobs[:length]),
                "stop" if stopped else "length",
            )
            for request, tokens, logprobs, length, stopped in rows
        ]


def row_uniforms(seeds: Sequence[int], count: int) -> npt.NDArray[np.float64]:
    """Return [len(seeds), count] uniforms in [0, 1): row i is the start of stream(seeds[i])."""
    table = np.empty((len(seeds), count), dtype=np.float64)
    for row, seed in zip(table, seeds, strict=True):
        row[:] = stream(seed).random(count)
    return table


def choose(logits: Tensor, uniforms: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverting the cumulative distribution.

    logits [rows, vocabulary], uniforms [rows] float64 in [0, 1), temperatures [rows] >= 0. Returns
    tokens [rows] and their log-probabilities (nats, float32) under the row's temperature. At
    temperature 0 the token is the arg max and its log-probability is that under temperature 1.
    """
    greedy = temperatures == 0
    divisor = torch.where(greedy, torch.ones_like(temperatures), temperatures)
    logprobs = torch.log_softmax(logits.float() / divisor[:, None], dim=-1)
    cumulative = logprobs.double().exp_().cumsum(-1)
    target = uniforms[:, None] * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, target, right=True)[:, 0]
    drawn = drawn.clamp(max=logits.shape[-1] - 1)
    if bool(greedy.any()):
        drawn = torch.where(greedy, logits.argmax(-1), drawn)
    return drawn, logprobs.gather(-1, drawn[:, None])[:, 0]


class HFEngine(Engine):
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
        self.adapters = adapters
        self.tokenizer = tokenizer
        self.max_rows = max_rows
        self.merge_rows = merge_rows
        self.by_member = by_member
        model: Any = adapters.model
        self._decoder: Any = decoder_of(model)
        self._versions: dict[str, int] = {}
        self.context = getattr(model.config, "max_position_embeddings", None)
        self.end_tokens = end_tokens(model, tokenizer)

    @property
    def versions(self) -> dict[str, int]:
        """Names of the members, and the version that was last put in their place."""
        return {name: self._versions.get(name, 0) for name in self.adapters.members}

    def put_adapter(self, name: str, version: int, adapter: Adapter) -> None:
        """Copy an adapter into the member's place; the stack has the same places for ever."""
        import_adapter(self.adapters, self.adapters.index(name), adapter)
        self._versions[name] = version

    def drop_adapter(self, name: str) -> None:
        """Refused: the places belong to the stack."""
        raise LoraEvoError(f"{name!r} has a place in the stack, which can only be replaced")

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
        device = self.adapters.device
        ids, real = padded([prompt[shared:] for prompt in prompts], device, left=True)
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
        ids = torch.tensor([text] * len(each), device=self.adapters.device)
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
