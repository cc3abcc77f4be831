"""The configuration of a run: typed sections, each setting with a docstring."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from league import LeagueConfig
from lora_evo import Operator
from lora_evo.model import TARGET_MODULES
from selfplay import settings
from selfplay.errors import ConfigError
from selfplay.settings import AtLeastOne, Count, NotNegative, Positive, Share, Temperature
from selfplay.tasks.held_out import SHIPPED
from selfplay.tasks.kind import BUILT_IN, TASKSET, is_taskset

LOG_RATIO_LIMIT = 10.0
"""Largest difference of two log-probabilities, in nats, whose ratio is used unchanged."""
Decay = Annotated[float, Meta(ge=0, lt=1)]
Tracker = Literal["tensorboard", "wandb", "trackio"]
OneOrMore = Annotated[tuple[str, ...], Meta(min_length=1)]
FREE = {"free": True}
"""Mark of what may be changed before a resume: settings of place, speed and what is kept."""
PIECES = 8
"""Pieces of a role's rows with `--workers`: enough work for eight workers."""


@dataclass(frozen=True)
class RolloutConfig:
    """Sampling in a step."""

    proposals: AtLeastOne = 8
    """Proposals of each task kind that a teacher makes in a step."""
    num_generations: AtLeastOne = 6
    """Attempts of the matched student at each valid task."""
    kinds: OneOrMore = BUILT_IN
    """Task kinds in play: built-in ones, or `module:object` of one's own (selfplay.TaskKind)."""
    temperature: Temperature = 1.0
    """Sampling temperature of proposals and attempts."""
    max_prompt_length: AtLeastOne | None = None
    """Longest prompt, in tokens; a task that needs a longer one is refused as `too_long`. Null:
    what a completion leaves of the context."""
    max_proposal_length: AtLeastOne = 128
    """Longest proposal, in tokens."""
    max_completion_length: AtLeastOne = 128
    """Longest attempt, in tokens."""
    num_references: AtLeastOne = 1
    """Reference tasks shown to a teacher (the nano template shows one)."""
    tasks: str | None = None
    """JSON Lines of tasks from `selfplay tasks` that students attempt, in a run without teachers,
    or `verifiers:TASKSET`, an installed taskset's id or module:Class; null: teachers write them."""
    taskset: dict[str, Any] = field(default_factory=dict)
    """Values of that taskset's own configuration."""
    taskset_limit: AtLeastOne | None = None
    """Most tasks of a taskset, the first ones; one without an end needs it."""
    solved_from: float = 1.0
    """Least score that solves a task; of a taskset, the score is the sum of its weighted rewards,
    divided by its MAX_REWARD if it has one."""
    tasks_order: Literal["shuffled", "random", "solve_rate", "recorded"] = "shuffled"
    """How they are drawn: each once in an epoch (shuffled), independently (random), over the run
    from the easiest to the hardest by the solve rate in their rows, or as the file lists them
    (recorded), from its start again at its end."""
    seed_tasks: AtLeastOne = 64
    """Reference tasks that a run starts from, of code_o and code_i together."""
    seed_file: str | None = None
    """JSON Lines to draw them from, as `selfplay sft --data` reads; null: the template's own."""
    self_seed: bool = False
    """Let the base write them, starting from the identity function (Absolute Zero), and as many of
    code_f."""
    buffer_tasks: AtLeastOne = 512
    """Most accepted tasks that references are drawn from."""
    buffer_keeps: Literal["newest", "oldest"] = "newest"
    """Which tasks a full buffer keeps (Absolute Zero: the oldest)."""
    seed_share: Share = 0.0
    """Share of references drawn from the tasks that the run started from, against drift."""
    max_rows: AtLeastOne = field(default=128, metadata=FREE)
    """Rows decoded together; changes speed and memory."""

    @property
    def prompt_overhead(self) -> int:
        """Tokens that a prompt of several tasks may have beyond the sum of their prompts."""
        return 16 * (self.num_references - 1)


@dataclass(frozen=True)
class VLLMConfig:
    """The engine of `engine: vllm`; names as in vLLM."""

    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] = 0.45
    """Share of the GPU's memory for vLLM's weights and cache; the learner needs the rest."""
    max_model_len: AtLeastOne | None = None
    """Longest prompt and completion together, in tokens; null: from the lengths of rollout."""
    enforce_eager: bool = False
    """Do without CUDA graphs: slower, a shorter start, less memory."""
    sleep: bool = True
    """Free the cache's memory for the learner while it updates; no effect on a CPU."""
    tensor_parallel_size: AtLeastOne = 1
    """GPUs that vLLM spreads the base over; the learner stays on the first."""


@dataclass(frozen=True)
class EvolutionConfig:
    """Replacement of the weakest members."""

    evolve_every: Count = 10
    """Steps between two replacements, at which children in their first `league.grace_matches`
    matches are spared; 0 switches evolution off."""
    replaced_fraction: Share = 0.25
    """Share of each role that is replaced (the paper's gamma), at least one member."""
    mutation: str | OneOrMore = "svd_structured"
    """Operator that makes a child of one parent, or a list to draw it from: names of ours, or
    `module:object`."""
    crossover: str | OneOrMore = "slot_swap"
    """The same of two parents."""
    crossover_share: Share = 0.5
    """Probability of a crossover where the role has two parents to choose from."""
    strength: NotNegative = 0.15
    """Relative change of the update that a mutation aims at."""
    mutate_rate: Decay = 0.0
    """Share by which a child's learning rate is lowered or raised from its first parent's, as in
    population-based training (arXiv 1711.09846, 0.2)."""

    def pool(self, kind: str) -> tuple[str, ...]:
        """Return the operators of a kind, `mutation` or `crossover`."""
        names = self.mutation if kind == "mutation" else self.crossover
        return (names,) if isinstance(names, str) else names

    def strength_of(self, operator: Operator) -> float | None:
        """Return the strength of a child's operator; None for one that takes none."""
        takes_one = operator.kind == "mutation" and operator.default_strength is not None
        return self.strength if takes_one else None


@dataclass(frozen=True)
class SandboxConfig:
    """Limits of the sandbox that verifies proposals and answers."""

    workers: AtLeastOne = field(default=2, metadata=FREE)
    """Programs that run at the same time."""
    wall_s: Positive = 5.0
    """Seconds of wall time per program; more than cpu_s: a busy machine takes longer."""
    cpu_s: Positive = 2.0
    """Seconds of processor time per program."""
    memory_mb: AtLeastOne = 256
    """Megabytes per program."""
    runs: Annotated[int, Meta(ge=2)] = 2
    """Executions that must agree before a task is accepted; two detect nondeterminism."""


@dataclass(frozen=True)
class EvalConfig:
    """Evaluations on fixed tasks."""

    eval_every: Count = 20
    """Steps between two evaluations of every living member; births cause one, too. 0: none."""
    held_out: tuple[str, ...] = ("nano_code_o", "nano_code_i", "nano_code_f")
    """Sources of held-out tasks: names of built-in sets, files of tasks, or `verifiers:TASKSET`. A
    run on a taskset drops built-in sets; if nothing is left, it holds out a tenth of its tasks."""
    taskset: dict[str, Any] = field(default_factory=dict)
    """Values of the configuration of a taskset in held_out."""
    tasks: AtLeastOne = 240
    """Held-out tasks, spread evenly over kinds and levels."""
    samples: AtLeastOne = 3
    """Attempts at each held-out task, with the same seeds at every evaluation."""
    temperature: Temperature = 1.0
    """Sampling temperature of these attempts."""
    proposals: AtLeastOne = 16
    """Proposals of each kind that a teacher writes at an evaluation, after fixed references."""
    attempts: AtLeastOne = 4
    """Attempts of the frozen base at each valid one of them."""
    same_tasks: Count = 4
    """Tasks of each match that the frozen base attempts too, in every step; 0 for none."""


