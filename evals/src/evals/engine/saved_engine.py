"""An engine for saved adapters: what `evals` knows of them besides what the engine samples."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals.engine.request import Completion, Request
from evals.engine.rollout_engine import RolloutEngine
from evals.errors import EvalsError


class SavedEngine:
    """Saved adapters by name on one base model; those of one call share its batches."""

    def __init__(
        self,
        engine: RolloutEngine,
        kind: str,
        model: str,
        model_hash: str,
        hashes: Mapping[str, str],
        dtype: str,
    ) -> None:
        self._engine: RolloutEngine | None = engine
        self._hashes = dict(hashes)
        self._kind, self._model, self._model_hash, self._dtype = kind, model, model_hash, dtype

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
