"""What a run depends on: typed sections, each field with its sentence; strict reading from YAML."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from math import inf, isnan
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import yaml

from league import LeagueConfig, LeagueError
from lora_evo import known_operators
from selfplay.errors import ConfigError
from selfplay.learning.reward import StudentRewards
from selfplay.learning.settings import LearnerConfig
from selfplay.run.sections import KINDS, EvolutionConfig, RolloutConfig, SandboxConfig
from selfplay.run.yardstick_settings import YardstickConfig

T = TypeVar("T")
MODES = ("populora", "azr")
ENGINES = ("hf", "vllm")


@dataclass(frozen=True)
class RunConfig:
    """A whole run."""

    base: str = "nano"
    """Base model: `nano`, a directory, or a model's name on the hub."""
    template: str = "nano"
    """Prompt template: `nano` or `azr`."""
    mode: str = "populora"
    """`populora`, or `azr`: one adapter in both roles with AZR's reward."""
    engine: str = "hf"
    """Generation engine: `hf` (the learner's own module) or `vllm`."""
    device: str = "auto"
    """`cpu`, `cuda`, or `auto`."""
    threads: int = 0
    """Torch's threads on the CPU; 0 leaves its own choice. Equal numbers give equal bytes."""
    dtype: str = "float32"
    """Number type of the frozen base: `float32`, `bfloat16` or `float16`."""
    teachers: int = 2
    """Members that propose tasks."""
    students: int = 2
    """Members that solve tasks."""
    steps: int = 40
    """Steps of the run."""
    seed: int = 0
    """Seed of every random choice."""
    save_every: int = 1
    """Steps between two checkpoints."""
    keep_checkpoints: int = 2
    """Newest checkpoints that stay on disk."""
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    reward: StudentRewards = field(default_factory=StudentRewards)
    league: LeagueConfig = field(default_factory=LeagueConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    yardstick: YardstickConfig = field(default_factory=YardstickConfig)

    def __post_init__(self) -> None:
        _one_of("template", self.template, ("nano", "azr"))
        _one_of("mode", self.mode, MODES)
        _one_of("engine", self.engine, ENGINES)
        _one_of("dtype", self.dtype, ("float32", "bfloat16", "float16"))
        r, e, s, a = self.rollout, self.evolution, self.sandbox, self.learner
        y = self.yardstick
        positive = {
            "teachers": self.teachers,
            "students": self.students,
            "steps": self.steps,
            "save_every": self.save_every,
            "keep_checkpoints": self.keep_checkpoints,
            "rollout.proposals": r.proposals,
            "rollout.num_generations": r.num_generations,
            "rollout.max_proposal_length": r.max_proposal_length,
            "rollout.max_completion_length": r.max_completion_length,
            "rollout.num_references": r.num_references,
            "rollout.seed_tasks": r.seed_tasks,
            "rollout.buffer_tasks": r.buffer_tasks,
            "rollout.max_rows": r.max_rows,
            "rollout.temperature": r.temperature,
            "learner.r": a.r,
            "learner.lora_alpha": a.lora_alpha,
            "learner.adam_epsilon": a.adam_epsilon,
            "yardstick.tasks": y.tasks,
            "yardstick.samples": y.samples,
            "yardstick.temperature": y.temperature,
            "yardstick.proposals": y.proposals,
            "yardstick.attempts": y.attempts,
            "sandbox.workers": s.workers,
            "sandbox.memory_mb": s.memory_mb,
            "sandbox.wall_s": s.wall_s,
            "sandbox.cpu_s": s.cpu_s,
        }
        for name, value in positive.items():
            if not 0 < value < inf:
                raise ConfigError(f"{name} is {value}; expected a number above 0")
        at_least_0 = {
            "learner.learning_rate": a.learning_rate,
            "learner.weight_decay": a.weight_decay,
            "evolution.strength": e.strength,
        }
        for name, value in at_least_0.items():
            if not 0 <= value < inf:
                raise ConfigError(f"{name} is {value}; expected a number of at least 0")
        for name in ("adam_beta1", "adam_beta2"):
            if not 0 <= getattr(a, name) < 1:
                raise ConfigError(f"learner.{name} is {getattr(a, name)}; expected 0 to below 1")
        if (
            min(self.seed, self.threads, e.evolve_every, y.eval_every, y.same_tasks, r.merge_rows)
            < 0
        ):
            raise ConfigError(
                "seed, threads, evolution.evolve_every, yardstick.eval_every, "
                "yardstick.same_tasks and rollout.merge_rows cannot be negative"
            )
        if s.runs < 2:
            raise ConfigError(f"sandbox.runs is {s.runs}; expected at least 2, to see determinism")
        if self.league.anchor_share:
            raise ConfigError(
                f"league.anchor_share is {self.league.anchor_share}; expected 0: a run keeps no "
                "weights of frozen members to play against"
            )
        if not r.kinds:
            raise ConfigError("rollout.kinds is empty; expected some of " + ", ".join(KINDS))
        for kind in r.kinds:
            _one_of("rollout.kinds", kind, KINDS)
        if len(set(r.kinds)) < len(r.kinds):
            raise ConfigError(f"rollout.kinds names a kind twice: {', '.join(r.kinds)}")
        for sort in ("mutation", "crossover"):
            known = tuple(name for name, op in known_operators().items() if op.kind == sort)
            _one_of(f"evolution.{sort}", getattr(e, sort), known)
        for name, share in (
            ("evolution.replaced_fraction", e.replaced_fraction),
            ("evolution.crossover_share", e.crossover_share),
            ("rollout.seed_share", r.seed_share),
        ):
            if not 0.0 <= share <= 1.0:
                raise ConfigError(f"{name} is {share}; expected 0 to 1")
        learner = replace(
            self.learner,
            temperature=r.temperature,
            max_completion_length=r.max_completion_length,
        )
        object.__setattr__(self, "learner", learner)


def read_config(data: Mapping[str, Any]) -> RunConfig:
    """Build a run's configuration from nested plain values; unknown keys are an error."""
    return _build(RunConfig, data, "")


def config_text(config: RunConfig) -> str:
    """Return the configuration as YAML that `read_config` takes back."""
    return yaml.safe_dump(_plain(asdict(config)), sort_keys=False)


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


def _build(cls: type[T], data: object, path: str) -> T:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{path.rstrip('.') or 'the configuration'} is not a section: {data!r}")
    hints = get_type_hints(cls)
    known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {path}{close[0]}?" if close else "known: " + ", ".join(known)
            raise ConfigError(f"unknown key {path}{name}; {hint}")
        kind = hints[name]
        if is_dataclass(kind) and isinstance(kind, type):
            values[name] = _build(kind, value, f"{path}{name}.")
        else:
            values[name] = _value(kind, value, path + name)
    try:
        return cls(**values)
    except ConfigError:
        raise
    except (LeagueError, ValueError) as error:
        raise ConfigError(f"{path}{error}") from error


def _value(kind: Any, value: object, name: str) -> object:
    if NoneType in get_args(kind):
        if value is None:
            return None
        kind = get_args(kind)[0]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is float and isinstance(value, str):
        # YAML 1.1 reads 1e-4 as text.
        with suppress(ValueError):
            value = float(value)
    if kind in (int, float, str, bool):
        if type(value) is not kind or (isinstance(value, float) and isnan(value)):
            raise ConfigError(f"{name} is {value!r}; expected {_KIND_WORDS[kind]}")
        return value
    if isinstance(value, list | tuple):
        return tuple(_value(get_args(kind)[0], item, name) for item in value)
    raise ConfigError(f"{name} is {value!r}; expected a list")


_KIND_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        close = get_close_matches(value, choices, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigError(f"{name} is {value!r}; expected one of {', '.join(choices)}{hint}")


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
