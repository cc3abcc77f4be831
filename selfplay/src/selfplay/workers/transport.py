"""What goes between processes in bulk, as arrays: members' states, and samples with their text."""

import warnings
from array import array
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from evals.engine.rollout import Rollout, TokenRequest
from evals.engine.rollout_engine import RolloutEngine
from selfplay.learning.member_state import MemberState


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample as a worker returns it; the driver knows the prompt and need not decode."""

    text: str
    completion_ids: "array[int]"
    logprobs: "array[float]"
    finish_reason: Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class ReadRollout(Rollout):
    """A rollout whose text is known; its tokens are arrays, a tenth of the size of tuples."""

    text: str


def sample_of(engine: RolloutEngine, rollout: Rollout) -> Sample:
    """Return what the driver needs of a rollout."""
    return Sample(
        engine.completion(rollout).text,
        array("i", rollout.completion_ids),
        array("d", rollout.logprobs),
        rollout.finish_reason,
    )


def read_rollout(request: TokenRequest, sample: Sample) -> ReadRollout:
    """Return a sample as the rollout of its request."""
    ids: Any = sample.completion_ids
    logprobs: Any = sample.logprobs
    reason = sample.finish_reason
    return ReadRollout(request.adapter, request.prompt_ids, ids, logprobs, reason, sample.text)


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