@dataclass(frozen=True, slots=True)
class RewardConfig:
    """Rewards of proposals and answers."""

    teacher: str = "populora"
    """Reward of a proposal: `populora`, `azr`, `learnability`, `regret`, or a `module:function`
    of one's own."""
    student: str = "verifier"
    """Reward of an answer: `verifier` (1 right, -0.5 wrong, -1 ill-formed), or a
    `module:function`."""


@dataclass(frozen=True, slots=True)
class LearnerConfig:
    """Adapters, optimiser and loss of the joint learner; names as in TRL and PEFT."""

    r: AtLeastOne = 8
    """Rank of the adapters."""
    lora_alpha: Positive = 16.0
    """Scale of the adapters: the update is lora_alpha / r times B A."""
    target_modules: tuple[str, ...] = TARGET_MODULES
    """Names of the linear layers that carry adapters."""
    learning_rate: NotNegative = 1e-5
    """AdamW step size."""
    teacher_learning_rate: NotNegative | None = None
    """AdamW step size of teachers; null: learning_rate, which an agent always has."""
    frozen: tuple[str, ...] = ()
    """Founders that never learn and are never replaced, such as t0."""
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = "linear"
    """Schedule of both: constant, linear or cosine, down to min_lr_rate."""
    min_lr_rate: Share = 0.1
    """Share of the learning rate at the last step of a linear or cosine schedule; at 0 that step
    changes no member."""
    warmup_steps: Count = 0
    """Steps over which the learning rate first rises from 0."""
    adam_beta2: Decay = 0.999
    """AdamW decay of the squared gradient's moving average."""
    weight_decay: NotNegative = 0.0
    """AdamW decoupled weight decay."""
    max_grad_norm: float = 1.0
    """Norm to which a member's longer gradient is clipped; 0 or less: no clipping."""
    epsilon: Decay = 0.2
    """Lower clip range of the policy ratio."""
    epsilon_high: NotNegative = 0.2
    """Upper clip range of the policy ratio (DAPO uses 0.28)."""
    num_iterations: AtLeastOne = 1
    """Optimiser steps per batch of samples."""
    loss_type: Literal["grpo", "dapo", "bnpo", "dr_grpo"] = "grpo"
    """Averaging per member: grpo (sequences), dapo or bnpo (tokens), dr_grpo (constant length)."""
    importance_sampling_correction: bool = True
    """Weight tokens by pi(learner) / pi(sampler), within bounds."""
    importance_sampling_mode: Literal[
        "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"
    ] = "token_truncate"
    """Importance weight of a token or of a whole completion (sequence); out of bounds it is
    truncated to the bound, or set to 0 (mask)."""
    importance_sampling_clip_min: NotNegative = 0.0
    """Lower bound of the importance weight."""
    importance_sampling_clip_max: Positive = 2.0
    """Upper bound of the importance weight."""
    mask_truncated_completions: bool = False
    """Exclude completions that ended at the length limit from the loss."""
    beta: NotNegative = 0.0
    """Coefficient of the KL divergence from the reference; 0: not computed. The k3 estimate has
    the value of KL(policy || reference), and the gradient of KL(reference || policy)."""
    reference: Literal["base", "start"] = "start"
    """What beta pulls to: the adapter that all members start from (`warm_start`, as in TRL; without
    one the frozen base), or the frozen base."""
    use_bias_correction_kl: bool = False
    """Weight k3 by the policy ratio: its gradient is then that of KL(policy || reference)."""
    teacher_beta: NotNegative | None = None
    """beta of proposals; null: beta."""
    entropy_coef: NotNegative = 0.0
    """Coefficient of the entropy bonus, a mean over tokens for every loss_type; 0: not computed."""
    teacher_entropy_coef: NotNegative | None = None
    """entropy_coef of proposals; null: entropy_coef."""
    micro_batch_tokens: AtLeastOne = field(default=4096, metadata=FREE)
    """Padded tokens per forward pass; changes speed and memory, not the result."""
    logits_chunk_tokens: Count = field(default=0, metadata=FREE)
    """Tokens that go through the output layer at a time; 0: chosen by the vocabulary."""
    gradient_checkpointing: bool = field(default=False, metadata=FREE)
    """Recompute each layer's activations in the backward pass instead of keeping them."""
    optimizer_offload: bool = field(default=False, metadata=FREE)
    """Keep optimiser states in main memory; no effect on a CPU."""

    def beta_of(self, phase: str) -> float:
        """Return the coefficient of the KL divergence in a phase, `propose` or `solve`."""
        here = self.teacher_beta if phase == "propose" else None
        return self.beta if here is None else here

    def entropy_coef_of(self, phase: str) -> float:
        """Return the coefficient of the entropy bonus in a phase."""
        here = self.teacher_entropy_coef if phase == "propose" else None
        return self.entropy_coef if here is None else here

    def learning_rate_of(self, role: str, member: str = "") -> float:
        """Return the step size of a member of a role before its schedule."""
        if member in self.frozen:
            return 0.0
        if role == "teacher" and self.teacher_learning_rate is not None:
            return self.teacher_learning_rate
        return self.learning_rate

    def schedule(self, step: int, steps: int) -> float:
        """Return the factor of the learning rate in step 1 to `steps` of a run."""
        if step <= self.warmup_steps:
            return step / (self.warmup_steps + 1)
        if self.lr_scheduler_type == "constant":
            return 1.0
        whole = max(1, steps - self.warmup_steps - 1)
        part = min(1.0, (step - self.warmup_steps - 1) / whole)
        cosine = self.lr_scheduler_type == "cosine"
        factor = (1 + math.cos(math.pi * part)) / 2 if cosine else 1.0 - part
        return self.min_lr_rate + (1.0 - self.min_lr_rate) * factor


