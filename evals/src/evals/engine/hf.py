"""The `hf` engine: saved PEFT adapters, stacked on one base model, on a CPU or one GPU."""

import os
from collections.abc import Mapping

from evals.engine.adapter_exchange import stack_saved
from evals.engine.adapters import load_saved
from evals.engine.base_model import choose_device, load_base_model
from evals.engine.generation import StackedEngine
from evals.engine.saved_engine import SavedEngine

_MERGE_ROWS = 16
"""Rows of one adapter from which on it is merged to sample them, in float32; merging rounds the
weights of other number types."""
_MERGE_PARAMETERS = 10_000_000
"""Models above this read their weights from memory at every token: one batch of all adapters is
faster than one of each (measured: 1.27 times at 135 M, while nano gains by merging)."""


class HFEngine(SavedEngine):
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
        saved = load_saved(base, adapters or {}, any_base)
        small = sum(p.numel() for p in base.model.parameters()) <= _MERGE_PARAMETERS
        merge_rows = _MERGE_ROWS if small and base.dtype == "float32" else 0
        stacked = stack_saved(base.model, saved.linears, saved.adapters)
        engine = StackedEngine(stacked, base.tokenizer, max_rows=max_rows, merge_rows=merge_rows)
        super().__init__(engine, "hf", base, saved)
