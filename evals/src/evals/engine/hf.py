"""The `hf` engine: saved PEFT adapters, stacked on one base model, on a CPU or one GPU."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.engine.adapters import put_saved
from evals.engine.base_model import choose_device, load_base_model
from evals.engine.generation import StackedEngine
from evals.engine.request import Completion, Request
from evals.engine.rollout import Rollout, TokenRequest
from evals.errors import EvalsError

_CONTEXT_TOKENS = 8
"""Prompt tokens decoded along with a completion, so that its first space is kept."""
_MERGE_ROWS = 16
"""Rows of one adapter from which on it is merged to sample them, in float32; merging rounds the
weights of other number types."""
_MERGE_PARAMETERS = 10_000_000
"""Models above this read their weights from memory at every token: one batch of all adapters is
faster than one of each (measured: 1.27 times at 135 M, while nano gains by merging)."""


class HFEngine:
    """Several saved adapters on one base model; those of one call share its batches.

    model: folder or hub name, or `nano`. adapters: name -> PEFT folder. device: auto, cpu or cuda.
    dtype: auto, float32, bfloat16 or float16. max_rows: sequences in one batch. any_base: accept
    adapters whose configuration names another base model.

    One request gives the same tokens whatever else is in the batch: its randomness is its own, and
    what is left is the rounding of the matrix products (about 1e-6 in float32, enough in bfloat16
    to turn a draw now and then). Not for use by several threads at once.

    Raises EvalsError when the model or an adapter cannot be used.
    """

    def __init__(
        self,
        model: str,
        adapters: Mapping[str, str | os.PathLike[str]] | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_rows: int = 64,
        any_base: bool = False,
    ) -> None:
        self.device = choose_device(device)
        base = load_base_model(model, self.device, dtype)
        folders = {name: Path(folder) for name, folder in (adapters or {}).items()}
        stacked, self._hashes = put_saved(base, folders, any_base)
        self._dtype = str(base.model.dtype).removeprefix("torch.")
        small = sum(p.numel() for p in base.model.parameters()) <= _MERGE_PARAMETERS
        merge_rows = _MERGE_ROWS if small and self._dtype == "float32" else 0
        self._engine: StackedEngine | None = StackedEngine(
            stacked, base.tokenizer, max_rows=max_rows, merge_rows=merge_rows
        )
        self._model, self._fingerprint, self._context = base.name, base.fingerprint, base.context

    @property
    def max_rows(self) -> int:
        """Sequences in one batch."""
        return self._open().max_rows

    @property
    def tokenizer(self) -> Any:
        """The base model's, for chat prompts."""
        return self._open().tokenizer

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of the loaded adapters."""
        return tuple(self._hashes)

    def identity(self, adapter: str | None = None) -> dict[str, str | None]:
        """What a result is a result of: engine, model, adapter's content hash, dtype."""
        self._open().adapters.index(adapter)
        return {
            "engine": "hf",
            "model": self._model,
            "model_hash": self._fingerprint,
            "adapter_hash": self._hashes[adapter] if adapter is not None else None,
            "dtype": self._dtype,
        }

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in the same order."""
        asked = [self._tokenise(request) for request in requests]
        drawn = self._open().rollouts(asked) if asked else []
        return [self._completion(*pair) for pair in zip(requests, drawn, strict=True)]

    def close(self) -> None:
        """Free the model."""
        self._engine = None

    def _open(self) -> StackedEngine:
        if self._engine is None:
            raise EvalsError("the engine is closed")
        return self._engine

    def _tokenise(self, request: Request) -> TokenRequest:
        """The request by token ids: with the start token if it has none, within the context."""
        engine = self._open()
        bos = engine.tokenizer.bos_token
        begun = bool(bos) and request.prompt.startswith(bos)
        added = request.special_tokens and not begun
        prompt = engine.tokenizer(request.prompt, add_special_tokens=added)["input_ids"]
        room = self._context - len(prompt) if self._context else request.max_tokens
        if room < 1:
            raise EvalsError(
                f"the prompt has {len(prompt)} tokens and {self._model} reads {self._context}: "
                f"nothing is left for an answer to {request.prompt[:40]!r}..."
            )
        by_text = engine.tokenise(replace(request, max_tokens=min(request.max_tokens, room)))
        return replace(by_text, prompt_ids=tuple(prompt))

    def _completion(self, request: Request, rollout: Rollout) -> Completion:
        """Decode a rollout after the end of its prompt, so that a first space is kept."""
        engine = self._open()
        ids = rollout.completion_ids
        kept = ids[:-1] if ids[-1] in engine.end_tokens else ids
        before = rollout.prompt_ids[-_CONTEXT_TOKENS:]
        prefix, whole = engine.decode(before), engine.decode(before + kept)
        text = whole[len(prefix) :] if whole.startswith(prefix) else engine.decode(kept)
        found = [text.index(stop) for stop in request.stop if stop in text]
        text = text[: min(found)] if found else text
        return Completion(text, ids, rollout.logprobs, rollout.finish_reason)
