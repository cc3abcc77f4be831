"""One process of a distributed run: the frozen base, some of the members, and their engine."""

import hashlib
import os
import pickle
import platform
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import torch
from torch import nn

from lora_evo import Adapter
from selfplay.config.run_config import RunConfig
from selfplay.console import silence_transformers
from selfplay.learning.member_state import MemberState
from selfplay.learning.update_stats import UpdateStats
from selfplay.population.memory import memory_mb
from selfplay.population.opening import open_learner, open_template
from selfplay.population.publishing import Publisher
from selfplay.population.writing import LocalWriters
from selfplay.workers.token_rows import TokenRows
from selfplay.workers.transport import pack_state, pack_written, read_samples, read_state

T = TypeVar("T")
P = ParamSpec("P")
_PACKAGES = ("lora_evo", "code_verifier", "league", "evals", "selfplay", "torch", "transformers")
_PROBE = 64
"""Numbers of every tensor that a base is told by."""


@dataclass(frozen=True)
class Done(Generic[T]):
    """What a worker returns."""

    result: T
    seconds: float
    memory_mb: float


@dataclass(frozen=True)
class About:
    """Who a worker is, and what its engine samples with."""

    host: str
    process: int
    versions: Mapping[str, str]
    base: str
    """Hash of the base's shapes and of some of its weights."""
    tokenizer: Any
    context: int | None
    """Tokens that the engine reads."""
    max_rows: int
    shares_parameters: bool


def _timed(
    method: Callable[Concatenate["Worker", P], T],
) -> Callable[Concatenate["Worker", P], Done[T]]:
    def done(self: "Worker", /, *args: P.args, **kwargs: P.kwargs) -> Done[T]:
        start = time.perf_counter()
        result = method(self, *args, **kwargs)
        return Done(result, time.perf_counter() - start, memory_mb())

    return done


class Worker:
    """An actor of Ray, asked one thing at a time."""

    @_timed
    def open(self, config: RunConfig, members: Sequence[str]) -> About:
        """Load the base with these members, as they are born; return what the driver needs."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        silence_transformers()
        self._learner, self._engine = engine = open_learner(config, members)
        self._publisher = Publisher(*engine, config.dtype)
        self._writers = LocalWriters(self._engine, open_template(config), config.rollout)
        return About(
            socket.gethostname(),
            os.getpid(),
            versions(),
            fingerprint(self._learner.model),
            self._engine.tokenizer,
            self._engine.context,
            self._engine.max_rows,
            self._engine.shares_parameters,
        )

    @_timed
    def states(self) -> list[MemberState]:
        """Return the states of all members."""
        return [pack_state(self._learner.member_state(member)) for member in self._learner.members]

    @_timed
    def load(self, states: Sequence[MemberState], step: int) -> None:
        """Go on from these states, one for each place, as of this step."""
        self._learner.load_members([read_state(state) for state in states])
        self._publisher.publish(step)

    @_timed
    def propose(self, drafts: bytes) -> tuple[TokenRows, bytes]:
        """Let members, or the base, write proposals."""
        return pack_written(self._writers.proposals(pickle.loads(drafts)))

    @_timed
    def solve(self, trials: bytes) -> tuple[TokenRows, bytes]:
        """Let members, or the base, try tasks."""
        return pack_written(self._writers.answers(pickle.loads(trials)))

    @_timed
    def update(
        self, samples: tuple[TokenRows, list[Any]], lr_factor: float
    ) -> tuple[dict[str, UpdateStats], list[MemberState]]:
        """Learn; return the statistics and the new states of the members that had samples."""
        self._engine.release()
        stats = self._learner.update(read_samples(samples), lr_factor)
        return stats, [pack_state(self._learner.member_state(member)) for member in stats]

    @_timed
    def replace(self, member: str, adapter: Adapter, new_name: str) -> MemberState:
        """Put an adapter in a member's place; return the new state."""
        self._learner.replace(member, adapter, new_name)
        return pack_state(self._learner.member_state(new_name))

    @_timed
    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter."""
        return self._learner.export(member)

    @_timed
    def publish(self, step: int) -> None:
        """Let an engine with adapters of its own sample from the members as they are."""
        self._engine.restore()
        self._publisher.publish(step)


def versions() -> dict[str, str]:
    """The versions that must agree between processes."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in _PACKAGES:
        ours = name not in ("torch", "transformers")
        try:
            found[name] = version(f"populab-{name.replace('_', '-')}" if ours else name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


@torch.no_grad()
def fingerprint(model: nn.Module) -> str:
    """Hash of the names, shapes and first numbers of all weights that are not adapters."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        if ".lora_" not in name:
            digest.update(f"{name} {tuple(weight.shape)}".encode())
            digest.update(weight.flatten()[:_PROBE].float().cpu().numpy().tobytes())
    return digest.hexdigest()
