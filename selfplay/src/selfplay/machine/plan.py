"""The memory of a run on each worker, and the disk space of a checkpoint, without loading weights.

Reads the configuration and the base's config.json. Sizes are in bytes. Rows and tokens are upper
bounds: every proposal valid, every micro-batch full of the longest rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lora_evo import LoraEvoError
from selfplay.config import Config, for_workers
from selfplay.errors import ConfigError
from selfplay.learning.pieces import batches, even
from selfplay.learning.rewards import TEACHER_REWARDS, needed_by
from selfplay.machine import devices
from selfplay.machine.architecture import Architecture, read_architecture
from selfplay.machine.devices import GIB, Machine, gpu, this_machine

FLOAT32 = 4
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
SMALLER = (
    "try --set learner.gradient_checkpointing=true, a lower learner.micro_batch_tokens or "
    "rollout.max_rows, or a smaller base (docs/gpu.md has more)"
)
_LIBRARIES = {True: 0.7e9, False: 0.4e9}
"""Bytes of interpreter, libraries and, on a GPU (True), the driver's context."""
_NF4, _SINGLE = 0.5 + 1 / 64 + 4 / (64 * 256), 0.5 + 4 / 64
"""Bytes of a weight in 4 bits: with double quantisation (64 weights share a scale of 8 bits, 256
scales one of 32 bits), and with scales of 32 bits."""
_GRAPHS = 1.5e9
"""Bytes of vLLM's CUDA graphs, which are not in its share of the memory."""
_ACCURACY = 0.15
"""Relative error of the estimate, with gaps between tensors."""
_GROWING = 2.25
"""A full cache doubles, and the old one stays until its keys and values are copied."""
_PROMPT = {"nano": (8, 48), "azr": (330, 170), "azr-chat": (370, 170)}
"""By template: tokens of a prompt without its tasks, and of a task."""
_LONG = 2.5
"""Length of a long task in mean lengths: Absolute Zero's tasks have 160 tokens of a small model in
the mean, one in twenty has more than 400."""


@dataclass(frozen=True)
class Rows:
    """Rows of one role in a step, and their lengths in tokens; `samples` rows share a prompt."""

    count: int
    prompt: int
    longest_prompt: int
    limit: int
    samples: int = 1

    @property
    def longest(self) -> int:
        """Longest prompt and completion."""
        return self.longest_prompt + self.limit


@dataclass(frozen=True)
class Workload:
    """The texts that one step samples.

    attempts: at the step's tasks; compared: number of those of the base and of rivals at the same
    tasks; replayed: of the attempts at earlier tasks, from which alone an agent learns to solve.
    """

    proposals: Rows
    attempts: Rows
    members: int
    compared: int = 0
    replayed: int = 0

    @property
    def solving(self) -> Rows:
        """All attempts, which are sampled together."""
        return replace(self.attempts, count=self.attempts.count + self.compared + self.replayed)

    @property
    def sampled(self) -> tuple[Rows, ...]:
        """Proposals, unless tasks come from a file, and all attempts."""
        return (self.proposals, self.solving) if self.proposals.count else (self.solving,)

    @property
    def parts(self) -> tuple[Rows, ...]:
        """Proposals and attempts that members learn from."""
        if self.replayed:
            return self.proposals, replace(self.attempts, count=self.replayed, samples=1)
        return (self.proposals, self.attempts) if self.proposals.count else (self.attempts,)


@dataclass(frozen=True)
class MemoryPlan:
    """The estimate for a run.

    memory: by part, on each worker; upper_bound: the peak with gaps and CUDA graphs; fits: whether
    the device has that. checkpoints: bytes of the kept ones and of one being written.
    """

    model: str
    machine: Machine
    parameters: int
    adapter_parameters: int
    memory: Mapping[str, float]
    learning: float
    sampling: float
    peak: float
    upper_bound: float
    fits: bool
    step: Workload
    checkpoint: float
    checkpoints: float
    workers: int = 1


