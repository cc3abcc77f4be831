"""An engine for saved adapters: what `evals` knows of them besides what the engine samples."""

from collections.abc import Sequence
from typing import Any

from evals.engine.adapters import SavedAdapters, is_zero
from evals.engine.base_model import BaseModel
from evals.engine.request import Completion, Request
from evals.engine.rollout import TokenRequest
from evals.engine.rollout_engine import RolloutEngine
from evals.errors import EvalsError

_PROBE_TOKENS = 8
"""Prompt and completion by which an adapter is told from the base."""


class SavedEngine:
    """Saved adapters by name on one base model; those of one call share its batches."""

    def __init__(
        self, engine: RolloutEngine, kind: str, base: BaseModel, saved: SavedAdapters
    ) -> None:
        """The engine holds the adapters already, and is closed when one does not take hold."""
        self._engine: RolloutEngine | None = engine
        self._hashes = dict(saved.hashes)
        self._kind, self._model, self._model_hash = kind, base.name, base.fingerprint
        self._dtype = base.dtype
        try:
            check_hold(engine, base, saved)
        except BaseException:
            self.close()
            raise

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
        self._open()
        if adapter is not None and adapter not in self._hashes:
            raise EvalsError(f"no adapter named {adapter!r}; loaded: {', '.join(self._hashes)}")
        return {
            "engine": self._kind,
            "model": self._model,
            "model_hash": self._model_hash,
            "adapter_hash": self._hashes[adapter] if adapter is not None else None,
            "dtype": self._dtype,
        }

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in the same order."""
        return self._open().generate(requests)

    def close(self) -> None:
        """Free the model."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None

    def _open(self) -> RolloutEngine:
        if self._engine is None:
            raise EvalsError("the engine is closed")
        return self._engine


def check_hold(engine: RolloutEngine, base: BaseModel, saved: SavedAdapters) -> None:
    """Every adapter changes what the model says, unless its update is 0.

    An adapter that silently does not take hold would be evaluated as the base model.
    """
    names = [name for name, adapter in saved.adapters.items() if not is_zero(adapter)]
    if not names:
        return
    ids = tuple(i % base.model.config.vocab_size for i in range(1, _PROBE_TOKENS + 1))
    plain, *changed = engine.rollouts(
        [TokenRequest(name, ids, _PROBE_TOKENS, temperature=0.0) for name in (None, *names)]
    )
    for rollout in changed:
        if rollout.logprobs == plain.logprobs:
            raise EvalsError(
                f"adapter {rollout.adapter!r} changes nothing of what {base.name} says, though it "
                "is not 0"
            )
