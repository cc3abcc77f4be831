"""What a run will take in memory, time and disk, before anything loads.

Reads the configuration and the base's config.json, no weights. Sizes are in bytes. Rows and tokens
are upper bounds: every proposal valid, every micro-batch full of the longest rows. Seconds are
arithmetic from a fast end to a slow one: of rates, and of what completions have of their limits.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from lora_evo import LoraEvoError
from selfplay.architecture import Architecture, read_architecture
from selfplay.config import Config, LearnerConfig, read_config
from selfplay.devices import GIB, Machine, gpu, this_machine
from selfplay.directory import CONFIG, METRICS
from selfplay.errors import ConfigError
from selfplay.rewards import TEACHER_REWARDS, needed_by, populora
from selfplay.rows import StepRow, read_rows
from selfplay.settings import override

FLOAT32 = 4
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
Ends = tuple[float, float]
FILL = (0.15, 0.5)
"""Shares of its limit that a completion has, from short closed answers to thinking aloud; one of a
model that never closes an answer has 1."""
FILES, PUBLISHED, BRED, SAVED = (2e9, 0.3e9), 4, 16, 12
"""Bytes of adapters a second that are copied, hashed, written or read, measured in processor time
and on a busy machine; how many times an adapter is, by what happens to it."""
TRANSFERRED = (20e9, 3e9)
"""Bytes a second between main memory and a GPU: assumptions, for 16 lanes of PCIe."""
CHANGES = (
    "learner.noise_groups=0",
    "learner.gradient_checkpointing=true",
    *(f"learner.micro_batch_tokens={n}" for n in (4096, 2048, 1024)),
    "rollout.merge_rows=0",
    *(f"rollout.max_rows={n}" for n in (64, 16, 4)),
    *(f"vllm.gpu_memory_utilization={share}" for share in (0.4, 0.3, 0.25)),
    "learner.optimizer_offload=true",
    "dtype=bfloat16",
    *(
        f"rollout.max_proposal_length={n} rollout.max_completion_length={n} "
        f"learner.micro_batch_tokens={n}"
        for n in (2048, 1024)
    ),
    *(f"learner.r={r}" for r in (16, 8)),
    *(f"teachers={n} students={n}" for n in (4, 2, 1)),
)
"""What makes a run smaller, in the order of its cost: nothing, time, precision, what the run is."""
_LIBRARIES = {True: 0.7e9, False: 0.4e9}
"""Interpreter, libraries and, on a GPU, the driver's context."""
_GRAPHS, _ACCURACY = 1.5e9, 0.15
"""What vLLM's CUDA graphs may take besides its share; by which share a real peak may differ from
what is counted, with gaps between tensors."""
_GROWING = 2.25
"""A cache that is full doubles, and what it was stays until keys and values are copied."""
_PROMPT = {"nano": (8, 48), "nano-niches": (4, 6), "azr": (330, 170), "azr-chat": (370, 170)}
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
    def parts(self) -> tuple[Rows, Rows]:
        """Proposals and attempts."""
        return self.proposals, self.attempts


@dataclass(frozen=True)
class Plan:
    """What a run takes; most: the peak with gaps and graphs; fits: whether the device has that.

    seconds: by phase at the slow end, of what is not in every step its share; disk: at the end;
    beside: bytes of main memory beside a GPU, and of Ray's object store;
    faster: what spares the learner its second pass over the layers, where that fits.
    """

    model: str
    machine: Machine
    parameters: int
    adapter_parameters: int
    memory: Mapping[str, float]
    learning: float
    sampling: float
    peak: float
    most: float
    fits: bool
    step: Workload
    fill: Ends
    least_seconds: Mapping[str, float]
    seconds: Mapping[str, float]
    disk: Mapping[str, float]
    faster: tuple[str, ...] = ()
    beside: Mapping[str, float] = field(default_factory=dict)


