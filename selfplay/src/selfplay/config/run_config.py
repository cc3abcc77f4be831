"""What a run depends on: typed sections, each field with its sentence; strict reading from YAML."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import msgspec
import yaml

from league import LeagueConfig
from selfplay.config.sections import EvolutionConfig, RolloutConfig, SandboxConfig, VLLMConfig
from selfplay.config.settings import one_of, read_settings
from selfplay.config.yardstick_settings import YardstickConfig
from selfplay.errors import ConfigError
from selfplay.learning.reward import StudentRewards
from selfplay.learning.settings import LearnerConfig
from selfplay.records.ranges import AtLeastOne, Count


@dataclass(frozen=True)
class RunConfig:
    """A whole run."""

    base: str = "nano"
    """Base model: `nano`, a directory, or a model's name on the hub."""
    template: Literal["nano", "azr", "azr-chat"] = "nano"
    """Prompt template: `nano`, `azr` (plain frame) or `azr-chat` (the model's chat template)."""
    warm_start: str | None = None
    """Adapter that every member starts from, such as `selfplay warmup` makes; null: fresh ones."""
    mode: Literal["populora", "azr"] = "populora"
    """`populora`, or `azr`: one adapter in both roles with AZR's reward."""
    engine: Literal["hf", "vllm"] = "hf"
    """Generation engine: `hf` (the learner's own module) or `vllm` (see docs/vllm.md)."""
    device: str = "auto"
    """`cpu`, `cuda`, or `auto`."""
    threads: Count = 0
    """Torch's threads on the CPU; 0 leaves its own choice. Equal numbers give equal bytes."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Number type of the frozen base: `float32`, `bfloat16` or `float16`."""
    teachers: AtLeastOne = 2
    """Members that propose tasks."""
    students: AtLeastOne = 2
    """Members that solve tasks."""
    steps: AtLeastOne = 40
    """Steps of the run."""
    seed: Count = 0
    """Seed of every random choice."""
    save_every: AtLeastOne = 1
    """Steps between two checkpoints."""
    keep_checkpoints: AtLeastOne = 2
    """Newest checkpoints that stay on disk."""
    report_to: tuple[Literal["tensorboard", "wandb", "trackio", "mlflow"], ...] = ()
    """Trackers that are told every step, as in TRL (see docs/trackers.md)."""
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    vllm: VLLMConfig = field(default_factory=VLLMConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    reward: StudentRewards = field(default_factory=StudentRewards)
    league: LeagueConfig = field(default_factory=LeagueConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    yardstick: YardstickConfig = field(default_factory=YardstickConfig)

    def __post_init__(self) -> None:
        kinds, e = self.rollout.kinds, self.evolution
        if len(set(kinds)) < len(kinds):
            raise ConfigError(f"rollout.kinds names a kind twice: {', '.join(kinds)}")
        if self.league.anchor_share:
            raise ConfigError(
                f"league.anchor_share is {self.league.anchor_share}; expected 0: a run keeps no "
                "weights of frozen members to play against"
            )
        for kind, name in (("mutation", e.mutation), ("crossover", e.crossover)):
            if name != getattr(EvolutionConfig, kind):
                _refuse_unknown_operator(kind, name)
        learner = replace(
            self.learner,
            temperature=self.rollout.temperature,
            max_completion_length=self.rollout.max_completion_length,
        )
        object.__setattr__(self, "learner", learner)


def _refuse_unknown_operator(kind: str, name: str) -> None:
    """Ask lora_evo, which brings torch: a report on a run of the defaults does without."""
    from lora_evo import known_operators

    known = [operator.name for operator in known_operators().values() if operator.kind == kind]
    if name not in known:
        raise ConfigError(f"evolution.{kind} is {name!r}; {one_of(name, known)}")


def read_config(data: object) -> RunConfig:
    """Build a run's configuration from nested plain values; unknown keys are an error."""
    return read_settings(data, RunConfig)


def config_text(config: RunConfig) -> str:
    """Return the configuration as YAML that `read_config` takes back."""
    return yaml.safe_dump(msgspec.to_builtins(asdict(config)), sort_keys=False)


def override(data: dict[str, Any], assignment: str) -> None:
    """Apply one `a.b=value` to nested plain values; the value is read as YAML."""
    path, equals, text = assignment.partition("=")
    if not equals or not path:
        raise ConfigError(f"--set {assignment!r}: expected KEY=VALUE, such as learner.r=16")
    *parents, last = path.split(".")
    place = data
    for name in parents:
        below = place.setdefault(name, {})
        if not isinstance(below, dict):
            raise ConfigError(f"--set {path}: {name} is a value, not a section")
        place = below
    try:
        place[last] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {path}: cannot read {text!r} as a value") from error


def cut_by_member(config: RunConfig) -> RunConfig:
    """Return the configuration with which any number of workers gives the same bytes.

    Each member's rows are sampled and learned from in batches of their own.
    """
    return replace(
        config,
        learner=replace(config.learner, micro_batch_members=1),
        rollout=replace(config.rollout, by_member=True),
    )
