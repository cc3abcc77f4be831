"""What sampling takes in memory, with the learner's own module or with vLLM; in bytes."""

from dataclasses import dataclass

from selfplay.config.run_config import RunConfig
from selfplay.planning.architecture import Architecture
from selfplay.planning.learner_memory import BYTES
from selfplay.planning.workload import Workload

_GROWING = 2.25
"""A cache that is full doubles, and what it was stays until keys and values are copied."""


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
        adapters = model.adapter_parameters(config.learner.r, config.learner.target_modules)
        weights = (model.parameters + (step.members + 1) * adapters) * BYTES[config.dtype]
        given = config.vllm.kv_cache_memory_bytes
        share = config.vllm.gpu_memory_utilization * memory
        room = float(given if given else max(share - weights, 0.0) if is_gpu else 2**30)
        sleeps = is_gpu and config.vllm.sleep
        cache = max(room, token * longest)
        fit = int(cache / (token * longest * max(step.fill, 0.05)))
        together = max(1, min(fit, sum(rows.count for rows in step.parts), 256))
        return SamplerMemory(weights, cache, 0.0 if sleeps else cache, together, True)
    # Half of the members take part in a role; one with many rows samples them alone, merged.
    active = max(1, step.members // 2)
    merging = [0 < r.merge_rows <= rows.count // active for rows in step.parts]
    counts = [
        min(r.max_rows, rows.count // active if merged else rows.count)
        for rows, merged in zip(step.parts, merging, strict=True)
    ]
    positions = [count * rows.longest for rows, count in zip(step.parts, counts, strict=True)]
    dense = model.targets(config.learner.target_modules) * BYTES[config.dtype]
    return SamplerMemory(
        weights=dense if any(merging) else 0.0,
        cache=_GROWING * token * max(positions),
        kept_cache=0.0,
        rows=max(counts),
        kept_weights=False,
    )
