"""What a run will take, reckoned from its configuration and the shape of its base alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from selfplay.config.run_config import RunConfig
from selfplay.planning.architecture import Architecture
from selfplay.planning.duration import seconds
from selfplay.planning.learner_memory import BYTES, FLOAT32, learner_parts
from selfplay.planning.machine import Machine
from selfplay.planning.sampler_memory import sampler_memory
from selfplay.planning.workload import Workload, workload

_LIBRARIES = {True: 0.7e9, False: 0.4e9}
"""Interpreter, libraries and, on a GPU, the driver's context."""
_ACCURACY = 0.15
"""By which a real peak may differ from the estimate."""


@dataclass(frozen=True)
class Plan:
    """Memory in bytes; a step's rows and tokens are upper bounds, its seconds an expectation."""

    model: str
    machine: Machine
    parameters: int
    adapter_parameters: int
    members: int
    memory: Mapping[str, float]
    """Every part."""
    learning: float
    """All that is held while the learner works."""
    sampling: float
    """All that is held while samples are made."""
    activations: Mapping[str, float]
    """Activations at the longest micro-batch `as set`, and `plain` and `checkpointed`."""
    step: Workload
    seconds: Mapping[str, float]
    checkpoint: float
    """Bytes on disk of one checkpoint."""
    disk: float
    """Bytes on disk of all that are kept, and of the members' adapters."""

    @property
    def peak(self) -> float:
        """The larger of both phases."""
        return max(self.learning, self.sampling)

    @property
    def fits(self) -> bool:
        """Whether the estimate is within the device's memory."""
        return self.peak <= self.machine.memory

    @property
    def surely_too_large(self) -> bool:
        """Whether it would not fit even if the estimate is too large by what it may be off."""
        return self.peak * (1 - _ACCURACY) > self.machine.memory


def make_plan(
    config: RunConfig,
    model: Architecture,
    machine: Machine,
    *,
    prompt_tokens: int | None = None,
    fill: float = 0.5,
) -> Plan:
    """Reckon a run.

    prompt_tokens: of the longest prompt, instead of a guess; fill: share of its longest length that
    a completion is expected to have.
    """
    learner, dtype = config.learner, config.dtype
    step = workload(config, prompt_tokens, fill)
    adapter = model.adapter_parameters(learner.r, learner.target_modules)
    sampler = sampler_memory(model, config, step, machine.memory, machine.is_gpu)
    held = {
        f"base ({dtype})": float(model.parameters * BYTES[dtype]),
        "adapters (float32)": float(adapter * FLOAT32 * step.members),
    }
    work = learner_parts(model, learner, dtype, step)
    vllm = config.engine == "vllm"
    names = ("vLLM: weights and adapters", "vLLM: cache") if vllm else ("merged member", "cache")
    sampling = dict(zip(names, (sampler.weights, sampler.cache), strict=True))
    rest = {"process and libraries": _LIBRARIES[machine.is_gpu]}
    always = sum(held.values()) + sum(rest.values()) + work["optimiser"]
    kept = sampler.kept_cache + (sampler.weights if sampler.kept_weights else 0.0)
    activations = {"as set": work["activations"]}
    for name, again in (("plain", False), ("checkpointed", True)):
        other = replace(learner, gradient_checkpointing=again)
        activations[name] = learner_parts(model, other, dtype, step)["activations"]
    return Plan(
        model=model.name,
        machine=machine,
        parameters=model.parameters,
        adapter_parameters=adapter,
        members=step.members,
        memory={**held, **work, **sampling, **rest},
        learning=always + sum(work.values()) - work["optimiser"] + kept,
        sampling=always + sum(sampling.values()),
        activations=activations,
        step=step,
        seconds=seconds(model, dtype, step, machine, sampler.rows, learner.gradient_checkpointing),
        checkpoint=3.0 * FLOAT32 * adapter * step.members,
        disk=FLOAT32 * adapter * step.members * (3.0 * config.keep_checkpoints + 1),
    )
