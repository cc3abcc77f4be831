"""One process of a distributed run: the frozen base, all members, and an engine of its own."""

import os
import pickle
import socket
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from selfplay import __version__
from selfplay.config import Config
from selfplay.learning.batch import Shard, StepResult
from selfplay.learning.exchange import Exchange, Homes, open_group
from selfplay.learning.learner import MemberState
from selfplay.machine.devices import memory_mb
from selfplay.members.population import Population, open_learner
from selfplay.tasks.template import Template
from selfplay.terminal import quiet_libraries


class Worker(Population):
    """All members in an actor of Ray, asked one thing at a time. rank: its number.

    Lists of proposals, attempts and samples come and go pickled: Ray itself pickles each of their
    thousands by way of Python.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def do(self, method: str, *arguments: Any) -> tuple[Any, float, float]:
        """Call a method.

        Returns what that returns, the seconds it took, and the memory of this process in megabytes.
        """
        start = time.perf_counter()
        unpacked = (pickle.loads(a) if isinstance(a, bytes) else a for a in arguments)
        result = getattr(self, method)(*unpacked)
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

    def open(self, config: Config, template: Template) -> tuple[dict[str, str], Any]:
        """Load the base with all members, as they are born.

        Returns versions, and the engine's tokenizer, its context and whether it shares the
        learner's parameters.
        """
        quiet_libraries()
        learner, engine = open_learner(config, self._exchange)
        super().__init__(learner, engine, config, template)
        facts = engine.tokenizer, engine.context, engine.shares_parameters
        return versions() | {"base": learner.base_hash}, facts

    def learn(
        self, shards: Sequence[Shard], homes: Homes, lr_factor: float
    ) -> dict[int, StepResult]:
        """Learn from these shards; return what came of the members that this worker owns."""
        self.engine.release()
        return self.learner.learn(shards, homes, lr_factor)

    def save(self, folder: Path, home: Path) -> Any:
        """Write the members that this worker owns; return them if the folder is not here."""
        if not folder.is_dir():
            return list(self.owned())
        super().save(folder, home)
        return ()

    def take(self, place: int, state: MemberState) -> None:
        """Continue a member from a state."""
        self.learner.load_member(place, state)


def versions() -> dict[str, str]:
    """Return the versions that must agree between processes; our packages have one together.

    Ray itself sees to that of Python.
    """
    return {
        "selfplay": __version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }
