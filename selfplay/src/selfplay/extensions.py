"""What a user adds to a run, found by its name or handed over, and what is recorded of it.

Objects are handed to `train` and its like as `Extensions`, or named `module:object` in the
configuration. config.yaml says what they were (see `identity`), so that a resume imports them again
where that is possible, and refuses what is something else by then.

A reward whose object has `state_dict` and `load_state_dict`, as modules of torch do, continues
where a checkpoint was made. So do methods of such an object, `functools.partial` of it, and a
`TeacherReward` with it.
"""

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from lora_evo import (
    OPERATORS,
    LoraEvoError,
    Operator,
    Slot,
    cross_directory,
    mutate_directory,
    save_adapter,
)
from selfplay.config import Config
from selfplay.errors import ConfigError, SelfplayError, first_line
from selfplay.identity import called, name_of, resolved
from selfplay.learning.rewards import TEACHER_REWARDS, keeper_of, needed_by, verifier
from selfplay.run import Extensions, Run
from selfplay.settings import without_hash
from selfplay.source_hash import mark_of


@dataclass(frozen=True)
class KeptRewards:
    """What a checkpoint says of rewards, by role."""

    first_states: Mapping[str, bytes] = field(default_factory=dict)
    """Before the first step."""
    states: Mapping[str, bytes] = field(default_factory=dict)
    """When the checkpoint was made."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """What was then said of those that had changed and have no `state_dict`."""


_KNOWN: Mapping[str, Mapping[str, Any]] = {
    "teacher": TEACHER_REWARDS,
    "student": {verifier.__name__: None},
}


def with_names(config: Config, extensions: Extensions) -> Config:
    """Return the configuration with the names of what is handed over."""
    rewards: dict[str, Any] = {
        role: _name(reward, _KNOWN[role])
        for role in ("teacher", "student")
        if (reward := _reward(extensions, role)) is not None
    }
    pools: dict[str, Any] = {}
    for operator in extensions.operators:
        pools[operator.kind] = (*pools.get(operator.kind, ()), _name(operator, OPERATORS))
    kinds = tuple(dict.fromkeys((*config.rollout.kinds, *map(name_of, extensions.task_kinds))))
    return replace(
        config,
        rollout=replace(config.rollout, kinds=kinds),
        reward=replace(config.reward, **rewards),
        evolution=replace(config.evolution, **pools),
    )


def open_extensions(
    config: Config, extensions: Extensions, kept: KeptRewards | None = None
) -> tuple[Extensions, dict[str, bytes], Config]:
    """Return all that a run is extended by, and what goes with it.

    That is: what was handed over with what the configuration names, by role the states that rewards
    begin with, and the configuration with what is recorded of them. kept: what a checkpoint says of
    rewards. Raises ConfigError for what cannot be imported, for what is not what the run began
    with, and for a reward that takes more members than the run has.
    """
    kept = kept or KeptRewards()
    rewards: dict[str, Any] = {}
    states: dict[str, bytes] = {}
    names: dict[str, Any] = {}
    for role in _KNOWN:
        names[role], reward = _open_reward(role, config, extensions, kept)
        rewards[f"{role}_reward"] = reward
        if (state := state_of(reward, f"{role}_reward")) is not None:
            states[role] = state
    rivals = "rival" in needed_by(rewards["teacher_reward"])
    if rivals and (config.mode == "azr" or config.students < 2):
        raise ConfigError(
            f"reward.teacher is {config.reward.teacher!r}, which compares two students; "
            "expected mode populora and students of at least 2"
        )
    operators: list[Operator] = []
    pools: dict[str, Any] = {}
    for kind in ("mutation", "crossover"):
        pool = _pool(kind, config, extensions)
        operators += [operator for _, operator in pool]
        if (recorded := tuple(name for name, _ in pool)) != config.evolution.pool(kind):
            pools[kind] = recorded
    config = replace(
        config, reward=replace(config.reward, **names), evolution=replace(config.evolution, **pools)
    )
    return replace(extensions, operators=operators, **rewards), states, config


def try_operators(run: Run) -> None:
    """Make a child of founders by each operator of a user's own, as an evolution would.

    Founders whose update is 0 get some noise for it, as if they had learned. Raises ConfigError.
    """
    own = [o for o in run.extensions.operators if OPERATORS.get(o.name) is not o]
    e, members = run.config.evolution, run.population.members[:2]
    if run.config.mode == "azr" or not e.evolve_every or not own:
        return
    with TemporaryDirectory() as folder:
        parents = [Path(folder) / member for member in members]
        for parent in parents:
            adapter = run.population.export(parent.name)
            slots = {path: _filled(slot) for path, slot in adapter.slots.items()}
            save_adapter(replace(adapter, slots=slots), parent)
        for n, operator in enumerate(own):
            out, first = Path(folder) / f"child{n}", parents[0]
            strength = None if operator.default_strength is None else e.strength
            try:
                if operator.kind == "crossover":
                    cross_directory(operator, parents, out, seed=0)
                else:
                    mutate_directory(operator, first, out, seed=0, strength=strength)
            except (LoraEvoError, TypeError) as error:
                raise ConfigError(
                    f"evolution.{operator.kind}, tried on {first.name}: {first_line(error)}"
                ) from error


def _filled(slot: Slot) -> Slot:
    noise = torch.linspace(-1e-2, 1e-2, slot.B.numel()).sin().reshape(slot.B.shape)
    return slot if slot.B.any() else replace(slot, B=noise.to(slot.B))


def _open_reward(
    role: str, config: Config, extensions: Extensions, kept: KeptRewards
) -> tuple[str, Any]:
    """Return a role's reward, which begins where the run began, after the name to record."""
    key, option, first = f"reward.{role}", f"{role}_reward", kept.first_states.get(role)
    name, reward = getattr(config.reward, role), _reward(extensions, role)
    recorded = name.removeprefix(without_hash(name))

    def mark(thing: Any) -> str:
        """Say what a reward was made of at first, where a checkpoint tells it."""
        if first is not None:
            load_state(thing, first, option)
        now = mark_of(thing)
        return recorded if now == kept.marks.get(role) else now

    handed = [] if reward is None else [reward]
    ((name, reward),) = resolved(key, [name], option, handed, _KNOWN[role], mark)
    if first is not None:
        load_state(reward, first, option)
    if reward is not None and not callable(reward):
        raise ConfigError(f"{key} is {without_hash(name)!r}, which is no function")
    return name, reward


def _reward(extensions: Extensions, role: str) -> Any:
    return getattr(extensions, f"{role}_reward")


def _pool(kind: str, config: Config, extensions: Extensions) -> list[tuple[str, Operator]]:
    """Return the operators of a kind, with the names to record."""
    key, names = f"evolution.{kind}", config.evolution.pool(kind)
    handed = [operator for operator in extensions.operators if operator.kind == kind]
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


def changed_marks(rewards: Iterable[tuple[str, Any]], names: Mapping[str, str]) -> dict[str, str]:
    """Return by role what is to be said of rewards without a state that hold something else by now.

    names: by role, what was recorded of them.
    """
    marks = {}
    for role, reward in rewards:
        recorded = names[role].removeprefix(without_hash(names[role]))
        if recorded and keeper_of(reward) is None and (mark := mark_of(reward)) != recorded:
            marks[role] = mark
    return marks


def state_of(reward: Any, option: str) -> bytes | None:
    """Return a reward's state as it is; None where it keeps none.

    option: what errors call it. Raises SelfplayError for a state that cannot be read again.
    """
    keeper = keeper_of(reward)
    if keeper is None:
        return None
    loads = callable(getattr(keeper, "load_state_dict", None))
    if not loads or not callable(getattr(keeper, "state_dict", None)):
        there, missing = ("load_state_dict", "state_dict")[:: 1 if loads else -1]
        raise SelfplayError(
            f"{option}: {called(reward)} has {there} and no {missing}; expected both, to save what "
            "it keeps and to load it"
        )
    buffer = BytesIO()
    try:
        torch.save(keeper.state_dict(), buffer)
        _unpacked(buffer.getvalue())
    except (pickle.PickleError, AttributeError, TypeError, RuntimeError) as error:
        raise SelfplayError(
            f"{option}: what state_dict of {called(reward)} returns cannot be saved and read again "
            f"({first_line(error)}); expected numbers, texts, lists, dictionaries and tensors"
        ) from error
    return buffer.getvalue()


def load_state(reward: Any, state: bytes, option: str) -> None:
    """Let a reward continue from a state. Raises SelfplayError where it does not take it."""
    keeper = keeper_of(reward)
    if keeper is None or not callable(getattr(keeper, "load_state_dict", None)):
        return
    try:
        keeper.load_state_dict(_unpacked(state))
    except (Exception, SystemExit) as error:  # the user's method may raise what it likes
        raise SelfplayError(
            f"{option}: load_state_dict of {called(reward)} does not take what its state_dict "
            f"returned: {type(error).__name__}: {first_line(error)}"
        ) from error


def _unpacked(state: bytes) -> Any:
    return torch.load(BytesIO(state), weights_only=True)
