"""What a run will take in memory, time and disk, before anything loads.

Reads the configuration and the base's config.json, no weights. Sizes are in bytes. Rows and tokens
are upper bounds: every proposal valid, every micro-batch full of the longest rows. Seconds are
arithmetic at stated rates, completions at half of their limits, nothing in parallel.
"""

import math
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from lora_evo import LoraEvoError
from selfplay.config import Config, LearnerConfig, read_config
from selfplay.errors import ConfigError
from selfplay.settings import one_of, override

GIB = 2**30
FLOAT32 = 4
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
FILL = 0.5
"""Share of its limit that a completion is expected to have."""
CARDS = {
    "H200": (139.7, 989, 4800),
    "H100": (79.1, 989, 3350),
    "A100-80GB": (79.1, 312, 2039),
    "A100-40GB": (39.4, 312, 1555),
    "L40S": (44.4, 362, 864),
    "RTX4090": (23.5, 165, 1008),
    "RTX3090": (23.6, 71, 936),
    "L4": (22.0, 121, 300),
}
"""GiB of memory, and the data sheet's TFLOP/s (dense bfloat16) and GB/s."""
COMPUTE_SHARE, READ_SHARE = 0.4, 0.6
"""Shares of these peaks that are taken as reached."""
CPU_FLOPS, CPU_READS = 60e9, 8e9
"""Per thread; measured with a model of 135 M parameters in float32 on a busy machine."""
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
_ACCURACY = 0.15
"""By which a real peak may differ from the estimate."""
_GROWING = 2.25
"""A cache that is full doubles, and what it was stays until keys and values are copied."""
_PROMPT = {"nano": (8, 48), "azr": (330, 170), "azr-chat": (370, 170)}
"""Tokens of a prompt without tasks, and of a task that it shows: of Absolute Zero's published tasks
the mean is 160 tokens of a small model, and one in twenty has more than 400."""
_LONG = 2.5
"""Long tasks are so many times longer than usual ones."""
_QWEN25 = re.compile(r"Qwen2\.5(?:-Coder)?-(0\.5|1\.5|3|7|14)B(?:-Instruct)?")
_SIZE_NAMES = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "vocab_size",
)  # fmt: skip
_SIZES = {
    "0.5": (896, 4864, 24, 14, 2, 151936),
    "1.5": (1536, 8960, 28, 12, 2, 151936),
    "3": (2048, 11008, 36, 16, 2, 151936),
    "7": (3584, 18944, 28, 28, 4, 152064),
    "14": (5120, 13824, 48, 40, 8, 152064),
}
"""Of Qwen2.5 (arXiv 2412.15115)."""


@dataclass(frozen=True)
class Machine:
    """A device: bytes of memory, and operations and bytes read a second."""

    name: str
    memory: float
    flops: float
    reads: float
    is_gpu: bool


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder-only model, in entries; linears: name, inputs and outputs of each."""

    name: str
    parameters: int
    hidden: int
    inner: int
    layers: int
    heads: int
    query: int
    key: int
    vocabulary: int
    linears: tuple[tuple[str, int, int], ...]

    def adapter_parameters(self, learner: LearnerConfig) -> int:
        """Return the entries of one adapter: A [r, in] and B [out, r] on each target."""
        return sum(learner.r * (i + o) for n, i, o in self.linears if n in learner.target_modules)


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
    """A step."""

    proposals: Rows
    attempts: Rows
    members: int

    @property
    def parts(self) -> tuple[Rows, Rows]:
        """Both roles."""
        return self.proposals, self.attempts


@dataclass(frozen=True)
class Plan:
    """What a run takes; checkpoint and disk: of one checkpoint, and of all files that are kept."""

    model: str
    machine: Machine
    parameters: int
    adapter_parameters: int
    memory: Mapping[str, float]
    learning: float
    sampling: float
    peak: float
    """The larger of both phases."""
    fits: bool
    """Whether this estimate is within the device's memory."""
    step: Workload
    seconds: Mapping[str, float]
    checkpoint: float
    disk: float


