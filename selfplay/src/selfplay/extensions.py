"""What users give a run of their own: rewards, operators and callbacks.

Objects are handed to `train` and its like, or named `module:object` in the configuration. What is
handed over wins; config.yaml names it, so that a resume imports it again where that is possible.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from lora_evo import OPERATORS, Operator
from selfplay.config import Config
from selfplay.errors import ConfigError
from selfplay.prompts.task_kind import TaskKind, named_kinds
from selfplay.rewards import (
    TEACHER_REWARDS,
    StudentReward,
    TeacherReward,
    needed_by,
    populora,
    verifier,
)
from selfplay.rows import StepRow
from selfplay.settings import load_object, name_of, one_of

if TYPE_CHECKING:
    from selfplay.population import Run

Callback: TypeAlias = Callable[["Run", StepRow], None]
_STUDENT_REWARDS = {verifier.__name__: None}


@dataclass(frozen=True)
class Extensions:
    """Rewards, operators and callbacks of a run."""

    teacher_reward: TeacherReward = populora
    student_reward: StudentReward | None = None
    """None: `verifier`, with the values of the configuration."""
    operators: Sequence[Operator] = ()
    """All mutations and crossovers that children are made with."""
    callbacks: Sequence[Callback] = ()
    """Called after every step with the run and the step's row."""


class Own(TypedDict, total=False):
    """What `train`, `resume`, `new_run` and `open_run` take by name, as `Given` has it."""

    teacher_reward: TeacherReward | None
    student_reward: StudentReward | None
    operators: Sequence[Operator]
    task_kinds: Sequence[TaskKind]
    callbacks: Sequence[Callback]
    workers: int | None
    ray: str | None


@dataclass(frozen=True)
class Given:
    """What a caller hands over; None and empty where the configuration says it."""

    teacher_reward: TeacherReward | None = None
    student_reward: StudentReward | None = None
    operators: Sequence[Operator] = ()
    task_kinds: Sequence[TaskKind] = ()
    callbacks: Sequence[Callback] = ()
    workers: int | None = None
    ray: str | None = None

    def named_in(self, config: Config) -> Config:
        """Return the configuration with the names of what was handed over."""
        named: dict[str, Any] = {}
        if self.teacher_reward is not None:
            named["teacher"] = _name(self.teacher_reward, TEACHER_REWARDS)
        if self.student_reward is not None:
            named["student"] = _name(self.student_reward, {})
        pools: dict[str, Any] = {}
        for operator in self.operators:
            pools[operator.kind] = (*pools.get(operator.kind, ()), _name(operator, OPERATORS))
        return replace(
            config,
            rollout=replace(
                config.rollout, kinds=named_kinds(config.rollout.kinds, self.task_kinds)
            ),
            reward=replace(config.reward, **named),
            evolution=replace(config.evolution, **pools),
        )

    def completed(self, config: Config) -> Extensions:
        """Return what a run uses: what was handed over, the rest as the configuration names it.

        Raises ConfigError for what cannot be imported, and for a reward that takes more members
        than the run has.
        """
        teacher = self.teacher_reward or _reward("teacher", config, TEACHER_REWARDS)
        if "rival" in needed_by(teacher) and (config.mode == "azr" or config.students < 2):
            raise ConfigError(
                f"reward.teacher is {config.reward.teacher!r}, which compares two students; "
                "expected mode populora and students of at least 2"
            )
        operators = list(self.operators)
        for kind in ("mutation", "crossover"):
            if all(operator.kind != kind for operator in self.operators):
                operators += _operators(kind, config)
        return Extensions(
            teacher,
            self.student_reward or _reward("student", config, _STUDENT_REWARDS),
            operators,
            self.callbacks,
        )


def _reward(role: str, config: Config, known: Any) -> Any:
    key, name = f"reward.{role}", getattr(config.reward, role)
    if name in known:
        return known[name]
    found = _imported(key, name, known)
    if not callable(found):
        raise ConfigError(f"{key} is {name!r}, which is no function")
    return found


def _operators(kind: str, config: Config) -> list[Operator]:
    found = []
    for name in config.evolution.pool(kind):
        key = f"evolution.{kind}"
        operator = OPERATORS.get(name) or _imported(key, name, OPERATORS)
        if not isinstance(operator, Operator) or operator.kind != kind:
            raise ConfigError(f"{key} is {name!r}; expected a lora_evo.Operator of this kind")
        found.append(operator)
    return found


def _imported(key: str, name: str, known: Iterable[str]) -> Any:
    if ":" not in name:
        raise ConfigError(f"{key} is {name!r}; {one_of(name, [*known, 'module:object'])}")
    return load_object(name, key)


def _name(found: Any, known: Mapping[str, Any]) -> str:
    """Return the short name of what is ours, `module:object` of what is not."""
    own = getattr(found, "name", getattr(found, "__name__", type(found).__name__))
    return own if known.get(own) is found else name_of(found, own)
