"""What goes between processes in bulk: members' states, what they write, what they learn from.

Arrays go as they are, and are read where Ray keeps them. Of objects there are thousands, and Ray
pickles every one by way of Python: they are pickled here.
"""

import pickle
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from evals.engine.rollout import Rollout
from selfplay.learning.batch import TrainingSample
from selfplay.learning.member_state import MemberState
from selfplay.population.writing import Answered, Written
from selfplay.workers.token_rows import TokenRows

W = TypeVar("W", Written, Answered)


def pack_written(written: Iterable[tuple[int, W]]) -> tuple[TokenRows, bytes]:
    """Return what was written, each with its number, in the order of the numbers."""
    rows = [row for _, row in sorted(written, key=lambda numbered: numbered[0])]
    rollouts = [row.rollout for row in rows]
    ends = [(r.adapter, r.finish_reason) for r in rollouts]
    told = [tuple(value for name, value in vars(row).items() if name != "rollout") for row in rows]
    return TokenRows.of(rollouts), pickle.dumps((ends, told))


def read_written(packed: tuple[TokenRows, bytes], kind: type[W]) -> Iterator[W]:
    """Yield it again; tokens are arrays in the store's copy."""
    tokens, (ends, told) = packed[0], pickle.loads(packed[1])
    for row, (adapter, reason), rest in zip(tokens.views(), ends, told, strict=True):
        prompt, ids, logprobs = row
        yield kind(Rollout(adapter, prompt, ids, logprobs, reason), *rest)


def pack_samples(samples: Sequence[TrainingSample]) -> tuple[TokenRows, list[Any]]:
    """Return what there is to learn from."""
    told = [(s.member, s.advantage, s.truncated, s.role, s.task) for s in samples]
    return TokenRows.of(samples), told


def read_samples(packed: tuple[TokenRows, list[Any]]) -> list[TrainingSample]:
    """Return it again."""
    tokens, told = packed
    return [
        TrainingSample(member, *row, *rest)
        for row, (member, *rest) in zip(tokens.tuples(), told, strict=True)
    ]


def pack_state(state: MemberState) -> MemberState:
    """Return the state with numpy arrays for tensors."""
    arrays: dict[str, Any] = {key: tensor.numpy() for key, tensor in state.tensors.items()}
    return replace(state, tensors=arrays)


def read_state(state: MemberState) -> MemberState:
    """Return the state with tensors again; they are for reading only, and keep the store's copy."""
    arrays: dict[str, Any] = dict(state.tensors)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return replace(state, tensors={key: torch.from_numpy(a) for key, a in arrays.items()})
