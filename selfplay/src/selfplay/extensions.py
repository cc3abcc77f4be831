"""A user's own rewards, operators and task kinds: opened, tried, and kept across a resume.

Objects are passed to `train`, `resume`, `new_run` or `open_run` as `Extensions`, or named
`module:object` in the configuration, where config.yaml records their names.

A checkpoint keeps the state of a reward whose object has `state_dict` and `load_state_dict`, as
modules of torch have. The reward may also be a method or a `functools.partial` of such an object,
or a `TeacherReward` with it.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO
from types import MethodType
from typing import Any

import torch

from lora_evo import OPERATORS, LoraEvoError, Operator, Slot, make_child
from selfplay.config import Config
from selfplay.errors import ConfigError, SelfplayError, first_line
from selfplay.learning.rewards import TEACHER_REWARDS, TeacherReward, needed_by, verifier
from selfplay.objects import called, find_objects, name_of
from selfplay.run import Extensions, Run

_KNOWN: Mapping[str, Mapping[str, Any]] = {
    "teacher": TEACHER_REWARDS,
    "student": {verifier.__name__: None},
}
_STATE = ("state_dict", "load_state_dict")


def with_names(config: Config, extensions: Extensions) -> Config:
    """Return the configuration with the names of the extensions."""
    handed = {role: getattr(extensions, f"{role}_reward") for role in _KNOWN}
    rewards: dict[str, Any] = {r: _name(f, _KNOWN[r]) for r, f in handed.items() if f is not None}
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


def open_extensions(config: Config, extensions: Extensions) -> Extensions:
    """Return the extensions together with the objects that the configuration names.

    Raises ConfigError for an object that is missing or cannot be imported, for an extension that
    the run does not name, and for a reward that needs more students than the run has.
    """
    rewards: dict[str, Any] = {}
    for role, built_ins in _KNOWN.items():
        option, name = f"{role}_reward", getattr(config.reward, role)
        handed = [r for r in [getattr(extensions, option)] if r is not None]
        (reward,) = find_objects(f"reward.{role}", [name], option, handed, built_ins)
        if reward is not None and not callable(reward):
            raise ConfigError(f"reward.{role} is {name!r}, which is no function")
        rewards[option] = reward
    if "rival" in needed_by(rewards["teacher_reward"]) and len(config.solvers) < 2:
        raise ConfigError(
            f"reward.teacher is {config.reward.teacher!r}, which compares two students; "
            "expected mode populora and students of at least 2"
        )
    operators: list[Operator] = []
    for kind in ("mutation", "crossover"):
        names = config.evolution.pool(kind)
        handed = [operator for operator in extensions.operators if operator.kind == kind]
        pool = find_objects(f"evolution.{kind}", names, "operators", handed, OPERATORS)
        for name, operator in zip(names, pool, strict=True):
            if not isinstance(operator, Operator) or operator.kind != kind:
                raise ConfigError(
                    f"evolution.{kind} is {name!r}; expected a lora_evo.Operator of this kind"
                )
        operators += pool
    return replace(extensions, operators=operators, **rewards)


def try_operators(run: Run) -> None:
    """Make a child of the first members with each of a user's own operators, as evolution would.

    Noise replaces a B that is 0, as if the member had learned. Raises ConfigError.
    """
    operators = [o for o in run.extensions.operators if OPERATORS.get(o.name) is not o]
    e, members = run.config.evolution, run.population.members[:2]
    if run.league is None or not e.evolve_every or not operators:
        return
    parents = [run.population.export(member) for member in members]
    parents = [replace(p, slots={k: _filled(s) for k, s in p.slots.items()}) for p in parents]
    for operator in operators:
        of_child = parents if operator.kind == "crossover" else parents[:1]
        try:
            make_child(of_child, operator, 0, strength=e.strength_of(operator))
        except (LoraEvoError, TypeError) as error:
            raise ConfigError(
                f"evolution.{operator.kind}, tried on {members[0]}: {first_line(error)}"
            ) from error


def _filled(slot: Slot) -> Slot:
    noise = torch.linspace(-1e-2, 1e-2, slot.B.numel()).sin().reshape(slot.B.shape)
    return slot if slot.B.any() else replace(slot, B=noise.to(slot.B))


def _name(thing: Any, built_ins: Mapping[str, Any]) -> str:
    """Return the short name of a built-in object, else the recorded name of a user's."""
    short = next((name for name, built_in in built_ins.items() if built_in is thing), None)
    return short or name_of(thing)


def _keepers(extensions: Extensions) -> dict[str, Any]:
    """Return by role the object that holds a reward's state; no entry for one without a state."""
    keepers = {}
    for role in _KNOWN:
        keeper = getattr(extensions, f"{role}_reward")
        while isinstance(keeper, partial | TeacherReward):
            keeper = keeper.func if isinstance(keeper, partial) else keeper.function
        keeper = keeper.__self__ if isinstance(keeper, MethodType) else keeper
        if not isinstance(keeper, type) and any(hasattr(keeper, name) for name in _STATE):
            keepers[role] = keeper
    return keepers


def states_of(extensions: Extensions) -> dict[str, bytes]:
    """Return the state of each reward that has one, by role.

    Raises SelfplayError for a state that cannot be loaded again.
    """
    states = {}
    for role, keeper in _keepers(extensions).items():
        if missing := [name for name in _STATE if not callable(getattr(keeper, name, None))]:
            raise SelfplayError(
                f"{role}_reward: {called(keeper)} has no {missing[0]}; expected both "
                f"{' and '.join(_STATE)}, to save its state and to load it"
            )
        title = f"{role}_reward: the result of state_dict of {called(keeper)}"
        states[role] = saved_state(keeper, title)
    return states


def saved_state(state: Any, title: str) -> bytes:
    """Return a state, or the `state_dict` of an object, as bytes for `loaded_state`.

    title: its name in errors. Raises SelfplayError for a state that cannot be loaded again.
    """
    buffer = BytesIO()
    try:
        torch.save(state.state_dict() if hasattr(state, _STATE[0]) else state, buffer)
        loaded_state(buffer.getvalue())
    except (Exception, SystemExit) as error:  # the user's method may raise what it likes
        raise SelfplayError(
            f"{title} cannot be saved and read again ({first_line(error)}); expected numbers, "
            "texts, lists, dictionaries and tensors"
        ) from error
    return buffer.getvalue()


def loaded_state(state: bytes) -> Any:
    """Return the state that `saved_state` packed."""
    return torch.load(BytesIO(state), weights_only=True)


def load_states(extensions: Extensions, states: Mapping[str, bytes]) -> None:
    """Load the states that `states_of` returned. Raises SelfplayError if a reward refuses one."""
    for role, keeper in _keepers(extensions).items():
        if role not in states:
            continue
        try:
            keeper.load_state_dict(loaded_state(states[role]))
        except (Exception, SystemExit) as error:  # the user's method may raise what it likes
            raise SelfplayError(
                f"{role}_reward: load_state_dict of {called(keeper)} refuses the result of its "
                f"state_dict: {type(error).__name__}: {first_line(error)}"
            ) from error
