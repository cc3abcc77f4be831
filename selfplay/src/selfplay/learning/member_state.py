"""What continues one member's training elsewhere, and all members' states as one checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from selfplay.errors import SelfplayError

NamedState = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors (for safetensors) and plain values (for JSON)."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """One member of a learner at one moment."""

    name: str
    tensors: Mapping[str, Tensor]
    """`weights/<module>.lora_A`, `exp_avg/...`, `exp_avg_sq/...`."""
    optimizer: Mapping[str, float]
    """Step count and learning rate."""
    noise: Mapping[str, Mapping[str, float]]
    """Averages of the gradient noise by role."""


def joined(states: Sequence[MemberState]) -> NamedState:
    """Return the members' states in the order of their places; tensors under `<place>/<name>`."""
    tensors = {
        f"{place}/{key}": tensor
        for place, state in enumerate(states)
        for key, tensor in state.tensors.items()
    }
    return tensors, {
        "members": [state.name for state in states],
        "optimizer": [dict(state.optimizer) for state in states],
        "noise": {
            f"{place}/{role}": dict(average)
            for place, state in enumerate(states)
            for role, average in sorted(state.noise.items())
        },
    }


def parted(tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> list[MemberState]:
    """Take apart what `joined` returned. Raises SelfplayError when parts are missing."""
    names, scalars = [str(name) for name in values["members"]], values["optimizer"]
    if len(scalars) != len(names):
        raise SelfplayError(f"the state has {len(names)} members, expected {len(scalars)}")
    own: list[dict[str, Tensor]] = [{} for _ in names]
    noise: list[dict[str, Mapping[str, float]]] = [{} for _ in names]
    try:
        for key, tensor in tensors.items():
            place, _, name = key.partition("/")
            own[int(place)][name] = tensor
        for key, average in values.get("noise", {}).items():
            place, _, role = key.partition("/")
            noise[int(place)][role] = average
    except (IndexError, ValueError) as error:
        raise SelfplayError(f"the state has {len(names)} members and a part {key!r}") from error
    return [MemberState(*parts) for parts in zip(names, own, scalars, noise, strict=True)]


def check_shapes(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], what: str) -> None:
    """Raise SelfplayError unless every expected tensor is there in its shape."""
    for key, like in expected.items():
        shape = tuple(found[key].shape) if key in found else None
        if shape != tuple(like.shape):
            raise SelfplayError(f"{what} {key!r}: found {shape}, expected {tuple(like.shape)}")
