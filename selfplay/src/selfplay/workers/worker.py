"""One process of a distributed run: the frozen base, all members, and an engine of its own."""

import os
import pickle
import platform
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers

from lora_evo import Adapter
from selfplay import __version__
from selfplay.config import Config
from selfplay.devices import memory_mb
from selfplay.errors import silence_transformers
from selfplay.learning.batch import Outcome, Shard
from selfplay.learning.exchange import Exchange, Homes, open_group
from selfplay.learning.learner import MemberState
from selfplay.members import SavedMember
from selfplay.opening import Population, open_learner, read_member, save_member
from selfplay.prompts.template import Template


@dataclass(frozen=True)
class Place:
    """Where a worker is.

    node: Ray's name of the machine. address: that other workers reach. store: the port at which
    they meet, if it is the first.
    """

    host: str
    node: str
    address: str
    process: int
    store: int


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker has loaded, and what its engine samples with.

    identity: versions, and the hash of its base. context: tokens that the engine reads.
    """

    identity: Mapping[str, str]
    tokenizer: Any
    context: int | None
    shares_parameters: bool


class Worker:
    """An actor of Ray, asked one thing at a time.

    Lists of proposals, attempts and samples come and go pickled: Ray itself pickles each of their
    thousands by way of Python.
    """

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

    def meet(self, alone: bool) -> Place:
        """Return where this worker is, ready for others to meet here.

        alone: whether all workers are on this machine, which nobody else then reaches.
        """
        ray: Any = import_module("ray")
        address = "127.0.0.1" if alone else ray.util.get_node_ip_address()
        self._listener = socket.create_server((address, 0))
        node, port = ray.get_runtime_context().get_node_id(), self._listener.getsockname()[1]
        return Place(socket.gethostname(), node, address, os.getpid(), port)

    def open(
        self, config: Config, template: Template, rank: int, places: Sequence[Place]
    ) -> WorkerInfo:
        """Meet the other workers, and load the base with all members, as they are born."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        silence_transformers()
        store = places[0].address, places[0].store
        listener = None if rank else self._listener
        group = open_group(places[rank].address, store, rank, len(places), listener)
        exchange = Exchange(rank, [place.node for place in places], group)
        learner, engine = open_learner(config, exchange)
        self._population = Population(learner, engine, config, template)
        identity = versions() | {"base": learner.base_hash}
        return WorkerInfo(identity, engine.tokenizer, engine.context, engine.shares_parameters)

    def learn(self, shards: Sequence[Shard], homes: Homes, lr_factor: float) -> dict[int, Outcome]:
        """Learn from these shards; return what came of the members that this worker owns."""
        self._population.engine.release()
        return self._population.learner.learn(shards, homes, lr_factor)

    def save(
        self, folder: Path, home: Path
    ) -> dict[int, SavedMember | tuple[MemberState, Adapter]]:
        """Write the members that this worker owns, as `Population.save`.

        Returns them by place, whole where the folder is on another machine's disk alone.
        """
        learner, saved = self._population.learner, {}
        for place in learner.exchange.owned(len(learner.members)):
            state = learner.member_state(place)
            adapter = learner.export(state.name)
            here = folder.is_dir()
            saved[place] = save_member(state, adapter, folder, home) if here else (state, adapter)
        return saved

    def take(self, place: int, folder: Path, saved: SavedMember, state: MemberState | None) -> None:
        """Continue a member from a state, or without it from what is in a folder here."""
        self._population.learner.load_member(place, state or read_member(folder, saved))


def versions() -> dict[str, str]:
    """Return the versions that must agree between processes; our packages have one together."""
    return {
        "python": platform.python_version().rpartition(".")[0],
        "selfplay": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