ABSOLUTE_ZERO: Mapping[str, Mapping[str, Any]] = {
    "rollout": {"buffer_keeps": "oldest"},
    "reward": {"teacher": "azr"},
    "learner": {
        "loss_type": "dapo",
        "lr_scheduler_type": "constant",
        "weight_decay": 0.01,
        "entropy_coef": 0.001,
    },
}
"""The settings of mode azr, from the code of Absolute Zero (arXiv 2505.03335) that made its
published numbers; docs/training.md has the table."""


@dataclass(frozen=True)
class Config:
    """A whole run."""

    base: str = "nano"
    """Base model: `nano`, a directory, or a model's name on the hub."""
    template: Literal["nano", "azr", "azr-chat"] = "nano"
    """Prompt template: `nano`, `azr` (plain frame) or `azr-chat` (the model's chat template)."""
    warm_start: str | None = None
    """Adapter that every member starts from, such as `selfplay sft` makes; null: fresh ones."""
    mode: Literal["populora", "azr"] = "populora"
    """`populora`, or `azr`: one adapter in both roles, trained as in Absolute Zero, with one
    attempt at each of some earlier tasks and rewards whitened over tokens."""
    engine: Literal["hf", "vllm"] = "hf"
    """Generation engine: `hf` (the learner's own module) or `vllm` (see docs/gpu.md)."""
    device: str = field(default="auto", metadata=FREE)
    """`cpu`, `cuda`, or `auto`."""
    threads: Count = field(default=0, metadata=FREE)
    """Torch's threads on the CPU; 0: torch's choice. Equal numbers give equal bytes."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Number type of the frozen base: `float32`, `bfloat16` or `float16`."""
    load_in_4bit: bool = False
    """Load the base's linear layers in bitsandbytes' 4 bits (nf4, double quantisation, compute in
    bfloat16), with engine hf. A base that is stored in 4 bits does not need it."""
    teachers: Count = 2
    """Members that propose tasks; 0 where `rollout.tasks` names a file of them."""
    students: AtLeastOne = 2
    """Members that solve tasks."""
    steps: AtLeastOne = 40
    """Steps of the run."""
    seed: Count = 0
    """Seed of every random choice."""
    save_every: AtLeastOne = field(default=1, metadata=FREE)
    """Steps between two checkpoints."""
    keep_checkpoints: AtLeastOne = field(default=2, metadata=FREE)
    """Newest checkpoints that stay on disk."""
    keep_dead: bool = field(default=True, metadata=FREE)
    """Keep the adapters of dead members, and every parent as it was; false: of parents, only those
    that `lora-evo verify` needs for the members that live."""
    pieces: Count = field(default=0, metadata=FREE)
    """Pieces into which each role's rows are cut for sampling and learning, at least one for each
    member, so that any number of workers gives the same bytes. 0: members share batches, for one
    process. --workers sets at least 8."""
    report_to: tuple[Tracker, ...] = field(default=(), metadata=FREE)
    """Trackers that every step is logged to, as in TRL (see docs/training.md)."""
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    vllm: VLLMConfig = field(default_factory=VLLMConfig, metadata=FREE)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    league: LeagueConfig = field(default_factory=LeagueConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)

    def __post_init__(self) -> None:
        of_taskset, least = is_taskset(self.rollout.tasks), self.rollout.solved_from
        if not (of_taskset or 0.0 < least <= 1.0):  # a wrong answer has 0
            raise ConfigError(f"rollout.solved_from is {least}; expected above 0, at most 1")
        kinds = () if of_taskset else self.rollout.kinds
        if len(set(kinds)) < len(kinds):
            raise ConfigError(f"rollout.kinds names a kind twice: {', '.join(kinds)}")
        for name in kinds:
            if name not in BUILT_IN and ":" not in name:
                expected = settings.one_of(name, (*BUILT_IN, "module:object"))
                raise ConfigError(f"rollout.kinds names {name!r}; {expected}")
        if (self.teachers == 0) != (self.rollout.tasks is not None):
            raise ConfigError(
                f"teachers is {self.teachers} and rollout.tasks is {self.rollout.tasks}; expected "
                "teachers of at least 1, or a file of tasks and none: --set rollout.tasks=FILE"
            )
        if self.load_in_4bit and self.engine == "vllm":
            raise ConfigError(
                "load_in_4bit is true and engine is vllm, which does not load bitsandbytes' 4 bits "
                "any more; type --engine hf, or --set load_in_4bit=false"
            )
        if self.rollout.self_seed and self.rollout.seed_file is not None:
            raise ConfigError(
                f"rollout.self_seed is true and rollout.seed_file is {self.rollout.seed_file}; "
                "expected one of them"
            )
        learner = self.learner
        if learner.importance_sampling_clip_min >= learner.importance_sampling_clip_max:
            raise ConfigError(
                f"learner.importance_sampling_clip_min is {learner.importance_sampling_clip_min}; "
                "expected less than learner.importance_sampling_clip_max, "
                f"{learner.importance_sampling_clip_max}"
            )
        for name in learner.frozen:
            if name not in self.founders:
                expected = settings.one_of(name, self.founders)
                raise ConfigError(f"learner.frozen: {name!r}; {expected}")

    @property
    def proposers(self) -> list[str]:
        """Names of the first members that write tasks; none where `rollout.tasks` names a file."""
        if self.rollout.tasks is not None:
            return []
        return ["a0"] if self.mode == "azr" else [f"t{i}" for i in range(self.teachers)]

    @property
    def solvers(self) -> list[str]:
        """Names of the first members that solve tasks; in mode azr the one agent."""
        return ["a0"] if self.mode == "azr" else [f"s{i}" for i in range(self.students)]

    @property
    def founders(self) -> list[str]:
        """Names of the first members by place."""
        return list(dict.fromkeys(self.proposers + self.solvers))

    @property
    def roles(self) -> dict[str, list[str]]:
        """The first members of each role that a league rates; none for an agent."""
        if self.mode == "azr":
            return {}
        return {"teacher": self.proposers, "student": self.solvers}

    def evolves(self, step: int) -> bool:
        """Return whether members are replaced after this step; never after the last."""
        every = self.evolution.evolve_every
        return every > 0 and step % every == 0 and step < self.steps

    @property
    def replaced(self) -> dict[str, int]:
        """Most members that an evolution replaces, by role."""
        share = self.evolution.replaced_fraction
        sizes = {role: len(names) for role, names in self.roles.items() if names}
        return {role: min(max(1, round(n * share)), n - 1) for role, n in sizes.items()}

    def measures(self, step: int) -> bool:
        """Return whether members are evaluated after this step: `eval_every`, births, the last."""
        every = self.eval.eval_every
        births = any(len(names) > 1 for names in self.roles.values()) and self.evolves(step)
        return every > 0 and (step % every == 0 or step == self.steps or births)

    @property
    def pulls_to_start(self) -> bool:
        """Whether a warm start, not the frozen base, is the reference of the KL divergence."""
        beta = max(map(self.learner.beta_of, ("propose", "solve")))
        return beta > 0.0 and self.warm_start is not None and self.learner.reference == "start"

    @property
    def longest_completion(self) -> int:
        """Tokens of the longest text that a member of this run writes."""
        return max(self.rollout.max_proposal_length, self.rollout.max_completion_length)

    @property
    def longest_sample(self) -> int | None:
        """Tokens of the longest prompt and completion; None if only the context limits them."""
        longest, beyond = self.rollout.max_prompt_length, self.rollout.prompt_overhead
        return None if longest is None else longest + beyond + self.longest_completion


