"""One process of a distributed run: the frozen base, all members, and an engine of its own."""

import os
import pickle
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from selfplay import __version__
from selfplay.config import Config
from selfplay.learning.batch import Outcome, Shard
from selfplay.learning.exchange import Exchange, Homes, open_group
from selfplay.learning.learner import MemberState
from selfplay.machine.devices import memory_mb
from selfplay.members.opening import Population, open_learner
from selfplay.tasks.template import Template
from selfplay.terminal import quiet_libraries


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker has loaded, and what its engine samples with.

    versions: of libraries, and the hash of its base. context: tokens that the engine reads.
    """

    versions: Mapping[str, str]
    tokenizer: Any
    context: int | None
    shares_parameters: bool


class Worker:
    """An actor of Ray, asked one thing at a time. rank: its number.

    Lists of proposals, attempts and samples come and go pickled: Ray itself pickles each of their
    thousands by way of Python.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def do(self, method: str, *arguments: Any) -> tuple[Any, float, float]:
        """Call a method of this worker, or of its population where the worker has none.

        Returns what that returns, the seconds it took, and the memory of this process in megabytes.
        """
        start = time.perf_counter()
        called = getattr(self, method, None) or getattr(self._population, method)
        result = called(*(pickle.loads(a) if isinstance(a, bytes) else a for a in arguments))
        if isinstance(result, Iterator):
            result = pickle.dumps(list(result))
        return result, time.perf_counter() - start, memory_mb()

    def meet(self, store: tuple[str, int], count: int) -> tuple[str, int]:
        """Meet so many workers at a store; return this machine's name, and this process."""
        ray: Any = import_module("ray")
        group = open_group(ray.util.get_node_ip_address(), store, self._rank, count)
        machine = ray.get_runtime_context().get_node_id()
        self._exchange = Exchange(self._rank, count, group, machine)
        return socket.gethostname(), os.getpid()

    def open(self, config: Config, template: Template) -> WorkerInfo:
        """Load the base with all members, as they are born."""
        quiet_libraries()
        learner, engine = open_learner(config, self._exchange)
        self._population = Population(learner, engine, config, template)
        return WorkerInfo(
            versions() | {"base": learner.base_hash},
            engine.tokenizer,
            engine.context,
            engine.shares_parameters,
        )

    def learn(self, shards: Sequence[Shard], homes: Homes, lr_factor: float) -> dict[int, Outcome]:
        """Learn from these shards; return what came of the members that this worker owns."""
        self._population.engine.release()
        return self._population.learner.learn(shards, homes, lr_factor)

    def save(self, folder: Path, home: Path) -> Sequence[Any]:
        """Write the members that this worker owns; return them whole if the folder is not here."""
        population = self._population
        return population.save(folder, home) if folder.is_dir() else list(population.owned())

    def take(self, place: int, state: MemberState) -> None:
        """Continue a member from a state."""
        self._population.learner.load_member(place, state)


def versions() -> dict[str, str]:
    """Return the versions that must agree between processes; our packages have one together.

    Ray itself sees to that of Python.
    """
    return {
        "selfplay": __version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }
