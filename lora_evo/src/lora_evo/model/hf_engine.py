"""The `hf` engine: generation on the stacked model, all adapters in one batch.

Rows are processed at most `max_rows` at a time, those of similar prompt length together; equal
prompts of one adapter are read once, and so is a long text that all prompts of a batch begin with.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from lora_evo import Adapter
from lora_evo.errors import LoraEvoError
from lora_evo.model.decoding import Decoder, KVCache, decoder_of, mask_of, padded, turning_length
from lora_evo.model.engine import Engine, Request, Rollout, Samples
from lora_evo.model.stacked_lora import StackedAdapters, import_adapter
from lora_evo.peft.names import as_in
from lora_evo.random_streams import stream

_FIRST_ROOM = 64
"""Positions set aside for completions at first."""
_COMPACT_BELOW = 0.9
"""Finished rows are dropped when at most this share of the rows is still open."""
_REFILLS = 16
"""Waiting requests join when this part of the rows, one of so many, is free."""
_PADDED, _PIECE = 1.25, 2048
"""Texts are read together up to so many times the shortest's length, or so many tokens in all."""
_SHARED_FROM = 32
"""Tokens from which on a beginning that all prompts have in common is read once per adapter."""


@dataclass(frozen=True, eq=False)
class OpenRow:
    """A request with its number, and the beginning of its completion where there is one."""

    number: int
    request: Request
    begun: Rollout | None = None

    @property
    def text(self) -> tuple[int, ...]:
        """Tokens that are read before the next is drawn."""
        return self.request.prompt_ids + (self.begun.completion_ids if self.begun else ())


