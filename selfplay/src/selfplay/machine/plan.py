"""What a run takes in memory, on each worker, and a checkpoint on disk, before anything loads.

Reads the configuration and the base's config.json, no weights. Sizes are in bytes. Rows and tokens
are upper bounds: every proposal valid, every micro-batch full of the longest rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lora_evo import LoraEvoError
from selfplay.config import Config, LearnerConfig, for_workers, refuse_hasty_evolution
from selfplay.errors import ConfigError
from selfplay.learning.batch import batches, even
from selfplay.machine.architecture import Architecture, read_architecture
from selfplay.machine.devices import (
    GIB,
    Machine,
    gpu,
    refuse_float32,
    refuse_four_bits,
    refuse_spread_base,
    set_allocator,
    this_machine,
)

FLOAT32 = 4
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
SMALLER = (
    "try --set learner.gradient_checkpointing=true, a lower learner.micro_batch_tokens or "
    "rollout.max_rows, or a smaller base (docs/gpu.md has more)"
)
_LIBRARIES = {True: 0.7e9, False: 0.4e9}
"""Interpreter, libraries and, on a GPU, the driver's context."""
_NF4, _SINGLE = 0.5 + 1 / 64 + 4 / (64 * 256), 0.5 + 4 / 64
"""Bytes of a weight in 4 bits: 64 share a scale, of 8 bits, of which 256 share one of 32; and with
scales of 32 bits alone."""
_GRAPHS, _ACCURACY = 1.5e9, 0.15
"""What vLLM's CUDA graphs may take besides its share; by which share a real peak may differ from
what is counted, with gaps between tensors."""
_GROWING = 2.25
"""A cache that is full doubles, and what it was stays until keys and values are copied."""
_PROMPT = {"nano": (8, 48), "azr": (330, 170), "azr-chat": (370, 170)}
_LONG = 2.5
"""Tokens of a prompt without tasks, and of a task that it shows; how many times longer a long task
is. Of Absolute Zero's tasks the mean is 160 tokens of a small model, one in twenty above 400."""


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
    """The texts that one step generates."""

    proposals: Rows
    attempts: Rows
    members: int

    @property
    def parts(self) -> tuple[Rows, ...]:
        """Proposals, of which tasks of a file need none, and attempts."""
        return (self.proposals, self.attempts) if self.proposals.count else (self.attempts,)


