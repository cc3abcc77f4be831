"""Sections of a run's configuration: what is sampled and by what, who is replaced, who judges."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from selfplay.records.ranges import AtLeastOne, Count, NotNegative, Positive, Share

Kind = Literal["code_o", "code_i", "code_f"]


@dataclass(frozen=True)
class RolloutConfig:
    """What is sampled in a step."""

    proposals: AtLeastOne = 8
    """Proposals of each task kind that a teacher makes in a step."""
    num_generations: AtLeastOne = 6
    """Attempts of the matched student at each valid task."""
    kinds: Annotated[tuple[Kind, ...], Meta(min_length=1)] = ("code_o", "code_i", "code_f")
    """Task kinds in play."""
    temperature: Positive = 1.0
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
    seed_tasks: AtLeastOne = 64
    """Reference tasks that a run starts from."""
    buffer_tasks: AtLeastOne = 512
    """Newest accepted tasks that references are drawn from."""
    seed_share: Share = 0.0
    """Share of references drawn from the tasks that the run started from: they hold back drift."""
    max_rows: AtLeastOne = 128
    """Rows decoded together; changes speed and memory."""
    merge_rows: Count = 64
    """Rows from which on a member samples through merged weights; 0 for never."""
    by_member: bool = False
    """Keep members' rows in batches of their own, as runs with --workers do: slower with few rows a
    member, and no bit of a sample depends on the others."""


@dataclass(frozen=True)
class VLLMConfig:
    """The engine of `engine: vllm`; names as in vLLM."""

    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] = 0.45
    """Share of the GPU's memory for vLLM's weights and cache; the learner needs the rest."""
    max_model_len: AtLeastOne | None = None
    """Longest prompt and completion together, in tokens; null: from the lengths of rollout."""
    enforce_eager: bool = False
    """Do without CUDA graphs: slower, a shorter start, less memory."""
    kv_cache_memory_bytes: AtLeastOne | None = None
    """Memory of the cache; null: what the share leaves, on a CPU 1 GiB."""
    sleep: bool = True
    """Give the cache's memory to the learner between sampling and sampling; nothing on a CPU."""


@dataclass(frozen=True)
class EvolutionConfig:
    """Replacement of the weakest members."""

    evolve_every: Count = 10
    """Steps between two replacements; 0 switches evolution off."""
    replaced_fraction: Share = 0.25
    """Share of each role that is replaced (the paper's gamma), at least one member."""
    mutation: str = "svd_structured"
    """Operator that makes a child of one parent."""
    crossover: str = "slot_swap"
    """Operator that makes a child of two parents."""
    crossover_share: Share = 0.5
    """Probability of a crossover where the role has two parents to choose from."""
    strength: NotNegative = 0.15
    """Relative change of the update that a mutation aims at."""


@dataclass(frozen=True)
class SandboxConfig:
    """Limits of the judge."""

    workers: AtLeastOne = 2
    """Programs that run at the same time."""
    wall_s: Positive = 5.0
    """Seconds of wall time per program; more than cpu_s, so that a busy machine fails nobody."""
    cpu_s: Positive = 2.0
    """Seconds of processor time per program."""
    memory_mb: AtLeastOne = 256
    """Megabytes per program."""
    runs: Annotated[int, Meta(ge=2)] = 2
    """Executions that must agree before a task is accepted: two show what is not deterministic."""