@dataclass(eq=False)
class DecodingBatch:
    """Rows that are sampled together with one cache; some of them may be finished.

    Each plain `Tensor` has an entry for each row, and goes and comes with it.
    """

    rows: list[OpenRow]
    cache: Any
    mask: Tensor | None
    """What is added to attention scores; None without padding."""
    narrows: bool
    """Whether a request has top-p or top-k."""
    stops: bool
    """Whether a request has stop texts."""
    uniforms: Tensor
    """[rows, most tokens] in [0, 1): the beginning of each seed's stream."""
    temperatures: Tensor
    top_p: Tensor
    top_k: Tensor
    limits: Tensor
    prompt_lengths: Tensor
    tokens: Tensor
    """[rows, most tokens], those drawn so far first."""
    logprobs: Tensor
    last: Tensor
    """The last token of every row."""
    drawn: Tensor
    """Tokens drawn so far."""
    lengths: Tensor
    """Length of the finished completion; 0 while the row is open."""
    stopped: Tensor

    @classmethod
    def of(
        cls, rows: Sequence[OpenRow], steps: int, cache: Any, mask: Tensor | None,
        device: torch.device,
    ) -> "DecodingBatch":  # fmt: skip
        """Begin or continue rows of at most `steps` tokens."""
        plain = [row.request for row in rows]

        def column(values: Sequence[float], dtype: torch.dtype = torch.long) -> Tensor:
            return torch.tensor(values, device=device, dtype=dtype)

        batch = cls(
            list(rows),
            cache,
            mask,
            any(r.top_k or r.top_p < 1 for r in plain),
            any(r.stop for r in plain),
            torch.from_numpy(np.stack([stream(r.seed).random(steps) for r in plain])).to(device),
            column([r.temperature for r in plain], torch.float32),
            column([r.top_p for r in plain], torch.float64),
            column([r.top_k for r in plain]),
            column([r.max_tokens for r in plain]),
            column([len(r.prompt_ids) for r in plain]),
            torch.zeros(len(rows), steps, dtype=torch.long, device=device),
            torch.zeros(len(rows), steps, device=device),
            column([0] * len(rows)),
            column([len(row.begun.completion_ids) if row.begun else 0 for row in rows]),
            column([0] * len(rows)),
            column([0] * len(rows), torch.bool),
        )
        for row, tokens, logprobs in zip(rows, batch.tokens, batch.logprobs, strict=True):
            if row.begun:
                tokens[: len(row.begun.completion_ids)] = column(row.begun.completion_ids)
                logprobs[: len(row.begun.logprobs)] = column(row.begun.logprobs, torch.float32)
        return batch

    @property
    def is_open(self) -> Tensor:
        return self.lengths == 0

    @property
    def position(self) -> Tensor:
        """Number of each row's next token [rows, 1]; of a finished row, its last at most."""
        return self.drawn.clamp(max=self.tokens.shape[1] - 1)[:, None]

    def drop_finished(self) -> None:
        """Keep the open rows, the last of them in the places of finished ones before."""
        rows = self.is_open.nonzero()[:, 0]
        n = len(rows)
        keep = torch.arange(n, device=rows.device)
        keep[~self.is_open[:n]] = rows[rows >= n]
        self.cache.shrink(keep)
        self.mask = None if self.mask is None else self.mask[keep]
        self.rows = [self.rows[i] for i in keep.tolist()]
        for column in _COLUMNS:
            setattr(self, column, getattr(self, column)[keep])

    def join(self, other: "DecodingBatch") -> None:
        """Append the rows of another batch, whose tables hold as many tokens."""
        real = self._real(), other._real()
        self.rows += other.rows
        self.narrows |= other.narrows
        self.stops |= other.stops
        for column in _COLUMNS:
            setattr(self, column, torch.cat((getattr(self, column), getattr(other, column))))
        room = int((self.limits - self.drawn).max())
        used = torch.cat([part.sum(1) for part in real])
        width = int(used.max())
        self.cache.join(other.cache, real, width, min(room, _FIRST_ROOM))
        at = torch.arange(width, device=used.device)
        self.mask = mask_of(at >= width - used[:, None], room, self.cache.dtype)

    def _real(self) -> Tensor:
        """Where the cache holds no padding [rows, length]."""
        if self.mask is None:
            return self.last.new_ones(len(self.last), self.cache.length, dtype=torch.bool)
        return self.mask[:, : self.cache.length] == 0

    def record(self, tokens: Tensor, logprobs: Tensor, ends: Tensor) -> None:
        """Append a token to every row, to no effect where it is finished; ends: tokens that end."""
        self.last = tokens
        self.tokens.scatter_(1, self.position, tokens[:, None])
        self.logprobs.scatter_(1, self.position, logprobs[:, None])
        self.drawn += 1
        ended = torch.isin(tokens, ends)
        self.stopped |= self.is_open & ended
        self.lengths += self.drawn * (self.is_open & (ended | (self.limits <= self.drawn)))

    def finished(self) -> Iterator[tuple[int, Rollout]]:
        columns = (self.tokens, self.logprobs, self.lengths, self.stopped)
        rows = zip(self.rows, *(column.tolist() for column in columns), strict=True)
        for row, tokens, logprobs, length, stopped in rows:
            if length:
                request = row.request
                why: Literal["stop", "length"] = "stop" if stopped else "length"
                ids, logs = tuple(tokens[:length]), tuple(logprobs[:length])
                yield row.number, Rollout(request.adapter, request.prompt_ids, ids, logs, why)


_COLUMNS = [column.name for column in fields(DecodingBatch) if column.type is Tensor]


