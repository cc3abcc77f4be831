"""The vLLM engine of a run, sized by its configuration."""

from evals.engine.base_model import BaseModel, resolve
from evals.vllm_engine.adapter_check import Shapes
from evals.vllm_engine.engine import VLLMRolloutEngine
from evals.vllm_engine.options import Serving, VLLMOptions
from evals.vllm_engine.saved import serve
from selfplay.config.run_config import RunConfig
from selfplay.population.prompt_bound import longest_sample


def open_vllm(
    config: RunConfig, base: BaseModel, shapes: Shapes, members: int
) -> VLLMRolloutEngine:
    """Open an engine with room for as many members as the run has.

    shapes: of the base's linear layers, as they were before members were put on them.
    """
    serving = Serving(
        model=resolve(config.base),
        dtype=config.dtype,
        device=base.model.device,
        context=base.context,
        max_adapters=members,
        max_rank=config.learner.r,
    )
    v = config.vllm
    options = VLLMOptions(
        gpu_memory_utilization=v.gpu_memory_utilization,
        max_model_len=v.max_model_len or longest_sample(config),
        enforce_eager=v.enforce_eager,
        kv_cache_memory_bytes=v.kv_cache_memory_bytes,
        sleep=v.sleep,
        max_rows=config.rollout.max_rows,
    )
    return serve(base, serving, options, shapes, threads=config.threads)