def workload(config: Config) -> Workload:
    """Return the step of a configuration."""
    r, single = config.rollout, config.mode == "azr"
    shown = 1 if config.template.startswith("nano") else r.num_references
    words, task = _PROMPT[config.template]
    bound = r.max_prompt_length or math.inf
    longest = round(words + shown * task * (_LONG if shown == 1 else 1.5))
    proposals = Rows(
        count=(1 if single else max(config.teachers, config.students)) * len(r.kinds) * r.proposals,
        prompt=words + shown * task,
        longest_prompt=int(min(bound, longest)),
        limit=r.max_proposal_length,
    )
    attempts = Rows(
        count=proposals.count * r.num_generations,
        prompt=words // 3 + task,
        longest_prompt=int(min(bound, round(words // 3 + task * _LONG))),
        limit=r.max_completion_length,
        samples=r.num_generations,
    )
    return Workload(proposals, attempts, 1 if single else config.teachers + config.students)


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


def fullest(rows: Rows, budget: int) -> tuple[int, int, int]:
    """Return how many equal rows fill it, and the prompt and completion tokens of each."""
    tokens, answered = micro_batch(rows, budget)
    count = -(-tokens // rows.longest)
    return count, (tokens - answered) // count, answered // count


def learner_parts(
    model: Architecture, learner: LearnerConfig, dtype: str, step: Workload
) -> dict[str, float]:
    """Return what an update takes at its largest micro-batch, without the base and the adapters.

    The output layer holds float32 tables [tokens, vocabulary]: three in the backward pass of one
    chunk, four in that of one chunk of several, and then the gradient of each hidden state.
    """
    from selfplay.learning.output_layer import chunk_tokens

    chunk = learner.logits_chunk_tokens or chunk_tokens(model.vocabulary)
    adapter, members = FLOAT32 * model.adapter_parameters(learner), step.members
    # The gradients of each group of a batch are kept until their spread is known.
    groups = learner.noise_groups * (2 if members == 1 else 1)
    kept = adapter * members * (groups + 1 if groups else 1)
    largest = {"activations": 0.0, "output layer": 0.0}
    for rows in step.parts:
        tokens, answered = micro_batch(rows, learner.micro_batch_tokens)
        layer = activations(model, learner, dtype, tokens)
        held = model.layers * layer
        # Gradients on their way back through the widest part of a layer.
        moving: float = 2 * tokens * model.inner * BYTES[dtype]
        if learner.gradient_checkpointing:
            # The input of every layer stays, and the result of its attention; the rest comes back
            # for one layer at a time, when the tables of the output layer are gone.
            input_and_attention = (model.hidden + model.query) * BYTES[dtype]
            held = model.layers * tokens * (input_and_attention + FLOAT32 * model.heads)
            moving += layer
        entries = answered * (3 * model.vocabulary + model.hidden)
        if answered > chunk:
            entries = 4 * chunk * model.vocabulary + 2 * answered * model.hidden
        output = FLOAT32 * entries
        found = {"activations": held + max(0.0, moving - output), "output layer": output}
        largest = max(largest, found, key=lambda parts: sum(parts.values()))
    stacked = adapter / FLOAT32 * BYTES[dtype] * members
    return {
        "gradients": kept + (3 * adapter if groups else 2 * adapter),
        "optimiser": 0.0 if learner.optimizer_offload else 2 * adapter * members,
        "adapters stacked for a pass": stacked,
        **largest,
    }


def sampler_parts(
    model: Architecture, config: Config, step: Workload, machine: Machine
) -> tuple[float, float, float]:
    """Return weights and cache of the sampler, and what of both stays during an update.

    Weights are a second copy of the base (vLLM, spread over tensor_parallel_size cards), or what
    members are merged into (hf).
    """
    dtype = BYTES[config.dtype]
    if config.engine == "vllm":
        adapters = (step.members + 1) * model.adapter_parameters(config.learner)
        cards = config.vllm.tensor_parallel_size
        weights = (model.parameters + adapters) * dtype / cards
        share = config.vllm.gpu_memory_utilization * machine.memory
        free = max(share - weights, 0.0) if machine.is_gpu else 2.0**30
        longest = model.cache * dtype * max(rows.longest for rows in step.parts) / cards
        cache = max(float(config.vllm.kv_cache_memory_bytes or free), longest)
        sleeps = machine.is_gpu and config.vllm.sleep
        return weights, cache, weights + (0.0 if sleeps else cache)
    batches = [decoded_together(config, step, rows) for rows in step.parts]
    targets = config.learner.target_modules
    merged = sum(i * o for name, i, o in model.linears if name in targets) * dtype
    positions = max(n * rows.longest for rows, (n, _) in zip(step.parts, batches, strict=True))
    growing = _GROWING * model.cache * dtype * positions
    return float(merged * max(copies for _, copies in batches)), growing, 0.0


def decoded_together(config: Config, step: Workload, rows: Rows) -> tuple[int, int]:
    """Return how many rows the engine decodes together, and in how many merged copies of the base.

    By hf, half of the members take part in a role; with many rows they, and the base, have a copy
    and a batch each.
    """
    half, r = max(1, step.members // 2), config.rollout
    mine = rows.count // half
    if config.engine == "hf" and 0 < r.merge_rows <= mine:
        return half * min(r.max_rows, mine), half + 1
    return max(1, min(r.max_rows, rows.count)), 0


def step_seconds(
    model: Architecture,
    config: Config,
    step: Workload,
    machine: Machine,
    share: float,
    *,
    slow: bool,
) -> dict[str, float]:
    """Return seconds of a step by phase; share: of its limit that a completion has.

    A token costs two operations a parameter to read or write; to learn from, four (frozen weights
    have no gradients), and six where activations are computed twice. At the slow end every batch
    waits for one completion that runs to its limit. What a reward of one's own needs of the base or
    of a rival is not counted.
    """
    r, e, learner, dtype = config.rollout, config.eval, config.learner, BYTES[config.dtype]
    vllm, pair = config.engine == "vllm", 2 * model.parameters
    flops, reads = machine.reached(eager=not vllm, slow=slow)
    _, cache, _ = sampler_parts(model, config, step, machine)

    def sampling(rows: Rows, count: int) -> float:
        length, (batch, copies) = rows.limit * share, decoded_together(config, step, rows)
        waves = math.ceil(count / batch)
        if vllm:  # a place is filled as soon as its row has ended
            held = int(cache / (model.cache * dtype * (rows.prompt + length)))
            batch, waves = max(1, min(batch, held)), 1
        batch = min(batch, max(1, count))
        entries = (
            model.parameters * max(1, copies) + batch * (rows.prompt + length / 2) * model.cache
        )
        together = dtype * entries / reads + batch * pair / flops
        prompts = pair * rows.prompt * count / rows.samples / flops
        waiting = waves * (rows.limit - length) * dtype * model.parameters / reads
        return prompts + count * length / batch * together + waiting * (slow and count > 0)

    proposed, tried = step.parts
    single, again = config.mode == "azr", proposed.count * (r.train_on == "buffer")
    matches = proposed.count // (len(r.kinds) * r.proposals)
    needs = needed_by(TEACHER_REWARDS.get(config.reward.teacher, populora))
    sampled = proposed.count if "base" in needs else min(matches * e.same_tasks, proposed.count)
    others = (sampled + proposed.count * ("rival" in needs)) * r.num_generations
    learned = proposed.count * (proposed.prompt + proposed.limit * share)
    learned += (again or tried.count) * (tried.prompt + tried.limit * share)
    passes = (2 + learner.gradient_checkpointing + (learner.beta > 0)) * learner.num_iterations
    written = e.proposals * len(r.kinds) * (1 if single else config.teachers)
    held_out = e.tasks * e.samples * (1 if single else config.students)
    measured = sampling(proposed, written) + sampling(tried, written * e.attempts + held_out)
    whole = FLOAT32 * model.adapter_parameters(learner)
    adapter = whole / FILES[slow]
    # With the optimiser in main memory two moments of every member come and go again.
    moments = 4 * whole * step.members * learner.num_iterations
    moments *= learner.optimizer_offload and machine.is_gpu
    flops = machine.reached(eager=True, slow=slow)[0]
    return {
        "propose": sampling(proposed, proposed.count),
        "solve": sampling(tried, tried.count + again + others),
        "update": pair * learned * passes / flops + moments / TRANSFERRED[slow],
        "evolve": BRED * adapter * born(config) / max(1, config.evolution.evolve_every),
        "weight_sync": PUBLISHED * adapter * step.members * vllm,
        "save": SAVED * adapter * step.members / config.save_every,
        "eval": measured / e.eval_every if e.eval_every else 0.0,
    }


def born(config: Config) -> int:
    """Return the children of one replacement."""
    e = config.evolution
    if config.mode == "azr" or not e.evolve_every:
        return 0
    sizes = (config.teachers, config.students)
    return sum(min(max(1, round(n * e.replaced_fraction)), n - 1) for n in sizes)


def disk(config: Config, adapter: float, members: int) -> dict[str, float]:
    """Return bytes on disk after all steps; parents are those of children, each as it was."""
    e, each = config.evolution, born(config)
    children = dead = each * ((config.steps - 1) // max(1, e.evolve_every))
    if not config.keep_dead:  # an older checkpoint may go on from those before a replacement
        dead, children = min(dead, each), min(dead, members + each)
    kept = {
        "checkpoints, one being written": 3 * adapter * members * (config.keep_checkpoints + 1),
        "living members and dead": adapter * (members + dead),
        "parents as they were": adapter * children * (1 + e.crossover_share),
    }
    return {"a checkpoint": 3 * adapter * members, **kept, "together": sum(kept.values())}


def make_plan(config: Config, model: Architecture, machine: Machine, fill: Ends = FILL) -> Plan:
    """Return what a run of this configuration takes on this device."""
    dtype, step = config.dtype, workload(config)
    offload = config.learner.optimizer_offload and machine.is_gpu
    adapter = FLOAT32 * model.adapter_parameters(config.learner)
    weights, cache, kept = sampler_parts(model, config, step, machine)
    on_gpu, apart = machine.is_gpu, machine.is_gpu and config.engine == "vllm"
    held = {
        f"base ({dtype})": float(model.parameters * BYTES[dtype]),
        "adapters (float32)": float(adapter * step.members),
        "process and libraries": _LIBRARIES[on_gpu] * (1 + apart),
    }
    learner = replace(config.learner, optimizer_offload=offload)
    work = learner_parts(model, learner, dtype, step)
    engine = "vLLM: weights and adapters" if config.engine == "vllm" else "merged members"
    learning = sum(held.values()) + sum(work.values()) + kept
    sampling = sum(held.values()) + work["optimiser"] + weights + cache
    graphs = _GRAPHS * (apart and not config.vllm.enforce_eager)
    moving = sum(work.values()) - work["optimiser"]
    growing = cache * (config.engine == "hf")
    most = graphs + max(learning + _ACCURACY * moving, sampling + _ACCURACY * growing)
    of = (model, config, step, machine)
    fast, slow = (step_seconds(*of, share, slow=at > 0) for at, share in enumerate(fill))
    return Plan(
        model=model.name,
        machine=machine,
        parameters=model.parameters,
        adapter_parameters=adapter // FLOAT32,
        memory={**held, **work, engine: weights, "cache": cache},
        learning=learning,
        sampling=sampling,
        peak=max(learning, sampling),
        most=most,
        fits=most <= machine.memory,
        step=step,
        fill=fill,
        least_seconds=fast,
        seconds=slow,
        disk=disk(config, adapter, step.members),
        beside={"optimiser": 2.0 * adapter * step.members} if offload else {},
    )


def with_changes(config: Config, *assignments: str) -> Config:
    """Return the configuration after some `a.b=value`."""
    data: dict[str, Any] = msgspec.to_builtins(asdict(config))
    for assignment in assignments:
        override(data, assignment)
    return read_config(data)


def smaller(config: Config, model: Architecture, machine: Machine) -> tuple[list[str], Plan]:
    """Return those of `CHANGES` that make the run fit, or all that help, and the plan with them."""
    found: list[str] = []
    plan = make_plan(config, model, machine)
    for change in CHANGES:
        if plan.fits:
            break
        changed = with_changes(config, *change.split())
        less = make_plan(changed, model, machine)
        if less.most < 0.99 * plan.most:
            config, plan = changed, less
            found += change.split()
    return list({text.partition("=")[0]: text for text in found}.values()), plan


def faster(config: Config, model: Architecture, machine: Machine) -> tuple[str, ...]:
    """Return what turns checkpointing off: with as large micro-batches as fit, () where none do."""
    tokens = config.learner.micro_batch_tokens
    longest = max(rows.longest for rows in workload(config).parts)
    while config.learner.gradient_checkpointing and 2 * tokens > longest:
        budget = max(tokens, longest)  # a longer row would be alone
        changes = ("learner.gradient_checkpointing=false", f"learner.micro_batch_tokens={budget}")
        if make_plan(with_changes(config, *changes), model, machine).fits:
            return changes
        tokens //= 2
    return ()


def plan_run(
    config: Config, card: str | None, workers: int = 1, fill: Ends = FILL
) -> tuple[Plan, list[str]]:
    """Return the plan for a GPU, or for the device found here, and the changes that would help."""
    machine = gpu(card) if card else this_machine(config.device, config.threads)
    # The fullest worker; those on a CPU share its memory.
    teachers, students = -(-config.teachers // workers), -(-config.students // workers)
    config = replace(config, teachers=teachers, students=students)
    model = read_architecture(config.base)
    # Ray's store holds every member's adapter and moments, and those before until it has the new.
    members = workload(config).members
    store = 2 * 3 * FLOAT32 * model.adapter_parameters(config.learner) * members * (workers > 1)
    if not machine.is_gpu:
        machine = replace(machine, memory=machine.memory / workers - store)
    plan = make_plan(config, model, machine, fill)
    beside = {**plan.beside, "states in Ray's store": float(store)} if store else plan.beside
    plan = replace(plan, faster=faster(config, model, machine), beside=beside)
    return plan, smaller(config, model, machine)[0]


def measured_fill(run: Path, config: Config) -> float:
    """Return the share of their limits that the completions of a run's steps had in the mean."""
    r, written, limits = config.rollout, 0, 0.0
    for row in read_rows(run / METRICS, StepRow):
        proposed = sum(kind.proposed for kind in row.kinds.values())
        tried = proposed * (row.valid_share or 0.0) + row.same_tasks.tasks
        written += row.tokens.sampled
        limits += proposed * r.max_proposal_length
        limits += tried * r.num_generations * r.max_completion_length
    if not limits:
        raise ConfigError(f"{run} has no step yet; plan for its {CONFIG}, or name --fill")
    return min(1.0, written / limits)


def verdict(plan: Plan, changes: list[str]) -> str:
    """Return one line: whether the run fits, and which changes to try if not."""
    gib = [b / GIB for b in (plan.peak, plan.most, plan.machine.memory)]
    unsure = "may not fit" if gib[0] <= gib[2] else "does not fit"
    text = f"{plan.model} needs {gib[0]:.1f} to {gib[1]:.1f} GiB and "
    text += f"{'fits' if plan.fits else unsure} {plan.machine.name} ({gib[2]:.1f} GiB)"
    if plan.fits or not changes:
        return text if plan.fits else f"{text}: take a larger device or a smaller base"
    return f"{text}; try, cheapest first: {_set(changes)}"


def _set(changes: Iterable[str]) -> str:
    return " ".join(f"--set {change}" for change in changes)


def to_text(plan: Plan, changes: list[str], steps: int) -> str:
    """Return the tables of a plan."""
    step, ends = plan.step, [sum(s.values()) for s in (plan.least_seconds, plan.seconds)]
    phases = {"while learning": plan.learning, "while sampling": plan.sampling}
    full = " to ".join(f"{share:.2g}" for share in dict.fromkeys(plan.fill))
    return "\n".join(
        [
            f"{plan.model}: {plan.parameters:,} parameters, {step.members} adapters of "
            f"{plan.adapter_parameters:,}; at most {step.proposals.count:,} proposals and "
            f"{step.attempts.count:,} attempts a step",
            "\nmemory, GiB",
            *(f"  {name:32}{v / GIB:12.2f}" for name, v in {**plan.memory, **phases}.items()),
            *(f"  {f'{n}, not in these':32}{v / GIB:12.2f}" for n, v in plan.beside.items()),
            f"\nseconds a step on {plan.machine.name}, completions of {full} of their limits",
            *(f"  {n:32}{plan.least_seconds[n]:12.1f} to {v:.1f}" for n, v in plan.seconds.items()),
            f"  {'together':32}{ends[0]:12.1f} to {ends[1]:.1f}",
            f"  {f'hours of {steps:,} steps':32}"
            f"{ends[0] * steps / 3600:12.1f} to {ends[1] * steps / 3600:.1f}",
            "\ndisk, GiB",
            *(f"  {name:32}{v / GIB:12.2f}" for name, v in plan.disk.items()),
            f"\n{verdict(plan, changes)}",
            *([f"an update is a third faster with {_set(plan.faster)}"] if plan.faster else ()),
        ]
    )


def refuse_what_cannot_fit(config: Config, workers: int = 1) -> None:
    """Raise ConfigError for a run that does not fit even if the estimate is too large.

    A base whose shape is not known, or a device that is not there, fails when it is loaded.
    """
    try:
        plan, changes = plan_run(config, None, workers)
    except (ConfigError, LoraEvoError):
        return
    if plan.peak * (1 - _ACCURACY) > plan.machine.memory:
        raise ConfigError(f"{verdict(plan, changes)}; or `selfplay train --force`")
