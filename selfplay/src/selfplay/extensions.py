"""What users give a run of their own: rewards, operators, task kinds and callbacks.

Objects are handed to `train` and its like, or named `module:object` in the configuration. What is
handed over wins; config.yaml says what it was (see `identity`), so that a resume imports it again
where that is possible, and refuses what is something else by then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from lora_evo import OPERATORS, Operator
from selfplay.config import Config
from selfplay.errors import ConfigError
from selfplay.identity import called, name_of, resolved
from selfplay.prompts.task_kind import TaskKind, named_kinds
from selfplay.records.rows import StepRow
from selfplay.reward_state import KeptRewards, load_state, state_of
from selfplay.rewards import (
    TEACHER_REWARDS,
    StudentReward,
    TeacherFunction,
    needed_by,
    populora,
    verifier,
)
from selfplay.settings import without_hash

if TYPE_CHECKING:
    from selfplay.run import Run

Callback: TypeAlias = "Callable[[Run, StepRow], None]"
_KNOWN: Mapping[str, Mapping[str, Any]] = {
    "teacher": TEACHER_REWARDS,
    "student": {verifier.__name__: None},
}


@dataclass(frozen=True)
class Extensions:
    """Rewards, operators and callbacks of a run."""

    teacher_reward: TeacherFunction = populora
    student_reward: StudentReward | None = None
    """None: `verifier`, with the values of the configuration."""
    operators: Sequence[Operator] = ()
    """All mutations and crossovers that children are made with."""
    callbacks: Sequence[Callback] = ()
    """Called after every step with the run and the step's row."""
    first_states: Mapping[str, bytes] = field(default_factory=dict)
    """By role, what a reward that keeps a state began the run with."""

    def rewards(self) -> Iterator[tuple[str, TeacherFunction | StudentReward]]:
        """Yield role and reward where the reward is not ours."""
        if self.teacher_reward not in TEACHER_REWARDS.values():
            yield "teacher", self.teacher_reward
        if self.student_reward is not None:
            yield "student", self.student_reward


class RunOptions(TypedDict, total=False):
    """What `train`, `resume`, `new_run` and `open_run` take by name."""

    teacher_reward: TeacherFunction | None
    student_reward: StudentReward | None
    operators: Sequence[Operator]
    task_kinds: Sequence[TaskKind]
    callbacks: Sequence[Callback]
    workers: int | None
    ray: str | None


def with_names(config: Config, options: RunOptions) -> Config:
    """Return the configuration with the names of what is handed over."""
    rewards: dict[str, Any] = {
        role: _name(reward, _KNOWN[role])
        for role in ("teacher", "student")
        if (reward := options.get(f"{role}_reward")) is not None
    }
    pools: dict[str, Any] = {}
    for operator in options.get("operators", ()):
        pools[operator.kind] = (*pools.get(operator.kind, ()), _name(operator, OPERATORS))
    kinds = named_kinds(config.rollout.kinds, options.get("task_kinds", ()))
    return replace(
        config,
        rollout=replace(config.rollout, kinds=kinds),
        reward=replace(config.reward, **rewards),
        evolution=replace(config.evolution, **pools),
    )


def open_extensions(
    config: Config, options: RunOptions, kept: KeptRewards | None = None
) -> tuple[Extensions, Config]:
    """Return what the configuration names, and the configuration with what it was recorded of.

    kept: what a checkpoint says of rewards. Raises ConfigError for what cannot be imported, for
    what is not what the run began with, and for a reward that takes more members than the run has.
    """
    kept = kept or KeptRewards()
    rewards: dict[str, Any] = {}
    names: dict[str, Any] = {}
    states: dict[str, bytes] = {}
    for role in ("teacher", "student"):
        first, reward = kept.first_states.get(role), options.get(f"{role}_reward")

        def ready(thing: Any, first: bytes | None = first, option: str = f"{role}_reward") -> None:
            if first is not None:
                load_state(thing, first, option)

        ((names[role], rewards[role]),) = resolved(
            f"reward.{role}",
            [getattr(config.reward, role)],
            f"{role}_reward",
            [] if reward is None else [reward],
            _KNOWN[role],
            ready,
            kept.marks.get(role),
        )
        if rewards[role] is not None and not callable(rewards[role]):
            raise ConfigError(
                f"reward.{role} is {without_hash(names[role])!r}, which is no function"
            )
        if (state := state_of(rewards[role], f"{role}_reward")) is not None:
            states[role] = state
    if "rival" in needed_by(rewards["teacher"]) and (config.mode == "azr" or config.students < 2):
        raise ConfigError(
            f"reward.teacher is {config.reward.teacher!r}, which compares two students; "
            "expected mode populora and students of at least 2"
        )
    operators: list[Operator] = []
    pools: dict[str, tuple[str, ...]] = {}
    for kind in ("mutation", "crossover"):
        pool = _pool(kind, config, options)
        operators += [operator for _, operator in pool]
        if (recorded := tuple(name for name, _ in pool)) != config.evolution.pool(kind):
            pools[kind] = recorded
    extensions = Extensions(
        rewards["teacher"], rewards["student"], operators, options.get("callbacks", ()), states
    )
    evolution: dict[str, Any] = {**pools}
    return extensions, replace(
        config,
        reward=replace(config.reward, **names),
        evolution=replace(config.evolution, **evolution),
    )


def _pool(kind: str, config: Config, options: RunOptions) -> list[tuple[str, Operator]]:
    """Return the operators of a kind, with the names to record."""
    key, names = f"evolution.{kind}", config.evolution.pool(kind)
    handed = [operator for operator in options.get("operators", ()) if operator.kind == kind]
    pool = resolved(key, names, "operators", handed, OPERATORS)
    for name, operator in pool:
        if not isinstance(operator, Operator) or operator.kind != kind:
            raise ConfigError(
                f"{key} is {without_hash(name)!r}; expected a lora_evo.Operator of this kind"
            )
    return pool


def _name(thing: Any, known: Mapping[str, Any]) -> str:
    """Return the short name of what is ours, and what was recorded of anything else."""
    short = called(thing)
    return short if known.get(short) is thing else name_of(thing)
