"""The `vllm` engine of `evals`: saved PEFT adapters, all in one engine."""

import os
from collections.abc import Mapping

from evals.engine.adapters import load_saved
from evals.engine.base_model import BaseModel, choose_device, load_base_model, resolve
from evals.engine.rollout_engine import end_tokens
from evals.engine.saved_engine import SavedEngine
from evals.vllm_engine.adapter_check import Shapes, linear_shapes
from evals.vllm_engine.engine import VLLMRolloutEngine
from evals.vllm_engine.installed import require_vllm
from evals.vllm_engine.options import Serving, VLLMOptions


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
        base.model.to("meta")
        saved = load_saved(base, adapters or {}, any_base)
        ranks = [len(slot.A) for a in saved.adapters.values() for slot in a.slots.values()]
        engine = serve(
            base,
            Serving(
                model=resolve(model),
                dtype=base.dtype,
                device=self.device,
                context=base.context,
                max_adapters=len(saved.adapters),
                max_rank=max(ranks, default=1),
            ),
            options or VLLMOptions(max_rows=max_rows),
            linear_shapes(base.model),
        )
        try:
            for name, adapter in saved.adapters.items():
                engine.put_adapter(name, 0, adapter)
        except BaseException:
            engine.close()
            raise
        super().__init__(engine, "vllm", base, saved)


def serve(
    base: BaseModel, serving: Serving, options: VLLMOptions, shapes: Shapes, *, threads: int = 0
) -> VLLMRolloutEngine:
    """Open an engine for a base; of its model only the settings are read."""
    generation_config = getattr(base.model, "generation_config", None)
    ends = end_tokens(base.model.config, generation_config, base.tokenizer)
    return VLLMRolloutEngine(serving, options, base.tokenizer, ends, shapes, threads=threads)
