"""The `hf` engine: transformers generates, PEFT holds the adapters, on a CPU or one GPU."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from evals.adapters import attach
from evals.base_model import choose_device, load_base_model
from evals.decoding import Row, write_rows
from evals.engine import Completion, Request
from evals.errors import EvalsError

_CONTEXT_TOKENS = 8
"""Prompt tokens decoded along with a completion, so that its first space is kept."""


class HFEngine:
    """Several PEFT adapters on one base model.

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
        if max_rows < 1:
            raise EvalsError(f"max_rows is {max_rows}; expected 1 or more")
        self.device = choose_device(device)
        self.max_rows = max_rows
        self._base: Any = load_base_model(model, self.device, dtype)
        self._any_base = any_base
        self._peft: Any = None
        self._keys: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        for name, folder in (adapters or {}).items():
            self.add_adapter(name, folder)

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of the loaded adapters."""
        return tuple(self._keys)

    def add_adapter(self, name: str, folder: str | os.PathLike[str]) -> None:
        """Load one more adapter. After an error the engine should be closed."""
        if name in self._keys:
            raise EvalsError(f"an adapter called {name!r} is loaded already")
        key = f"a{len(self._keys)}"
        self._peft, digest = attach(self._base, self._peft, key, Path(folder), self._any_base)
        self._keys[name], self._hashes[name] = key, digest

    def identity(self, adapter: str | None = None) -> dict[str, str | None]:
        """What a result is a result of: engine, model, adapter's content hash, dtype."""
        self._check_adapter(adapter)
        return {
            "engine": "hf",
            "model": self._base.name,
            "model_hash": self._base.fingerprint,
            "adapter_hash": self._hashes[adapter] if adapter is not None else None,
            "dtype": str(self._base.model.dtype).removeprefix("torch."),
        }

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in the same order."""
        rows = [self._row(request) for request in requests]
        groups: dict[str | None, list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(request.adapter, []).append(index)
        for adapter, members in groups.items():
            members.sort(key=lambda index: len(rows[index].prompt))
            with self._using(adapter):
                for start in range(0, len(members), self.max_rows):
                    self._write(requests, rows, members[start : start + self.max_rows])
        return [self._completion(*pair) for pair in zip(requests, rows, strict=True)]

    def close(self) -> None:
        """Free the model."""
        self._base = self._peft = None
        self._keys.clear()

    # -----------------------------------------------------------------------------------------

    def _write(self, requests: Sequence[Request], rows: list[Row], batch: list[int]) -> None:
        asked = {id(rows[index]): requests[index] for index in batch}

        def stopped(row: Row) -> bool:
            stops = asked[id(row)].stop
            if not stops:
                return False
            window = 4 * max(map(len, stops)) + 4  # a character is at most four tokens
            tail = self._decode(row.tokens[-window:])
            if not any(stop in tail for stop in stops):
                return False
            return any(stop in self._text(row, row.tokens) for stop in stops)

        chosen = [rows[index] for index in batch]
        write_rows(self._base.model, chosen, self._base.end_tokens, stopped, self.device)

    def _row(self, request: Request) -> Row:
        if self._base is None:
            raise EvalsError("the engine is closed")
        self._check_adapter(request.adapter)
        if request.max_tokens < 1:
            raise EvalsError(f"max_tokens is {request.max_tokens}; expected 1 or more")
        if not 0.0 <= request.temperature < float("inf"):
            raise EvalsError(f"temperature is {request.temperature}; expected 0 or more")
        if "" in request.stop:
            raise EvalsError("a stop text is empty")
        tokenizer, context = self._base.tokenizer, self._base.context
        bos = tokenizer.bos_token
        prompt = tokenizer(
            request.prompt, add_special_tokens=not (bos and request.prompt.startswith(bos))
        )["input_ids"]
        if not prompt:
            raise EvalsError("the prompt is empty; expected at least one token")
        room = context - len(prompt) if context else request.max_tokens
        if room < 1:
            raise EvalsError(
                f"the prompt has {len(prompt)} tokens and {self._base.name} reads {context}: "
                f"nothing is left for an answer to {request.prompt[:40]!r}..."
            )
        return Row(prompt, min(request.max_tokens, room), request.temperature, request.seed)

    def _completion(self, request: Request, row: Row) -> Completion:
        ended = row.tokens[-1] in self._base.end_tokens
        text = self._text(row, row.tokens[:-1] if ended else row.tokens)
        found = [text.index(stop) for stop in request.stop if stop in text]
        return Completion(
            text=text[: min(found)] if found else text,
            token_ids=tuple(row.tokens),
            logprobs=tuple(row.logprobs),
            finish_reason=cast('Literal["stop", "length"]', row.done),
        )

    def _text(self, row: Row, tokens: list[int]) -> str:
        """The tokens as they read after the prompt; special tokens are kept."""
        before = row.prompt[-_CONTEXT_TOKENS:]
        prefix, whole = self._decode(before), self._decode(before + tokens)
        return whole[len(prefix) :] if whole.startswith(prefix) else self._decode(tokens)

    def _decode(self, tokens: list[int]) -> str:
        return str(
            self._base.tokenizer.decode(
                tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    def _check_adapter(self, adapter: str | None) -> None:
        if adapter is not None and adapter not in self._keys:
            loaded = ", ".join(self._keys) or "none"
            raise EvalsError(f"no adapter {adapter!r} is loaded; loaded: {loaded}")

    @contextlib.contextmanager
    def _using(self, adapter: str | None) -> Iterator[None]:
        """With this adapter active on the base model, or none."""
        if self._peft is None:
            yield
        elif adapter is None:
            with self._peft.disable_adapter():
                yield
        else:
            self._peft.set_adapter(self._keys[adapter], inference_mode=True)
            yield