def workload(config: Config) -> Workload:
    """Return the texts of a step of this configuration."""
    r = config.rollout
    references = 1 if config.template == "nano" else r.num_references
    words, task = _PROMPT[config.template]
    bound = r.max_prompt_length or math.inf
    longest = round(words + references * task * (_LONG if references == 1 else 1.5))
    matches = max(len(config.proposers), len(config.solvers))
    tasks = matches * len(r.kinds) * r.proposals
    proposals = Rows(
        count=tasks if config.proposers else 0,
        prompt=words + references * task,
        longest_prompt=int(min(bound, longest)),
        limit=r.max_proposal_length,
    )
    attempts = Rows(
        count=tasks * r.num_generations,
        prompt=words // 3 + task,
        longest_prompt=int(min(bound, round(words // 3 + task * _LONG))),
        limit=r.max_completion_length,
        samples=r.num_generations,
    )
    needs = needed_by(TEACHER_REWARDS.get(config.reward.teacher)) if config.proposers else ()
    of_base = tasks if "base" in needs else min(tasks, matches * config.eval.same_tasks)
    compared = (of_base + tasks * ("rival" in needs)) * r.num_generations
    replayed = tasks if config.proposers == config.solvers else 0
    return Workload(proposals, attempts, len(config.founders), compared, replayed)


def activations(model: Architecture, config: Config, tokens: int) -> float:
    """Return the bytes that one layer keeps of these tokens for the backward pass.

    In the base's dtype: the residual stream before both norms and after, the attention's result,
    queries, keys, values, the feed-forward part's gate, the other factor and their product, and
    each adapted layer's A x. In float32: the scales of both norms, and a log-sum for each head.
    """
    adapted = sum(name in config.learner.target_modules for name, _, _ in model.linears)
    r = adapted // max(1, model.layers) * config.learner.r
    wide = 4 * model.hidden + 2 * model.query + 2 * model.key + 3 * model.inner + r
    return tokens * (BYTES[config.dtype] * wide + FLOAT32 * (model.heads + 2))


def micro_batch(rows: Rows, budget: int) -> tuple[int, int]:
    """Return all tokens, and the completion tokens, of the largest micro-batch of these rows.

    Rows have any length up to the longest, so a batch may fill its budget; a longer row is alone.
    """
    tokens = min(rows.count * rows.longest, max(budget, rows.longest))
    return tokens, tokens * rows.limit // rows.longest


def learner_parts(
    model: Architecture, config: Config, step: Workload, machine: Machine, workers: int = 1
) -> dict[str, float]:
    """Return the bytes of an update at its largest micro-batch, without base and adapters, by part.

    Each of several workers has the gradients of its shards' members, and the moments of all. The
    output layer holds float32 tables [tokens, vocabulary]: three in the backward pass if there is
    one chunk; four of a chunk if there are several, and the gradient of each hidden state.
    """
    from lora_evo.model import chunk_tokens

    learner, entry = config.learner, BYTES[config.dtype]
    chunk = learner.logits_chunk_tokens or chunk_tokens(model.vocabulary)
    adapter, members = FLOAT32 * model.adapter_parameters(learner), step.members
    largest = {"activations": 0.0, "output layer": 0.0}
    for rows in step.parts:
        tokens, completed = micro_batch(rows, learner.micro_batch_tokens)
        layer = activations(model, config, tokens)
        state = model.layers * layer
        # Gradients in the backward pass through the widest part of a layer.
        moving: float = 2 * tokens * model.inner * entry
        if learner.gradient_checkpointing:
            # The input of every layer and the result of its attention stay. The rest is computed
            # again, one layer at a time, when the tables of the output layer are freed.
            input_and_attention = (model.hidden + model.query) * entry
            state = model.layers * tokens * (input_and_attention + FLOAT32 * model.heads)
            moving += layer
        entries = completed * (3 * model.vocabulary + model.hidden)
        if completed > chunk:
            entries = 4 * chunk * model.vocabulary + 2 * completed * model.hidden
        output = FLOAT32 * entries
        parts = {"activations": state + max(0.0, moving - output), "output layer": output}
        largest = max(largest, parts, key=lambda parts: sum(parts.values()))
    offloaded = learner.optimizer_offload and machine.is_gpu
    on_worker = min(members, -(-members // workers) + (workers > 1))
    return {
        "gradients": adapter * on_worker + 2 * adapter,
        "optimiser": 0.0 if offloaded else 2 * adapter * members,
        "adapters stacked for a pass": adapter / FLOAT32 * entry * members,
        **largest,
    }


def sampler_parts(
    model: Architecture, config: Config, step: Workload, machine: Machine
) -> tuple[float, float, float]:
    """Return the bytes of the sampler's weights and cache, and those that stay during an update.

    Weights: a second copy of the base, in vLLM, spread over tensor_parallel_size GPUs.
    """
    dtype = BYTES[config.dtype]
    if config.engine == "vllm":
        adapters = (step.members + 1) * model.adapter_parameters(config.learner)
        gpus = config.vllm.tensor_parallel_size
        weights = (model.parameters + adapters) * dtype / gpus
        share = config.vllm.gpu_memory_utilization * machine.memory
        free = max(share - weights, 0.0) if machine.is_gpu else 2.0**30
        longest = model.cache * dtype * max(rows.longest for rows in step.sampled) / gpus
        cache = max(free, longest)
        sleeps = machine.is_gpu and config.vllm.sleep
        return weights, cache, weights + (0.0 if sleeps else cache)
    positions = max(decoded_together(config, step, r) * r.longest for r in step.sampled)
    return 0.0, _GROWING * model.cache * dtype * positions, 0.0


def sampled_members(step: Workload) -> int:
    """Return how many members are sampled at once: those of one role."""
    return max(1, step.members // 2)


def decoded_together(config: Config, step: Workload, rows: Rows) -> int:
    """Return how many rows the engine decodes together, if half of the members are in a role."""
    count = rows.count
    if config.pieces and config.engine == "hf":
        members = sampled_members(step)
        count //= members if config.pieces == 1 else even(min(batches(count), config.pieces))
    return max(1, min(config.rollout.max_rows, count))


def four_bits(model: Architecture, config: Config) -> tuple[int, float]:
    """Return the number of the base's weights in 4 bits, and their bytes."""
    entries = model.four_bit
    if config.load_in_4bit and not entries:
        entries = sum(i * o for _, i, o in model.linears)
    return entries, entries * (_NF4 if model.double else _SINGLE)


def base_parts(model: Architecture, config: Config) -> dict[str, float]:
    """Return the bytes of the base by part; in 4 bits also of two layers dequantised at a time."""
    size, (entries, stored) = BYTES[config.dtype], four_bits(model, config)
    plain = float((model.parameters - entries) * size)
    if not entries:
        return {f"base ({config.dtype})": plain}
    widest = max(i * o for _, i, o in model.linears)
    return {"base (4-bit)": plain + stored, "two layers of it dequantised": 2.0 * widest * size}


def make_plan(
    config: Config, model: Architecture, machine: Machine, workers: int = 1
) -> MemoryPlan:
    """Return the plan of a configuration for this device, or for each of several workers' ones."""
    step = workload(config)
    adapter = FLOAT32 * model.adapter_parameters(config.learner)
    weights, cache, idle = sampler_parts(model, config, step, machine)
    second_process = machine.is_gpu and config.engine == "vllm"
    constant = {
        **base_parts(model, config),
        "adapters (float32)": float(adapter * step.members),
        "process and libraries": _LIBRARIES[machine.is_gpu] * (1 + second_process),
    }
    work = learner_parts(model, config, step, machine, workers)
    engine = {"vLLM: weights and adapters": weights} if config.engine == "vllm" else {}
    learning = sum(constant.values()) + sum(work.values()) + idle
    sampling = sum(constant.values()) + work["optimiser"] + weights + cache
    if config.engine == "hf":
        sampling += work["adapters stacked for a pass"] * sampled_members(step) / step.members
    graphs = _GRAPHS * (second_process and not config.vllm.enforce_eager)
    moving = sum(work.values()) - work["optimiser"]
    growing = cache * (config.engine == "hf")
    upper_bound = graphs + max(learning + _ACCURACY * moving, sampling + _ACCURACY * growing)
    checkpoint = 3.0 * adapter * step.members  # weights and two moments
    return MemoryPlan(
        model=model.name,
        machine=machine,
        parameters=model.parameters,
        adapter_parameters=adapter // FLOAT32,
        memory={**constant, **work, **engine, "cache": cache},
        learning=learning,
        sampling=sampling,
        peak=max(learning, sampling),
        upper_bound=upper_bound,
        fits=upper_bound <= machine.memory,
        step=step,
        checkpoint=checkpoint,
        checkpoints=checkpoint * (config.keep_checkpoints + 1),
        workers=workers,
    )


def plan_run(config: Config, card: str | None, workers: int | None = None) -> MemoryPlan:
    """Return the plan for a GPU (card: its name, or GiB), or for this machine's device.

    workers: each has such a GPU, or its part of this machine's memory. Raises ConfigError or
    LoraEvoError, one line, for a configuration that cannot run there.
    """
    machine = gpu(card) if card else this_machine(config.device, config.threads)
    devices.refuse_float32(config, machine.is_gpu)
    model, count = read_architecture(config.base), workers or 1
    if model.four_bit:
        devices.refuse_four_bits(config)
    if workers is not None:
        devices.refuse_spread_base(config)
        config = for_workers(config)
    if not machine.is_gpu and count > 1:
        name = f"its part of {machine.name}"
        machine = replace(machine, name=name, memory=machine.memory / count)
    return make_plan(config, model, machine, count)


def verdict(plan: MemoryPlan) -> str:
    """Return one line: whether the run fits."""
    low, high, memory = (b / GIB for b in (plan.peak, plan.upper_bound, plan.machine.memory))
    fits = "fits" if plan.fits else "may not fit" if low <= memory else "does not fit"
    who = f"each of {plan.workers} workers with " if plan.workers > 1 else ""
    text = f"{who}{plan.model} needs {low:.1f} to {high:.1f} GiB and {fits} {plan.machine.name} "
    return f"{text}({memory:.1f} GiB)" + ("" if plan.fits else f"; {SMALLER}")


def to_text(plan: MemoryPlan) -> str:
    """Return the tables of a plan as text."""
    whose, step = f", of each of {plan.workers} workers" if plan.workers > 1 else "", plan.step
    phases = {"while learning": plan.learning, "while sampling": plan.sampling}
    disk = {"a checkpoint": plan.checkpoint, "kept ones, and one in writing": plan.checkpoints}
    tables = {f"memory, GiB{whose}": {**plan.memory, **phases}, "disk, GiB": disk}
    lines = [
        f"{plan.model}: {plan.parameters:,} parameters, {step.members} adapters of "
        f"{plan.adapter_parameters:,}; at most {step.proposals.count:,} proposals and "
        f"{step.solving.count:,} attempts a step ({step.parts[-1].count:,} to learn from)"
    ]
    for title, table in tables.items():
        lines += ["", title, *(f"  {name:30}{size / GIB:8.2f}" for name, size in table.items())]
    return "\n".join([*lines, "", verdict(plan)])


def refuse_what_cannot_fit(config: Config) -> None:
    """Raise ConfigError for a run that does not fit even if the estimate is too large.

    An unknown shape of the base, or a missing device, is an error when the base is loaded.
    """
    devices.set_allocator(config)
    try:
        plan = plan_run(config, None)
    except (ConfigError, LoraEvoError):
        return
    if plan.peak * (1 - _ACCURACY) > plan.machine.memory:
        raise ConfigError(f"{verdict(plan)}; or `selfplay train --force`")