@dataclass(frozen=True)
class MemoryPlan:
    """What a run takes; upper_bound: the peak with gaps and graphs; fits: whether that is there.

    memory: by part, of each of `workers`. checkpoints: bytes of those kept, and of one in writing.
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
    """Return the step of a configuration."""
    r, single = config.rollout, config.mode == "azr"
    shown = 1 if config.template == "nano" else r.num_references
    words, task = _PROMPT[config.template]
    bound = r.max_prompt_length or math.inf
    longest = round(words + shown * task * (_LONG if shown == 1 else 1.5))
    tasks = (1 if single else max(config.teachers, config.students)) * len(r.kinds) * r.proposals
    proposals = Rows(
        count=tasks if r.tasks is None else 0,
        prompt=words + shown * task,
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
    return Workload(proposals, attempts, len(config.founders))


def activations(model: Architecture, learner: LearnerConfig, dtype: str, tokens: int) -> float:
    """Return what one layer keeps of so many tokens for the backward pass.

    In the base's dtype: the residual stream before both norms and after, the attention's result,
    queries, keys, values, the feed-forward part's gate, the other factor and their product, and
    each adapted layer's A x. In float32: the scales of both norms, and a log-sum a head.
    """
    adapted = sum(name in learner.target_modules for name, _, _ in model.linears)
    r = adapted // max(1, model.layers) * learner.r
    wide = 4 * model.hidden + 2 * model.query + 2 * model.key + 3 * model.inner + r
    return tokens * (BYTES[dtype] * wide + FLOAT32 * (model.heads + 2))


def micro_batch(rows: Rows, budget: int) -> tuple[int, int]:
    """Return tokens, and completion tokens among them, of the largest micro-batch of such rows.

    Rows are of any length up to the longest, so a batch may fill its budget; a longer row is alone.
    """
    tokens = min(rows.count * rows.longest, max(budget, rows.longest))
    return tokens, tokens * rows.limit // rows.longest


def rows_in_budget(rows: Rows, budget: int) -> tuple[int, int, int]:
    """Return how many equal rows fill it, and the prompt and completion tokens of each."""
    tokens, answered = micro_batch(rows, budget)
    count = -(-tokens // rows.longest)
    return count, (tokens - answered) // count, answered // count


def learner_parts(
    model: Architecture, learner: LearnerConfig, dtype: str, step: Workload, workers: int = 1
) -> dict[str, float]:
    """Return what an update takes at its largest micro-batch, without the base and the adapters.

    Of several workers each has the gradients of its shards' members, and the moments of all.

    The output layer holds float32 tables [tokens, vocabulary]: three in the backward pass of one
    chunk, four in that of one chunk of several, and then the gradient of each hidden state.
    """
    from lora_evo.model import chunk_tokens

    chunk = learner.logits_chunk_tokens or chunk_tokens(model.vocabulary)
    adapter, members = FLOAT32 * model.adapter_parameters(learner), step.members
    largest = {"activations": 0.0, "output layer": 0.0}
    for rows in step.parts:
        tokens, answered = micro_batch(rows, learner.micro_batch_tokens)
        layer = activations(model, learner, dtype, tokens)
        state = model.layers * layer
        # Gradients on their way back through the widest part of a layer.
        moving: float = 2 * tokens * model.inner * BYTES[dtype]
        if learner.gradient_checkpointing:
            # The input of every layer stays, and the result of its attention; the rest comes back
            # for one layer at a time, when the tables of the output layer are gone.
            input_and_attention = (model.hidden + model.query) * BYTES[dtype]
            state = model.layers * tokens * (input_and_attention + FLOAT32 * model.heads)
            moving += layer
        entries = answered * (3 * model.vocabulary + model.hidden)
        if answered > chunk:
            entries = 4 * chunk * model.vocabulary + 2 * answered * model.hidden
        output = FLOAT32 * entries
        parts = {"activations": state + max(0.0, moving - output), "output layer": output}
        largest = max(largest, parts, key=lambda of: sum(of.values()))
    stacked = adapter / FLOAT32 * BYTES[dtype] * members
    here = min(members, -(-members // workers) + (workers > 1))
    return {
        "gradients": adapter * here + 2 * adapter,
        "optimiser": 0.0 if learner.optimizer_offload else 2 * adapter * members,
        "adapters stacked for a pass": stacked,
        **largest,
    }


def sampler_parts(
    model: Architecture, config: Config, step: Workload, machine: Machine
) -> tuple[float, float, float]:
    """Return weights and cache of the sampler, and what of both stays during an update.

    Weights are a second copy of the base (vLLM, spread over tensor_parallel_size cards).
    """
    dtype = BYTES[config.dtype]
    if config.engine == "vllm":
        adapters = (step.members + 1) * model.adapter_parameters(config.learner)
        cards = config.vllm.tensor_parallel_size
        weights = (model.parameters + adapters) * dtype / cards
        share = config.vllm.gpu_memory_utilization * machine.memory
        free = max(share - weights, 0.0) if machine.is_gpu else 2.0**30
        longest = model.cache * dtype * max(rows.longest for rows in step.parts) / cards
        cache = max(free, longest)
        sleeps = machine.is_gpu and config.vllm.sleep
        return weights, cache, weights + (0.0 if sleeps else cache)
    positions = max(decoded_together(config, step, rows) * rows.longest for rows in step.parts)
    return 0.0, _GROWING * model.cache * dtype * positions, 0.0


def decoded_together(config: Config, step: Workload, rows: Rows) -> int:
    """Return how many rows the engine decodes together; half of the members are in a role."""
    count = rows.count
    if config.pieces and config.engine == "hf":
        apart = max(1, step.members // 2)
        count //= apart if config.pieces == 1 else even(min(batches(count), config.pieces))
    return max(1, min(config.rollout.max_rows, count))


def four_bits(model: Architecture, config: Config) -> tuple[int, float]:
    """Return how many weights of the base are in 4 bits, and the bytes that they take."""
    entries = model.four_bit
    if config.load_in_4bit and not entries:
        entries = sum(i * o for _, i, o in model.linears)
    return entries, entries * (_NF4 if model.double else _SINGLE)


def base_parts(model: Architecture, config: Config) -> dict[str, float]:
    """Return what the weights of the base take; in 4 bits, with a dense layer and the one before,
    which is not gone yet."""
    size, (entries, stored) = BYTES[config.dtype], four_bits(model, config)
    plain = float((model.parameters - entries) * size)
    if not entries:
        return {f"base ({config.dtype})": plain}
    widest = max(i * o for _, i, o in model.linears)
    return {"base (4-bit)": plain + stored, "two layers of it dequantised": 2.0 * widest * size}


def make_plan(
    config: Config, model: Architecture, machine: Machine, workers: int = 1
) -> MemoryPlan:
    """Return what a run of this configuration takes on this device, or on each of several."""
    dtype, step = config.dtype, workload(config)
    offload = config.learner.optimizer_offload and machine.is_gpu
    adapter = FLOAT32 * model.adapter_parameters(config.learner)
    weights, cache, kept = sampler_parts(model, config, step, machine)
    on_gpu, apart = machine.is_gpu, machine.is_gpu and config.engine == "vllm"
    held = {
        **base_parts(model, config),
        "adapters (float32)": float(adapter * step.members),
        "process and libraries": _LIBRARIES[on_gpu] * (1 + apart),
    }
    learner = replace(config.learner, optimizer_offload=offload)
    work = learner_parts(model, learner, dtype, step, workers)
    engine = {"vLLM: weights and adapters": weights} if config.engine == "vllm" else {}
    learning = sum(held.values()) + sum(work.values()) + kept
    sampling = sum(held.values()) + work["optimiser"] + weights + cache
    graphs = _GRAPHS * (apart and not config.vllm.enforce_eager)
    moving = sum(work.values()) - work["optimiser"]
    growing = cache * (config.engine == "hf")
    upper_bound = graphs + max(learning + _ACCURACY * moving, sampling + _ACCURACY * growing)
    checkpoint = 3.0 * adapter * step.members  # weights and two moments
    return MemoryPlan(
        model=model.name,
        machine=machine,
        parameters=model.parameters,
        adapter_parameters=adapter // FLOAT32,
        memory={**held, **work, **engine, "cache": cache},
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
    """Return the plan for a GPU, or for the device found here.

    workers: each with a GPU of this kind, or a part of this machine's memory. Raises ConfigError or
    LoraEvoError, one line, for what cannot run there.
    """
    refuse_hasty_evolution(config)
    machine = gpu(card) if card else this_machine(config.device, config.threads)
    refuse_float32(config, machine.is_gpu)
    model, count = read_architecture(config.base), workers or 1
    if model.four_bit:
        refuse_four_bits(config)
    if workers is not None:
        refuse_spread_base(config)
        config = for_workers(config)
    if not machine.is_gpu and count > 1:
        name = f"its part of {machine.name}"
        machine = replace(machine, name=name, memory=machine.memory / count)
    return make_plan(config, model, machine, count)


def verdict(plan: MemoryPlan) -> str:
    """Return one line: whether the run fits."""
    low, high, there = (b / GIB for b in (plan.peak, plan.upper_bound, plan.machine.memory))
    fits = "fits" if plan.fits else "may not fit" if low <= there else "does not fit"
    each = f"each of {plan.workers} workers with " if plan.workers > 1 else ""
    text = f"{each}{plan.model} needs {low:.1f} to {high:.1f} GiB and {fits} {plan.machine.name} "
    return f"{text}({there:.1f} GiB)" + ("" if plan.fits else f"; {SMALLER}")


def to_text(plan: MemoryPlan) -> str:
    """Return the table of a plan."""
    each = f", of each of {plan.workers} workers" if plan.workers > 1 else ""
    moments = {"while learning": plan.learning, "while sampling": plan.sampling}
    disk = {"a checkpoint": plan.checkpoint, "those kept, and one in writing": plan.checkpoints}
    tables = {f"memory, GiB{each}": {**plan.memory, **moments}, "disk, GiB": disk}
    step = plan.step
    lines = [
        f"{plan.model}: {plan.parameters:,} parameters, {step.members} adapters of "
        f"{plan.adapter_parameters:,}; at most {step.proposals.count:,} proposals and "
        f"{step.attempts.count:,} attempts a step"
    ]
    for title, table in tables.items():
        lines += ["", title, *(f"  {name:30}{size / GIB:8.2f}" for name, size in table.items())]
    return "\n".join([*lines, "", verdict(plan)])


def refuse_what_cannot_fit(config: Config) -> None:
    """Raise ConfigError for a run that does not fit even if the estimate is too large.

    A base whose shape is not known, or a device that is not there, fails when it is loaded.
    """
    set_allocator(config)
    try:
        plan = plan_run(config, None)
    except (ConfigError, LoraEvoError):
        return
    if plan.peak * (1 - _ACCURACY) > plan.machine.memory:
        raise ConfigError(f"{verdict(plan)}; or `selfplay train --force`")
