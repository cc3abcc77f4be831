"""The one engine of generation: requests, their samples, and what all engines share.

`hf_engine` samples from the adapters stacked on a model, `vllm_engine` from files that vLLM serves.

The u-th uniform of a row is number u of the random stream of its request's seed, which neither the
other rows of a batch nor the order of calls can change.
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lora_evo.errors import LoraEvoError

if TYPE_CHECKING:
    from lora_evo import Adapter

Folders: TypeAlias = Mapping[str, str | os.PathLike[str]]
"""Adapter names and their PEFT folders."""
Samples: TypeAlias = Generator[tuple[int, "Rollout"], None, None]
_CONTEXT_TOKENS = 8
"""Prompt tokens decoded along with a completion, so that its first space is kept."""


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to sample.

    - prompt: a text, or the ids of its tokens; one that fills the context is refused.
    - adapter: name of an adapter that the engine holds; None is the base model.
    - max_tokens: at least 1; cut to what the context leaves.
    - temperature: 0 is greedy and ignores the seed.
    - seed: of this request's own random stream.
    - stop: texts, none empty, that end the completion; the model's end token always ends it.
    - special_tokens: whether the tokenizer adds tokens of its own to a text, such as a start.
    - top_p: sample among the most likely tokens that together have this probability; 1 is all.
    - top_k: sample among the k most likely tokens, chosen before `top_p`; 0 is all.
    """

    prompt: str | tuple[int, ...]
    adapter: str | None = None
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    special_tokens: bool = True
    top_p: float = 1.0
    top_k: int = 0

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The prompt's token ids. Raises TypeError for a text."""
        if isinstance(self.prompt, str):
            raise TypeError("the prompt is a text, expected token ids: see Engine.tokenise")
        return self.prompt

    def check(self) -> None:
        """Raise LoraEvoError for an empty prompt, and for a setting that draws no token."""
        if not self.prompt_ids:
            raise LoraEvoError("a prompt is empty, expected at least one token")
        stop: Any = self.stop
        for expected, fits in {
            "max_tokens of at least 1": self.max_tokens >= 1,
            "temperature of 0 or above": 0 <= self.temperature < math.inf,
            "top_p above 0, up to 1": 0 < self.top_p <= 1,
            "top_k of 0 (all) or above": self.top_k >= 0,
            "stop of texts in a tuple, none empty": not isinstance(stop, str) and all(stop),
        }.items():
            if not fits:
                value = getattr(self, expected.partition(" ")[0])
                raise LoraEvoError(f"a request has {value!r}, expected a {expected}")


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled continuation.

    - completion_ids: sampled tokens, the end token included when it was sampled.
    - logprobs: log p of each of them (nats) under temperature, top-p and top-k (at temperature 0:
      under temperature 1, among all); NaN where logits are not finite, which `generate` refuses.
    - text: of `completion_ids` without the end token; special tokens and a stop text inside it are
      kept. `before_stop` cuts it.
    """

    adapter: str | None
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: Literal["stop", "length"]
    text: str = ""


class Engine(ABC):
    """Samples from one base model and from the adapters that it holds by name; not thread-safe."""

    tokenizer: Any
    """A transformers tokenizer with an end token."""
    end_tokens: tuple[int, ...]
    context: int | None
    """Longest prompt and completion together, in tokens; None is without bound."""
    max_rows: int
    """Sequences sampled together."""
    vocabulary: float = math.inf
    """Rows of the model's embedding; a prompt with a token beyond them is refused."""
    shares_parameters: bool = False
    """Whether its adapters are the parameters of a stack: what is trained there is here already."""
    about: Mapping[str, str | None]
    """Of an engine on saved adapters: `engine`, `model`, `model_hash` and `dtype`."""
    hashes: Mapping[str, str]
    """Content hashes of its saved adapters by name."""

    def __init__(self, model: Any, tokenizer: Any, max_rows: int, context: int | None) -> None:
        """model: the base, for its settings and the number of its tokens only."""
        self.tokenizer, self.max_rows, self.context = tokenizer, max_rows, context
        self.end_tokens, self.vocabulary = end_tokens(model, tokenizer), embedding_rows(model)

    @property
    @abstractmethod
    def versions(self) -> Mapping[str, int]:
        """Names of the adapters that requests may name, and the version that is in force."""

    def generate(self, requests: Sequence[Request]) -> list[Rollout]:
        """Sample every request, in order. Raises LoraEvoError."""
        samples = dict(self.stream(requests))
        for rollout in samples.values():
            if any(map(math.isnan, rollout.logprobs)):
                raise LoraEvoError(
                    f"the logits of {rollout.adapter or 'the base'} are not finite, so that no "
                    "token can be drawn; try dtype=float32 or dtype=bfloat16, or go back to a "
                    "checkpoint from before training diverged"
                )
        return [samples[i] for i in range(len(requests))]

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Rollout]]:
        """Yield (number of the request, its sample) in any order, until the engine's next call."""
        tokenised = [self.tokenise(request) for request in requests]
        for request in tokenised:
            if request.adapter not in (None, *self.versions):
                raise unknown_adapter(str(request.adapter), self.versions)
            request.check()
            refuse_unknown(request.prompt_ids, self.vocabulary)
        with closing(self._stream(tokenised)) as samples:
            for i, rollout in samples:
                yield i, replace(rollout, text=self._text(rollout))

    @abstractmethod
    def _stream(self, requests: Sequence[Request]) -> Samples:
        """Yield what `stream` yields, without texts, of requests by token ids."""

    @abstractmethod
    def put_adapter(self, name: str, version: int, adapter: "Adapter") -> None:
        """Let `name` mean this adapter from the next call on.

        Raises LoraEvoError, and leaves what was there, when the adapter does not fit the base.
        """

    @abstractmethod
    def drop_adapter(self, name: str) -> None:
        """Forget an adapter. Raises LoraEvoError when there is none of this name."""

    def release(self) -> None:  # noqa: B027
        """Give memory back that only sampling needs, where there is any."""

    def restore(self) -> None:  # noqa: B027
        """Take the memory again; adapters are as they were."""

    def close(self) -> None:  # noqa: B027
        """Free what the engine alone holds; it cannot be used any more."""

    def identity(self, adapter: str | None = None) -> dict[str, str | None]:
        """Return what a sample is a sample of: engine, model, adapter's content hash, dtype."""
        if adapter is not None and adapter not in self.hashes:
            raise unknown_adapter(adapter, self.hashes)
        return {**self.about, "adapter_hash": None if adapter is None else self.hashes[adapter]}

    def tokenise(self, request: Request) -> Request:
        """Return the request by token ids: with one start token at most, within the context."""
        prompt = request.prompt
        if isinstance(prompt, str):
            prompt = encoded(self.tokenizer, prompt, request.special_tokens)
        room = self.context - len(prompt) if self.context else request.max_tokens
        if room < 1:
            beginning = f" to {request.prompt[:40]!r}..." if isinstance(request.prompt, str) else ""
            raise LoraEvoError(
                f"the prompt has {len(prompt)} tokens and the model reads {self.context}: nothing "
                f"is left for an answer{beginning}"
            )
        return replace(request, prompt=prompt, max_tokens=min(request.max_tokens, room))

    def _text(self, rollout: Rollout) -> str:
        ids = rollout.completion_ids
        body = ids[:-1] if ids and ids[-1] in self.end_tokens else ids
        before = rollout.prompt_ids[-_CONTEXT_TOKENS:]
        prefix, whole = self.decode(before), self.decode(before + body)
        return whole[len(prefix) :] if whole.startswith(prefix) else self.decode(body)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these tokens, special ones included."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text


