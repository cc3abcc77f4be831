"""The one protocol of generation: token requests that name an adapter in, rollouts out.

Training and evaluation use the same engines: `evals.engine.generation` samples from adapters that a
learner holds, `evals.vllm_engine` from files that vLLM serves. What they share stands here: text in
and text out, the end token, stop texts, and what makes a request unusable.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from evals.engine.request import Completion, Request
from evals.engine.rollout import Rollout, TokenRequest
from evals.errors import EvalsError
from lora_evo import Adapter, LoraEvoError, load_adapter

AdapterSource: TypeAlias = Adapter | Path
"""An adapter as tensors, or the PEFT folder that it is saved in."""
_CONTEXT_TOKENS = 8
"""Prompt tokens decoded along with a completion, so that its first space is kept."""


class RolloutEngine(ABC):
    """Samples from one base model and from the adapters that it holds by name.

    What a request samples depends on its prompt, its adapter and its seed. Not for use by several
    threads at once.
    """

    tokenizer: Any
    """A transformers tokenizer with an end token."""
    end_tokens: tuple[int, ...]
    """Tokens that end a completion."""
    context: int | None
    """Longest prompt and completion together, in tokens; None is without bound."""
    max_rows: int
    """Sequences sampled together."""
    shares_parameters: bool = False
    """Whether its adapters are the parameters of a stack, as a learner's: what is trained there is
    here already, and places can be filled but not dropped."""

    @property
    @abstractmethod
    def versions(self) -> Mapping[str, int]:
        """Names of the adapters that requests may name, and the version that is in force."""

    @abstractmethod
    def rollouts(self, requests: Sequence[TokenRequest]) -> list[Rollout]:
        """Sample every request; results in the same order. Raises EvalsError."""

    def stream(self, requests: Sequence[TokenRequest]) -> Iterator[tuple[int, Rollout]]:
        """Yield (number of the request, its sample) as samples are made, in any order."""
        yield from enumerate(self.rollouts(requests))

    @abstractmethod
    def put_adapter(self, name: str, version: int, adapter: AdapterSource) -> None:
        """Let `name` mean this adapter from the next call of `rollouts` on.

        Raises EvalsError, and leaves what was there, when the adapter does not fit the base.
        """

    @abstractmethod
    def drop_adapter(self, name: str) -> None:
        """Forget an adapter. Raises EvalsError when there is none of this name."""

    @abstractmethod
    def release(self) -> None:
        """Give memory that only sampling needs to somebody else, where there is any."""

    @abstractmethod
    def restore(self) -> None:
        """Take the memory back; adapters are as they were."""

    @abstractmethod
    def close(self) -> None:
        """Free what the engine alone holds; it cannot be used any more."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request by text, in the same order."""
        asked = [self.tokenise(request) for request in requests]
        return [
            self.completion(rollout, request.stop)
            for rollout, request in zip(self.rollouts(asked), requests, strict=True)
        ]

    def tokenise(self, request: Request) -> TokenRequest:
        """The request by token ids: with the start token if it has none, within the context."""
        bos = self.tokenizer.bos_token
        begun = bool(bos) and request.prompt.startswith(bos)
        added = request.special_tokens and not begun
        prompt = self.tokenizer.encode(request.prompt, add_special_tokens=added)
        room = self.context - len(prompt) if self.context else request.max_tokens
        if room < 1:
            raise EvalsError(
                f"the prompt has {len(prompt)} tokens and the model reads {self.context}: nothing "
                f"is left for an answer to {request.prompt[:40]!r}..."
            )
        return TokenRequest(
            request.adapter,
            tuple(prompt),
            min(request.max_tokens, room),
            request.temperature,
            request.seed,
            request.stop,
        )

    def completion(self, rollout: Rollout, stop: Sequence[str] = ()) -> Completion:
        """Decode a rollout; the text ends before the end token and before any stop text."""
        ids = rollout.completion_ids
        kept = ids[:-1] if ids and ids[-1] in self.end_tokens else ids
        before = rollout.prompt_ids[-_CONTEXT_TOKENS:]
        prefix, whole = self.decode(before), self.decode(before + kept)
        text = whole[len(prefix) :] if whole.startswith(prefix) else self.decode(kept)
        found = [text.index(s) for s in stop if s in text]
        text = text[: min(found)] if found else text
        return Completion(text, ids, rollout.logprobs, rollout.finish_reason)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these tokens, special ones included."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text


def stop_width(stop: Sequence[str]) -> int:
    """How many of the last tokens can hold one of these texts: each has at least one byte."""
    return max(len(s.encode()) for s in stop)


def check_request(request: TokenRequest) -> None:
    """Raise EvalsError for a request that no engine can sample."""
    if not request.prompt_ids:
        raise EvalsError("a prompt is empty, expected at least one token")
    if request.max_tokens < 1:
        raise EvalsError(f"max_tokens is {request.max_tokens}; expected 1 or more")
    if not 0.0 <= request.temperature < math.inf:
        raise EvalsError(f"temperature is {request.temperature}; expected 0 or more")
    if "" in request.stop:
        raise EvalsError("a stop text is empty")


def read_adapter(source: AdapterSource) -> Adapter:
    """The adapter itself, loaded if it is a folder. Raises EvalsError for a damaged one."""
    if isinstance(source, Adapter):
        return source
    try:
        return load_adapter(source)
    except LoraEvoError as error:
        raise EvalsError(str(error)) from error


def end_tokens(config: Any, generation_config: Any, tokenizer: Any) -> tuple[int, ...]:
    """The end tokens of the tokenizer, the model and its generation settings.

    Raises EvalsError when there are none: no completion would ever end.
    """
    ends: set[int] = set()
    for part in (tokenizer, config, generation_config):
        named = getattr(part, "eos_token_id", None)
        ends |= set(named if isinstance(named, list) else () if named is None else (named,))
    if not ends:
        raise EvalsError("the tokenizer names no end token: set its eos_token")
    return tuple(sorted(ends))
