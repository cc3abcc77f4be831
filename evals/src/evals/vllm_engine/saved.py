"""The `vllm` engine of `evals`: saved PEFT adapters, all in one engine."""

import os
from collections.abc import Mapping
from pathlib import Path

from evals.engine.adapters import is_zero, load_saved
from evals.engine.base_model import BaseModel, choose_device, load_base_model, resolve
from evals.engine.rollout import TokenRequest
from evals.engine.rollout_engine import RolloutEngine, end_tokens
from evals.engine.saved_engine import SavedEngine
from evals.errors import EvalsError
from evals.vllm_engine.adapter_check import Shapes, linear_shapes
from evals.vllm_engine.engine import VLLMRolloutEngine
from evals.vllm_engine.installed import require_vllm
from evals.vllm_engine.options import Serving, VLLMOptions
from lora_evo import Adapter

_PROBE_TOKENS = 8
"""Prompt and completion by which an adapter is told from the base."""


class VLLMEngine(SavedEngine):
    """Several saved adapters on one base model, served by vLLM in one engine.

    Arguments as of `HFEngine`; options: vLLM's. The base is read once on the CPU first, for its
    hash and the shapes of its layers. Raises EvalsError when vLLM, the model or an adapter cannot
    be used, or an adapter does not take hold.
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
        options: VLLMOptions | None = None,
    ) -> None:
        require_vllm()
        self.device = choose_device(device)
        base = load_base_model(model, choose_device("cpu"), dtype)
        number_type = str(base.model.dtype).removeprefix("torch.")
        base.model.to("meta")
        folders = {name: Path(folder) for name, folder in (adapters or {}).items()}
        saved = load_saved(base, folders, any_base)
        ranks = [len(slot.A) for a in saved.adapters.values() for slot in a.slots.values()]
        engine = serve(
            base,
            Serving(
                model=resolve(model),
                dtype=number_type,
                device=self.device,
                context=base.context,
                max_adapters=len(folders),
                max_rank=max(ranks, default=1),
            ),
            options or VLLMOptions(max_rows=max_rows),
            linear_shapes(base.model),
        )
        super().__init__(engine, "vllm", base.name, base.fingerprint, saved.hashes, number_type)
        try:
            for name, adapter in saved.adapters.items():
                engine.put_adapter(name, 0, adapter)
            check_hold(engine, saved.adapters, base)
        except BaseException:
            self.close()
            raise


def serve(
    base: BaseModel, serving: Serving, options: VLLMOptions, shapes: Shapes, *, threads: int = 0
) -> VLLMRolloutEngine:
    """Open an engine for a base; of its model only the settings are read."""
    generation_config = getattr(base.model, "generation_config", None)
    ends = end_tokens(base.model.config, generation_config, base.tokenizer)
    return VLLMRolloutEngine(serving, options, base.tokenizer, ends, shapes, threads=threads)


def check_hold(engine: RolloutEngine, adapters: Mapping[str, Adapter], base: BaseModel) -> None:
    """Every adapter changes what the model says, unless its update is 0.

    An adapter that silently does not take hold would be evaluated as the base model.
    """
    ids = tuple(i % base.model.config.vocab_size for i in range(1, _PROBE_TOKENS + 1))
    names = [None, *(name for name, adapter in adapters.items() if not is_zero(adapter))]
    plain, *changed = engine.rollouts(
        [TokenRequest(name, ids, _PROBE_TOKENS, temperature=0.0) for name in names]
    )
    for rollout in changed:
        if rollout.logprobs == plain.logprobs:
            raise EvalsError(
                f"adapter {rollout.adapter!r} changes nothing of what {base.name} says, though it "
                "is not 0"
            )