def choose(logits: Tensor, uniforms: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverting the cumulative distribution.

    logits [rows, vocabulary], uniforms [rows] float64 in [0, 1), temperatures [rows] >= 0. Returns
    tokens [rows] and their log-probabilities (nats, float32) under the row's temperature. At
    temperature 0 the token is the arg max and its log-probability is that under temperature 1.
    """
    greedy = temperatures == 0
    divisor = torch.where(greedy, torch.ones_like(temperatures), temperatures)
    logprobs = torch.log_softmax(logits.float() / divisor[:, None], dim=-1)
    cumulative = logprobs.double().exp_().cumsum_(-1)
    target = uniforms[:, None] * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, target, right=True)[:, 0]
    drawn = drawn.clamp(max=logits.shape[-1] - 1)
    if bool(greedy.any()):
        drawn = torch.where(greedy, logits.argmax(-1), drawn)
    return drawn, logprobs.gather(-1, drawn[:, None])[:, 0]


def keep_likely(logits: Tensor, temperatures: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Return logits with -inf for what top-k and then top-p leave out; rows with neither as is.

    logits [rows, vocabulary]; the others [rows]. Top-p keeps the fewest likeliest of the k whose
    share of these k is top_p (Holtzman et al. 2020, arXiv 1904.09751). Of equal logits the lower
    token counts as likelier. At temperature 0 nothing is left out.
    """
    greedy = temperatures == 0
    ordered, order = logits.float().sort(dim=-1, descending=True, stable=True)
    divisor = torch.where(greedy, torch.ones_like(temperatures), temperatures)
    rank = torch.arange(logits.shape[-1], device=logits.device)
    mask = (rank < top_k[:, None]) | (top_k[:, None] == 0)
    shares = torch.softmax((ordered / divisor[:, None]).double(), -1) * mask
    reached = shares.cumsum(-1)
    mask &= (reached - shares < top_p[:, None] * reached[:, -1:]) | (top_p[:, None] == 1)
    left_out = torch.zeros_like(mask).scatter_(1, order, ~(mask | greedy[:, None]))
    return logits.masked_fill(left_out, -torch.inf)


class HFEngine(Engine):
    """Samples on a model with stacked adapters, which belongs to the caller.

    tokenizer: a transformers tokenizer with an end token; max_rows: rows decoded together.
    """

    shares_parameters = True

    def __init__(self, adapters: StackedAdapters, tokenizer: Any, *, max_rows: int = 128):
        model: Any = adapters.model
        context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        super().__init__(model, tokenizer, max_rows, context)
        self.adapters = adapters
        self._decoder: Any = decoder_of(model)
        self._turn = turning_length(model)
        self._versions: dict[str, int] = {}

    @property
    def versions(self) -> dict[str, int]:
        return {name: self._versions.get(name, 0) for name in self.adapters.members}

    def put_adapter(self, name: str, version: int, adapter: Adapter) -> None:
        fitting = adapter.renamed(as_in(adapter.paths, list(self.adapters.layers)))
        import_adapter(self.adapters, self.adapters.index(name), fitting, smaller=True)
        self._versions[name] = version

    def drop_adapter(self, name: str) -> None:
        raise LoraEvoError(f"{name!r} is a member of the stack, which can only be replaced")

    def _stream(self, requests: Sequence[Request]) -> Samples:
        self._ends = torch.tensor(self.end_tokens, dtype=torch.long, device=self.adapters.device)
        short = [i for i, r in enumerate(requests) if len(r.prompt_ids) <= self._turn]
        begun: dict[int, Rollout] = {}
        for number, rollout in self._sampled(requests, short, begun, self._turn):
            more = len(rollout.completion_ids) < requests[number].max_tokens
            if rollout.finish_reason == "length" and more:
                begun[number] = rollout
            else:
                yield number, rollout
        numbers = begun.keys() | (set(range(len(requests))) - set(short))
        yield from self._sampled(requests, sorted(numbers), begun, math.inf)

    @torch.inference_mode()
    def _sampled(
        self, requests: Sequence[Request], some: Sequence[int], begun: Mapping[int, Rollout],
        most: float,
    ) -> Samples:  # fmt: skip
        """Yield samples of some requests; where rows finish, others take their place.

        begun: beginnings of completions, which are read again and continued. most: tokens of a text
        that the last is drawn after.
        """
        rows = []
        for number in some:
            request, before = requests[number], begun.get(number)
            limit = min(request.max_tokens, most + 1 - len(request.prompt_ids))
            rows.append(OpenRow(number, replace(request, max_tokens=int(limit)), before))
        waiting = sorted(rows, key=lambda r: (len(r.text), self._member(r.request), r.text))
        steps = max((row.request.max_tokens for row in rows), default=0)
        try:
            while waiting:
                batch = self._begin(waiting, self.max_rows, steps)
                while True:
                    self._decode(batch, bool(waiting) and self._decoder.joins)
                    yield from batch.finished()
                    if not batch.is_open.any():
                        break
                    batch.drop_finished()
                    room = self.max_rows - len(batch.rows)
                    if waiting and room and self._decoder.joins:
                        batch.join(self._begin(waiting, room, steps))
        finally:
            self.adapters.forget()

    def _decode(self, batch: DecodingBatch, waiting: bool) -> None:
        """Decode more tokens of every row until it is time to drop the finished ones."""
        full = self.max_rows - max(1, self.max_rows // _REFILLS)
        enough = full if waiting else int(_COMPACT_BELOW * len(batch.rows))
        with self.adapters.route([self._member(row.request) for row in batch.rows], keep=True):
            while batch.is_open.sum() > enough:
                positions = batch.prompt_lengths + batch.drawn - 1
                logits = self._decoder.step(batch.last, positions, batch.mask, batch.cache)
                self._draw(batch, logits)

    def _begin(self, waiting: list[OpenRow], most: int, steps: int) -> DecodingBatch:
        """Take rows of much the same length from those that wait, and draw their next tokens."""
        shortest = len(waiting[0].text)
        longest, enough = (_PADDED * shortest, _PIECE) if self._decoder.pads else (shortest, 0)
        totals = zip(waiting, accumulate(len(row.text) for row in waiting[:most]), strict=False)
        most = sum(len(row.text) <= longest or tokens <= enough for row, tokens in totals)
        chunk = sorted(waiting[:most], key=lambda row: self._member(row.request))
        del waiting[:most]
        logits, cache, mask = self._prefill(chunk)
        batch = DecodingBatch.of(chunk, steps, cache, mask, logits.device)
        self._draw(batch, logits)
        return batch

    def _draw(self, batch: DecodingBatch, logits: Tensor) -> None:
        if batch.narrows:
            logits = keep_likely(logits, batch.temperatures, batch.top_p, batch.top_k)
        uniforms = batch.uniforms.gather(1, batch.position)[:, 0]
        tokens, logprobs = choose(logits, uniforms, batch.temperatures)
        batch.record(tokens, logprobs, self._ends)
        if batch.stops:
            self._apply_stops(batch)

    def _prefill(self, chunk: Sequence[OpenRow]) -> tuple[Tensor, Any, Tensor | None]:
        """Read each different (member, text) once: last logits, cache and mask of every row."""
        keys = [(self._member(row.request), row.text) for row in chunk]
        row_of = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        members, prompts = [member for member, _ in row_of], [prompt for _, prompt in row_of]
        shared = _shared_length(members, prompts) if isinstance(self._decoder, Decoder) else 0
        device = self.adapters.device
        ids, real = padded([prompt[shared:] for prompt in prompts], device, left=True)
        before = [self._read_shared(members, prompts[0][:shared])] if shared else []
        with self.adapters.route(members, keep=True):
            logits, cache = self._decoder.prefill(ids, real, *before)
        rows = torch.tensor([row_of[key] for key in keys], device=device)
        room = max(row.request.max_tokens for row in chunk)
        cache.select(rows, cache.length + min(room, _FIRST_ROOM))
        real = torch.cat((real.new_ones(len(rows), shared), real[rows]), dim=1)
        return logits[rows], cache, mask_of(real, room, logits.dtype)

    def _read_shared(self, members: Sequence[int], text: Sequence[int]) -> KVCache:
        """Read a text once for each different member; the cache has a row for each of `members`."""
        different = sorted(set(members))
        ids = torch.tensor([text] * len(different), device=self.adapters.device)
        cache: KVCache
        with self.adapters.route(different, keep=True):
            _, cache = self._decoder.prefill(ids, torch.ones_like(ids, dtype=torch.bool))
        cache.select(torch.tensor([different.index(m) for m in members], device=ids.device))
        return cache

    def _apply_stops(self, batch: DecodingBatch) -> None:
        counts = zip(batch.drawn.tolist(), batch.lengths.tolist(), strict=True)
        for row, (one, (drawn, length)) in enumerate(zip(batch.rows, counts, strict=True)):
            request = one.request
            if request.stop and length in (0, drawn):
                # Each token is a byte or more, so that these can hold the longest of the texts.
                start = max(0, drawn - max(len(text.encode()) for text in request.stop))
                text = self.decode(batch.tokens[row, start:drawn].tolist())
                if any(s in text for s in request.stop):
                    batch.lengths[row] = drawn
                    batch.stopped[row] = True

    def _member(self, request: Request) -> int:
        return self.adapters.index(request.adapter)


def _shared_length(members: Sequence[int], prompts: Sequence[tuple[int, ...]]) -> int:
    """Return how many tokens all prompts begin with, or 0 where reading them once saves little."""
    first, last = min(prompts), max(prompts)  # all that both begin with, all begin with
    most = min(map(len, prompts)) - 1
    length = next((i for i in range(most) if first[i] != last[i]), most)
    enough = length >= _SHARED_FROM and len(prompts) >= 2 * len(set(members))
    return length if enough else 0