def is_free(key: str) -> bool:
    """Return whether a setting, by its dotted key, is `FREE` or in a section that is."""
    section: Any = Config
    for name in key.split(".")[:2]:  # deeper ones are a taskset's own
        setting: Any = {setting.name: setting for setting in fields(section)}[name]
        if "free" in setting.metadata:
            return True
        section = setting.default_factory
    return False


def read_config(data: object) -> Config:
    """Build a run's configuration from nested plain values; unknown keys are an error.

    In mode azr, `ABSOLUTE_ZERO` fills in the keys that are missing. With `rollout.tasks` there are
    no teachers, and with a taskset no other kinds or built-in held-out sets, whatever a preset has.
    """
    if isinstance(data, Mapping):
        rollout = data.get("rollout")
        if isinstance(rollout, Mapping) and rollout.get("tasks"):
            data = {**data, "teachers": 0}
        if data.get("mode") == "azr":
            data = settings.merge_settings(ABSOLUTE_ZERO, data)
    config = settings.read_settings(data, Config)
    if is_taskset(config.rollout.tasks):
        rollout = replace(config.rollout, kinds=(TASKSET,))
        sources = tuple(source for source in config.eval.held_out if source not in SHIPPED)
        config = replace(config, rollout=rollout, eval=replace(config.eval, held_out=sources))
    return config


