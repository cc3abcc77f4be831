"""Rewards that keep a state: what a checkpoint holds of them, and what a resume loads again.

A reward whose object has `state_dict` and `load_state_dict`, as modules of torch do, continues
where a checkpoint was made. So do methods of such an object, `functools.partial` of it, and a
`TeacherReward` with it.
"""

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from types import MethodType
from typing import Any

import torch

from selfplay.errors import SelfplayError, first_line
from selfplay.identity import called
from selfplay.rewards import TeacherReward
from selfplay.settings import without_hash
from selfplay.source_hash import mark_of

_FIRST, _NOW = "_reward.first.pt", "_reward.pt"


@dataclass(frozen=True)
class KeptRewards:
    """What a checkpoint says of rewards, by role."""

    first_states: Mapping[str, bytes] = field(default_factory=dict)
    """Before the first step."""
    states: Mapping[str, bytes] = field(default_factory=dict)
    """When the checkpoint was made."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """What was then said of those that had changed and have no `state_dict`."""


def read_rewards(checkpoint: Path, marks: Mapping[str, str]) -> KeptRewards:
    """Read what a checkpoint holds of rewards. marks: as its state has them."""
    first, now = (
        {
            role: path.read_bytes()
            for role in ("teacher", "student")
            if (path := checkpoint / f"{role}{ending}").is_file()
        }
        for ending in (_FIRST, _NOW)
    )
    return KeptRewards(first, now, marks)


def write_rewards(
    draft: Path, rewards: Iterable[tuple[str, Any]], first_states: Mapping[str, bytes]
) -> None:
    """Write the states of rewards into a checkpoint."""
    for role, reward in rewards:
        state = state_of(reward, f"{role}_reward")
        if state is not None:
            (draft / f"{role}{_FIRST}").write_bytes(first_states.get(role, state))
            (draft / f"{role}{_NOW}").write_bytes(state)


def changed_marks(rewards: Iterable[tuple[str, Any]], names: Mapping[str, str]) -> dict[str, str]:
    """Return by role what is to be said of rewards without a state that hold something else by now.

    names: by role, what was recorded of them.
    """
    marks = {}
    for role, reward in rewards:
        recorded = names[role].removeprefix(without_hash(names[role]))
        if recorded and _keeper(reward) is None and (mark := mark_of(reward)) != recorded:
            marks[role] = mark
    return marks


def state_of(reward: Any, option: str) -> bytes | None:
    """Return a reward's state as it is; None where it keeps none.

    option: what errors call it. Raises SelfplayError for a state that cannot be read again.
    """
    keeper = _keeper(reward)
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
    keeper = _keeper(reward)
    if keeper is None or not callable(getattr(keeper, "load_state_dict", None)):
        return
    try:
        keeper.load_state_dict(_unpacked(state))
    except Exception as error:  # the user's method may raise what it likes
        raise SelfplayError(
            f"{option}: load_state_dict of {called(reward)} does not take what its state_dict "
            f"returned: {type(error).__name__}: {first_line(error)}"
        ) from error


def _unpacked(state: bytes) -> Any:
    return torch.load(BytesIO(state), weights_only=True)


def _keeper(reward: Any) -> Any:
    """Return the object whose state a reward has; None where it has none."""
    while isinstance(reward, partial | TeacherReward):
        reward = reward.func if isinstance(reward, partial) else reward.function
    if isinstance(reward, MethodType):
        reward = reward.__self__
    if isinstance(reward, type):
        return None
    methods = ("state_dict", "load_state_dict")
    return reward if any(callable(getattr(reward, name, None)) for name in methods) else None