def gpu(what: str) -> Machine:
    """Return a GPU of `CARDS`, or one of so many GiB with the rates of that next in size."""
    known = {name.lower(): name for name in CARDS}
    name = known.get(what.lower())
    try:
        gib = CARDS[name][0] if name else float(what)
    except ValueError:
        expected = one_of(what, list(CARDS))
        raise ConfigError(f"--gpu is {what!r}; {expected}; or a number of GiB") from None
    nearest = name or _next_in_size(gib, CARDS)
    _, teraflops, gigabytes = CARDS[nearest]
    flops, reads = teraflops * 1e12 * COMPUTE_SHARE, gigabytes * 1e9 * READ_SHARE
    return Machine(name or f"a GPU of {gib:.4g} GiB", gib * GIB, flops, reads, is_gpu=True)


def _next_in_size(gib: float, names: Iterable[str]) -> str:
    return min(names, key=lambda name: abs(CARDS[name][0] - gib))


def this_machine(device: str, threads: int) -> Machine:
    """Return what is here: device as in a configuration, threads of torch (0: all cores)."""
    import torch

    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
        if not torch.cuda.is_available():
            raise ConfigError(
                "device is cuda, and torch finds no GPU here; name one with --gpu, or plan for "
                "--set device=cpu"
            )
        card = torch.cuda.get_device_properties(torch.device(device if ":" in device else "cuda"))
        names = [n for n in CARDS if n.partition("-")[0] in card.name.upper().replace(" ", "")]
        nearest = gpu(_next_in_size(card.total_memory / GIB, names or CARDS))
        return replace(nearest, name=card.name, memory=card.total_memory)
    cores = threads or os.cpu_count() or 1
    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # no such file, or `max`
        memory = min(memory, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    name = f"CPU, {cores} thread{'s' * (cores > 1)}"
    return Machine(name, memory, CPU_FLOPS * cores, CPU_READS * cores, is_gpu=False)


def model_config(base: str) -> Any:
    """Return transformers' configuration of a base model. Raises ConfigError, one line."""
    from transformers import AutoConfig, Qwen2Config

    from lora_evo.model import resolve

    source = resolve(base)
    known = _QWEN25.fullmatch(source.removeprefix("Qwen/"))
    if known and not Path(source).is_dir():
        sizes = dict(zip(_SIZE_NAMES, _SIZES[known[1]], strict=True))
        return Qwen2Config(**sizes, tie_word_embeddings=known[1] in ("0.5", "1.5", "3"))
    try:
        return AutoConfig.from_pretrained(source, local_files_only=True)
    except Exception as error:  # whatever a damaged config.json makes transformers raise
        raise ConfigError(
            f"the shape of {base} is not known: give the folder of a model with a readable "
            "config.json as base; built in are Qwen2.5 and Qwen2.5-Coder of 0.5B to 14B"
        ) from error


def read_architecture(base: str) -> Architecture:
    """Return the shape of a base model: a folder, `nano`, or a name whose shape is known here."""
    import torch
    from transformers import AutoModelForCausalLM

    from lora_evo.model import public_name

    config = model_config(base)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    output, text = model.get_output_embeddings(), config.get_text_config()
    heads = text.num_attention_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    return Architecture(
        name=public_name(base),
        parameters=sum(p.numel() for p in model.parameters()),
        hidden=text.hidden_size,
        inner=text.intermediate_size,
        layers=text.num_hidden_layers,
        heads=heads,
        query=heads * head_dim,
        key=(getattr(text, "num_key_value_heads", None) or heads) * head_dim,
        vocabulary=text.vocab_size,
        linears=tuple(
            (path.rpartition(".")[2], module.in_features, module.out_features)
            for path, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and module is not output
        ),
    )


def workload(config: Config) -> Workload:
    """Return the step of a configuration."""
    r, single = config.rollout, config.mode == "azr"
    shown = 1 if config.template == "nano" else r.num_references
    words, task = _PROMPT[config.template]
    bound = r.max_prompt_length or math.inf
    longest = round(words + shown * task * (_LONG if shown == 1 else 1.5))
    proposals = Rows(
        count=(1 if single else config.teachers) * len(r.kinds) * r.proposals,
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

    In the base's dtype: both normalised inputs, the attention's result, queries, keys, values, the
    feed-forward part's gate before and after its activation, the other factor and their product,
    and each adapted layer's A x. In float32: the residual stream before both norms, their scales,
    and a log-sum a head.
    """
    adapted = sum(name in learner.target_modules for name, _, _ in model.linears)
    r = adapted // max(1, model.layers) * learner.r
    wide = 2 * model.hidden + 2 * model.query + 2 * model.key + 4 * model.inner + r
    return tokens * (BYTES[dtype] * wide + FLOAT32 * (2 * model.hidden + model.heads + 2))


def micro_batch(rows: Rows, budget: int) -> tuple[int, int]:
    """Return tokens, and completion tokens among them, of the largest micro-batch of such rows."""
    count = min(rows.count, max(1, budget // rows.longest))
    return count * rows.longest, count * rows.limit


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
        "adapters stacked for a pass": (
            stacked / model.layers if learner.gradient_checkpointing else stacked
        ),
        **largest,
    }


def sampler_parts(
    model: Architecture, config: Config, step: Workload, machine: Machine
) -> tuple[float, float, int, float]:
    """Return weights and cache of the sampler, rows sampled together, and bytes kept in between.

    Weights are a second copy of the base (vLLM), or one member merged into it (hf).
    """
    r, dtype = config.rollout, BYTES[config.dtype]
    token = 2 * model.layers * model.key * dtype
    if config.engine == "vllm":
        longest = token * max(rows.longest for rows in step.parts)
        adapters = (step.members + 1) * model.adapter_parameters(config.learner)
        weights = float((model.parameters + adapters) * dtype)
        share = config.vllm.gpu_memory_utilization * machine.memory
        free = max(share - weights, 0.0) if machine.is_gpu else 2.0**30
        cache = max(float(config.vllm.kv_cache_memory_bytes or free), longest)
        rows_that_fit = int(cache / (longest * FILL))
        together = max(1, min(rows_that_fit, sum(rows.count for rows in step.parts), 256))
        sleeps = machine.is_gpu and config.vllm.sleep
        return weights, cache, together, weights + (0.0 if sleeps else cache)
    # Half of the members take part in a role; one with many rows samples them alone, merged.
    active = max(1, step.members // 2)
    merging = [0 < r.merge_rows <= rows.count // active for rows in step.parts]
    counts = [
        min(r.max_rows, rows.count // active if merged else rows.count)
        for rows, merged in zip(step.parts, merging, strict=True)
    ]
    positions = max(n * rows.longest for rows, n in zip(step.parts, counts, strict=True))
    targets = config.learner.target_modules
    merged = sum(i * o for name, i, o in model.linears if name in targets) * dtype
    return float(merged * any(merging)), _GROWING * token * positions, max(counts), 0.0


def step_seconds(
    model: Architecture, config: Config, step: Workload, machine: Machine, together: int
) -> dict[str, float]:
    """Return seconds by phase.

    A token costs two operations a parameter to read or write; to learn from, four, because frozen
    weights have no gradients, and six where activations are computed twice.
    """

    def sampling(rows: Rows) -> float:
        read = rows.prompt * rows.count / rows.samples * 2 * model.parameters / machine.flops
        batch = min(together, rows.count)
        context = rows.prompt + rows.limit * FILL / 2
        entries = model.parameters + batch * context * 2 * model.layers * model.key
        reading = BYTES[config.dtype] * entries / machine.reads
        computing = batch * 2 * model.parameters / machine.flops
        return read + rows.count * rows.limit * FILL / batch * (reading + computing)

    learned = sum(rows.count * (rows.prompt + rows.limit * FILL) for rows in step.parts)
    passes = 3 if config.learner.gradient_checkpointing else 2
    update = 2 * model.parameters * learned * passes / machine.flops
    return {
        "propose": sampling(step.proposals),
        "solve": sampling(step.attempts),
        "update": update,
    }


def make_plan(config: Config, model: Architecture, machine: Machine) -> Plan:
    """Return what a run of this configuration takes on this device."""
    dtype, step = config.dtype, workload(config)
    adapter = FLOAT32 * model.adapter_parameters(config.learner)
    weights, cache, together, kept = sampler_parts(model, config, step, machine)
    held = {
        f"base ({dtype})": float(model.parameters * BYTES[dtype]),
        "adapters (float32)": float(adapter * step.members),
        "process and libraries": _LIBRARIES[machine.is_gpu],
    }
    work = learner_parts(model, config.learner, dtype, step)
    engine = "vLLM: weights and adapters" if config.engine == "vllm" else "merged member"
    learning = sum(held.values()) + sum(work.values()) + kept
    sampling = sum(held.values()) + work["optimiser"] + weights + cache
    peak = max(learning, sampling)
    return Plan(
        model=model.name,
        machine=machine,
        parameters=model.parameters,
        adapter_parameters=adapter // FLOAT32,
        memory={**held, **work, engine: weights, "cache": cache},
        learning=learning,
        sampling=sampling,
        peak=peak,
        fits=peak <= machine.memory,
        step=step,
        seconds=step_seconds(model, config, step, machine, together),
        checkpoint=3.0 * adapter * step.members,
        disk=adapter * step.members * (3.0 * config.keep_checkpoints + 1),
    )


def smaller(config: Config, model: Architecture, machine: Machine) -> tuple[list[str], Plan]:
    """Return those of `CHANGES` that make the run fit, or all that help, and the plan with them."""
    found: list[str] = []
    plan = make_plan(config, model, machine)
    for change in CHANGES:
        if plan.fits:
            break
        data: dict[str, Any] = msgspec.to_builtins(asdict(config))
        for assignment in change.split():
            override(data, assignment)
        changed = read_config(data)
        less = make_plan(changed, model, machine)
        if less.peak < 0.99 * plan.peak:
            config, plan = changed, less
            found += change.split()
    return list({text.partition("=")[0]: text for text in found}.values()), plan


def plan_run(config: Config, card: str | None, workers: int = 1) -> tuple[Plan, list[str]]:
    """Return the plan for a GPU, or for the device found here, and the changes that would help."""
    machine = gpu(card) if card else this_machine(config.device, config.threads)
    # The fullest worker; those on a CPU share its memory.
    teachers, students = -(-config.teachers // workers), -(-config.students // workers)
    config = replace(config, teachers=teachers, students=students)
    if not machine.is_gpu:
        machine = replace(machine, memory=machine.memory / workers)
    model = read_architecture(config.base)
    return make_plan(config, model, machine), smaller(config, model, machine)[0]


def verdict(plan: Plan, changes: list[str]) -> str:
    """Return one line: whether the run fits, and which changes to try if not."""
    where = f"{plan.machine.name} ({plan.machine.memory / GIB:.1f} GiB)"
    takes = f"{plan.model} needs about {plan.peak / GIB:.1f} GiB"
    if plan.fits:
        return f"{takes} and fits {where}"
    if not changes:
        return f"{takes} and does not fit {where}: take a larger device or a smaller base"
    tried = " ".join(f"--set {change}" for change in changes)
    return f"{takes} and does not fit {where}; try, cheapest first: {tried}"


def to_text(plan: Plan, changes: list[str]) -> str:
    """Return the tables of a plan."""
    machine, step = plan.machine, plan.step
    lines = [
        f"{plan.model}: {plan.parameters:,} parameters, {step.members} adapters of "
        f"{plan.adapter_parameters:,}; at most {step.proposals.count:,} proposals and "
        f"{step.attempts.count:,} attempts a step"
    ]
    phases = {"while learning": plan.learning, "while sampling": plan.sampling}
    rates = f"{machine.flops / 1e12:.3g} TFLOP/s and {machine.reads / 1e9:.3g} GB/s"
    for title, values, scale in (
        ("memory, GiB", {**plan.memory, **phases}, GIB),
        (f"seconds a step on {machine.name}, at {rates}", plan.seconds, 1),
        ("disk, GiB", {"a checkpoint": plan.checkpoint, "all that is kept": plan.disk}, GIB),
    ):
        lines += ["", title, *(f"  {name:32}{v / scale:12.2f}" for name, v in values.items())]
    return "\n".join([*lines, "", verdict(plan, changes)])


def refuse_what_cannot_fit(config: Config, workers: int = 1) -> None:
    """Raise ConfigError for a run that does not fit even if the estimate is too large.

    A base whose shape is not known, or a device that is not there, fails when it is loaded.
    """
    try:
        plan, changes = plan_run(config, None, workers)
    except (ConfigError, LoraEvoError):
        return
    if plan.peak * (1 - _ACCURACY) > plan.machine.memory:
        raise ConfigError(f"{verdict(plan, changes)}; or try anyway with --force")