def load_preset(name: str, *assignments: str, **values: Any) -> Config:
    """Return the configuration of a preset or a YAML file, with values and assignments on top.

    assignments: such as `learner.r=16`. values: by key; those that are None are left out. Raises
    ConfigError for what cannot be used, such as teachers together with `rollout.tasks`.

    Example:

        >>> load_preset("nano", "learner.r=16", steps=2).learner.r
        16
    """
    changes = {key: value for key, value in values.items() if value is not None}
    data = settings.merge_settings(settings.read_preset(name), changes)
    pairs = list(map(settings.assignment, assignments))
    for key, value in pairs:
        settings.put(data, key, value)
    config = read_config(data)
    teachers = dict(pairs).get("teachers", values.get("teachers"))
    if teachers and config.rollout.tasks is not None:
        raise ConfigError(
            f"teachers is {teachers} and rollout.tasks is {config.rollout.tasks}, whose tasks "
            "students get instead of teachers'; leave out teachers, or --set rollout.tasks=null"
        )
    return config


def config_text(config: Config) -> str:
    """Return the configuration as YAML that `read_config` takes back."""
    return yaml.safe_dump(msgspec.to_builtins(asdict(config)), sort_keys=False)


def for_workers(config: Config) -> Config:
    """Return the configuration with which any number of workers gives the same bytes."""
    return replace(config, pieces=max(config.pieces, PIECES))
