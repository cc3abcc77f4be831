"""What sampling takes in memory, with the learner's own module or with vLLM; in bytes."""

from dataclasses import dataclass

from selfplay.planning.architecture import Architecture
from selfplay.planning.learner_memory import BYTES
from selfplay.planning.workload import Workload
from selfplay.run.config import RunConfig

_GROWING = 1.5
"""A cache that grows is copied, keys before values."""
_SHARE = 0.45
"""Of a GPU's memory for vLLM, where nothing else is set."""


@dataclass(frozen=True)
class SamplerMemory:
    """Beside base and adapters."""

    weights: float
    """A second copy of the base (vLLM), or one member merged into it (hf)."""
    cache: float
    """Keys and values while sampling."""
    kept_cache: float
    """What of them stays while the learner works."""
    rows: int
    """Rows sampled together."""
    kept_weights: bool
    """Whether the weights stay while the learner works."""


def cache_bytes(model: Architecture, dtype: str) -> int:
    """Keys and values of one token."""
    return 2 * model.layers * model.key * BYTES[dtype]


def sampler_memory(
    model: Architecture, config: RunConfig, step: Workload, memory: float, is_gpu: bool
) -> SamplerMemory:
    """Return what sampling takes; memory: of the device, of which vLLM is given a share."""
    r = config.rollout
    longest = max(rows.longest for rows in step.parts)
    token = cache_bytes(model, config.dtype)
    if config.engine == "vllm":
        settings = getattr(config, "vllm", None)
        adapters = model.adapter_parameters(config.learner.r, config.learner.target_modules)
        weights = (model.parameters + (step.members + 1) * adapters) * BYTES[config.dtype]
        given = getattr(settings, "kv_cache_memory_bytes", None)
        share = getattr(settings, "gpu_memory_utilization", _SHARE) * memory
        room = float(given if given else max(share - weights, 0.0) if is_gpu else 2**30)
        sleeps = is_gpu and getattr(settings, "sleep", True)
        cache = max(room, token * longest)
        fit = int(cache / (token * longest * max(step.fill, 0.05)))
        together = max(1, min(fit, sum(rows.count for rows in step.parts), 256))
        return SamplerMemory(weights, cache, 0.0 if sleeps else cache, together, True)
    positions = [min(r.max_rows, rows.count) * rows.longest for rows in step.parts]
    together = min(r.max_rows, max(rows.count for rows in step.parts))
    per_member = max(rows.count for rows in step.parts) / max(1, step.members)
    merged = 0 < r.merge_rows <= per_member
    weights = model.targets(config.learner.target_modules) * BYTES[config.dtype] if merged else 0
    cache = _GROWING * token * max(positions)
    return SamplerMemory(weights, cache, 0.0, together, False)
