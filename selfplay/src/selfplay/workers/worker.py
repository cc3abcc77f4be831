"""One process of a distributed run: the frozen base, some of the members, and their engine."""

import hashlib
import os
import pickle
import platform
import socket
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers
from torch import nn

from lora_evo import Adapter
from selfplay import __version__
from selfplay.config import Config
from selfplay.devices import memory_mb
from selfplay.errors import silence_transformers
from selfplay.learning.batch import TrainingSample
from selfplay.learning.learner import MemberState
from selfplay.learning.statistics import UpdateStats
from selfplay.opening import Population, open_learner
from selfplay.prompts.template import Template

_PROBE = 64
"""Numbers of every tensor that identify a base."""


@dataclass(frozen=True)
class Reply:
    """What a worker returns."""

    result: Any
    seconds: float
    memory_mb: float
    changed: tuple[str | None, ...] = ()
    """By place, the name of the member where it has become another."""


@dataclass(frozen=True)
class WorkerInfo:
    """Who a worker is, and what its engine samples with."""

    host: str
    node: str
    """Ray's name of the machine."""
    process: int
    versions: Mapping[str, str]
    base: str
    """Hash of the base's shapes and of some of its weights."""
    tokenizer: Any
    context: int | None
    """Tokens that the engine reads."""
    base_rows: int
    shares_parameters: bool


class Worker:
    """An actor of Ray, asked one thing at a time: a population of some of the members.

    Lists of proposals, attempts and samples come and go pickled: Ray itself pickles each of their
    thousands by way of Python.
    """

    def do(self, method: str, *arguments: Any) -> Reply:
        """Call a method of this worker, or of its population where the worker has none."""
        start = time.perf_counter()
        called = getattr(self, method, None) or getattr(self._population, method)
        result = called(*(pickle.loads(a) if isinstance(a, bytes) else a for a in arguments))
        if isinstance(result, Iterator):
            result = pickle.dumps(list(result))
        return Reply(result, time.perf_counter() - start, memory_mb())

    def change(self, method: str, *arguments: Any) -> tuple[Reply | MemberState | None, ...]:
        """Call a method of this worker that changes members; return also each place's new state.

        The states stay in Ray's store on this machine until somebody asks for them; that of a
        member that is as it was is None.
        """
        start, done = time.perf_counter(), self.do(method, *arguments)
        result, names = done.result
        changed = tuple(n if n in names else None for n in self._population.members)
        state_of = self._population.learner.member_state
        states = [None if name is None else pack_state(state_of(name)) for name in changed]
        seconds = time.perf_counter() - start
        return replace(done, result=result, seconds=seconds, changed=changed), *states

    def open(self, config: Config, template: Template, members: Sequence[str]) -> WorkerInfo:
        """Load the base with these members, as they are born; return what the driver needs."""
        import ray

        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        silence_transformers()
        self._population = Population(*open_learner(config, members), config, template)
        self._held: dict[int, MemberState] = {}
        engine = self._population.engine
        return WorkerInfo(
            socket.gethostname(),
            ray.get_runtime_context().get_node_id(),
            os.getpid(),
            versions(),
            fingerprint(self._population.learner.model),
            engine.tokenizer,
            engine.context,
            engine.base_rows,
            engine.shares_parameters,
        )

    def states(self) -> tuple[None, tuple[str, ...]]:
        """Return the names of all members, which all count as changed."""
        return None, self._population.members

    def load(self, step: int, *states: MemberState) -> None:
        """Continue from these states, one for each place, as of this step."""
        self._population.learner.load_members([read_state(state) for state in states])
        self._population.sync(step)

    def hold(self, places: Sequence[int], *states: MemberState) -> None:
        """Keep other workers' states in this machine's store until there are newer ones."""
        self._held |= dict(zip(places, states, strict=True))

    def update(
        self, samples: Sequence[TrainingSample], lr_factor: float
    ) -> tuple[dict[str, UpdateStats], tuple[str, ...]]:
        """Learn; return the statistics, and the members that had samples."""
        stats = self._population.update(samples, lr_factor)
        return stats, tuple(stats)

    def replace(self, member: str, adapter: Adapter, new_name: str) -> tuple[None, tuple[str, ...]]:
        """Put an adapter in a member's place; return the new name."""
        self._population.replace(member, adapter, new_name)
        return None, (new_name,)


def versions() -> dict[str, str]:
    """Return the versions that must agree between processes; our packages have one together."""
    return {
        "python": platform.python_version().rpartition(".")[0],
        "selfplay": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


@torch.no_grad()
def fingerprint(model: nn.Module) -> str:
    """Hash of the names, shapes and first numbers of all weights that are not adapters."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        if ".lora_" not in name:
            digest.update(f"{name} {tuple(weight.shape)}".encode())
            digest.update(weight.flatten()[:_PROBE].float().cpu().numpy().tobytes())
    return digest.hexdigest()


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