def encoded(tokenizer: Any, text: str, special: bool) -> tuple[int, ...]:
    """Return the token ids of a prompt.

    special: with what the tokenizer puts before a text, such as a start token, unless the text
    begins with that token. What it puts behind a text, such as an end token, would end the prompt.
    """
    bos = getattr(tokenizer, "bos_token", None)
    if not special or (bos and text.startswith(bos)):
        return tuple(tokenizer.encode(text, add_special_tokens=False))
    letter, whole = (tokenizer.encode("a", add_special_tokens=added) for added in (False, True))
    most = len(whole) - len(letter)
    behind = next((n for n in range(most + 1) if whole[most - n : len(whole) - n] == letter), 0)
    ids = tokenizer.encode(text, add_special_tokens=True)
    return tuple(ids[: len(ids) - behind])


def embedding_rows(model: Any) -> int:
    """Return the number of tokens that a transformers model has an embedding for."""
    return int(model.get_input_embeddings().weight.shape[0])


def refuse_unknown(ids: Sequence[int], rows: float) -> None:
    """Raise LoraEvoError for a token id below 0 or beyond the rows of the model's embedding."""
    if (first := min(ids, default=0)) < 0:
        raise LoraEvoError(f"token {first} is below 0, as masked labels are; expected a token's id")
    if (last := max(ids, default=0)) >= rows:
        raise LoraEvoError(
            f"the tokenizer makes a token of number {last}, and the model's embedding has {rows} "
            "rows; put the model's own tokenizer into its folder, or save the model after "
            "resize_token_embeddings"
        )


def before_stop(text: str, stop: Sequence[str]) -> str:
    """Return a text up to the first of the stop texts in it."""
    return min((text.partition(end)[0] for end in stop), key=len, default=text)


def unknown_adapter(name: str, names: Mapping[str, object] | Sequence[str]) -> LoraEvoError:
    """Return the error of a request that names an adapter which the engine does not hold."""
    return LoraEvoError(f"no adapter named {name!r}; loaded: {', '.join(names)}")


def end_tokens(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the end tokens of the tokenizer, the model and its generation settings.

    Raises LoraEvoError when there are none: no completion would ever end.
    """
    ends: set[int] = set()
    config = model.config.get_text_config()
    for part in (tokenizer, config, getattr(model, "generation_config", None)):
        named = getattr(part, "eos_token_id", None)
        ends |= set(named if isinstance(named, list) else () if named is None else (named,))
    if not ends:
        raise LoraEvoError("the tokenizer names no end token: set its eos_token")
    return tuple(sorted(ends))
