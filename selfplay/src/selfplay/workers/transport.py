"""Members' states between processes: as arrays, which Ray's object store shares without copies."""

import warnings
from dataclasses import replace
from typing import Any

import torch

from selfplay.learning.member_state import MemberState


def packed(state: MemberState) -> MemberState:
    """Return the state with numpy arrays for tensors."""
    arrays: dict[str, Any] = {key: tensor.numpy() for key, tensor in state.tensors.items()}
    return replace(state, tensors=arrays)


def unpacked(state: MemberState) -> MemberState:
    """Return the state with tensors again; they are for reading only, and keep the store's copy."""
    arrays: dict[str, Any] = dict(state.tensors)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return replace(state, tensors={key: torch.from_numpy(a) for key, a in arrays.items()})
