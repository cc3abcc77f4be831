"""The workers of a run, each with the base and all members, and one population over them.

A phase's work is cut into pieces that do not depend on the workers; each worker is asked once, for
neighbouring pieces. Nothing is mended here: the first failure of a worker ends them all, and the
run goes back to its last checkpoint (`selfplay.training`).
"""

import os
import pickle
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from lora_evo import Adapter, EngineStopped
from selfplay import __version__
from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line, quiet_libraries
from selfplay.files.rows import MemberRow, WorkerRow
from selfplay.learning.batch import TrainingSample
from selfplay.learning.exchange import (
    MEETING,
    PATIENCE,
    Exchange,
    PeerLost,
    open_group,
    open_store,
)
from selfplay.learning.learner import Advance, MemberState
from selfplay.machine.devices import memory_mb
from selfplay.members.pieces import blocks
from selfplay.members.population import (
    Members,
    Population,
    Sampled,
    open_learner,
    read_member,
    save_member,
)
from selfplay.sampling.prompts import Prompts
from selfplay.sampling.texts import W
from selfplay.tasks.template import Template

_CAUSE = timedelta(seconds=10)
"""How long the worker that failed first may take to be known as such, after others missed it."""


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
        self._exchange = Exchange(self._rank, count, group)
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

    def save_some(
        self, places: Sequence[int], folder: Path, home: Path
    ) -> Sequence[tuple[MemberState, Adapter]]:
        """Write the members of these places; return them if the folder is not here."""
        some = [(self.learner.member_state(p), self.export(self.members[p])) for p in places]
        if not folder.is_dir():
            return some
        for state, adapter in some:
            save_member(state, adapter, folder, home)
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


class WorkerPool:
    """Asks workers, which Ray ends with its session.

    ray: the module, connected. gpus: of each worker, 0 or 1.
    """

    def __init__(self, ray: Any, config: Config, template: Template, gpus: int, count: int) -> None:
        self.ray, self._kind = ray, "GPU" if gpus else "core"
        self._store, place = open_store(ray.util.get_node_ip_address())
        self.places: list[tuple[str, int]] = []
        """Of each worker, its machine's name and its process."""
        self.busy, self.memory_mb = [0.0] * count, [0.0] * count
        """Seconds that each has worked since they were last counted, and its largest memory."""
        actor = ray.remote(num_cpus=1, num_gpus=gpus)(Worker)
        self.actors = [actor.remote(rank) for rank in range(count)]
        self.places += self.everywhere("meet", place, count)
        opened = self.everywhere("open", config, template)
        (first, self.facts), *_ = opened
        for rank, (found, _) in enumerate(opened):
            check_equal(self.name(rank), found, versions() | {"base": first["base"]})

    def name(self, rank: int) -> str:
        """Return a worker's name, with its process and machine once they are known."""
        where = [f" (process {process} on {host})" for host, process in self.places]
        return f"worker-{rank}{where[rank] if where else ''}"

    @property
    def text(self) -> str:
        """How many workers there are, of what kind, and on which machines."""
        hosts, count = Counter(host for host, _ in self.places), len(self.actors)
        where = ", ".join(f"{number} on {host}" for host, number in hosts.items())
        return f"{count} worker{'s' * (count > 1)}, one a {self._kind}: {where}"

    def everywhere(self, method: str, *arguments: Any) -> list[Any]:
        """Ask every worker the same; return the answers in order."""
        return [answer for _, answer in sorted(self.each(method, [arguments] * len(self.actors)))]

    def each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Ask the first workers, each with its arguments; yield rank and answer as they come.

        Raises what a worker raised for the user, and EngineStopped where one has died or is silent.
        """
        pairs = zip(self.actors, arguments, strict=False)
        pending = {actor.do.remote(method, *call): rank for rank, (actor, call) in enumerate(pairs)}
        errors, lost = self.ray.exceptions, None
        patience = MEETING if method == "meet" else PATIENCE
        while pending:
            ready, _ = self.ray.wait(list(pending), timeout=patience.total_seconds())
            if not ready:
                silent = ", ".join(map(self.name, pending.values()))
                raise lost or EngineStopped(f"no answer for {patience} from {silent}")
            rank = pending.pop(ready[0])
            try:
                answer, seconds, self.memory_mb[rank] = self.ray.get(ready[0])
            except errors.RayTaskError as error:
                if isinstance(error.cause, PeerLost):  # who was lost is about to fail
                    lost, patience = EngineStopped(f"{self.name(rank)} {error.cause}"), _CAUSE
                    continue
                known = isinstance(error.cause, ValueError | OSError)
                raise (error.cause if known else error) from None
            except errors.RayError as error:
                raise EngineStopped(f"{self.name(rank)} died: {_reason(error)}") from None
            self.busy[rank] += seconds
            yield rank, answer
        if lost:
            raise lost


def _reason(error: Exception) -> str:
    """Say what is known of a worker's death; Ray's own text is a kilobyte of possible causes."""
    if type(error).__name__ == "OutOfMemoryError":
        return "Ray ended it, as memory ran out on its machine"
    if "node" in first_line(error).lower() or "unavailable" in first_line(error):
        return "its machine is gone"
    return "it was killed, as the system does where memory runs out"


def check_equal(worker: str, found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raise SelfplayError where a worker has other versions, or another base."""
    if odd := [f"{k} {found[k]} (not {v})" for k, v in expected.items() if found[k] != v]:
        raise SelfplayError(
            f"{worker} is not as the others: {', '.join(odd)}; install the same versions on all "
            "machines, and put the same files of the base there"
        )


class RemotePopulation(Members):
    """All members on workers, which hold a population each."""

    def __init__(self, pool: WorkerPool, config: Config, template: Template) -> None:
        tokenizer, context, shares_parameters = pool.facts
        prompts = Prompts(config, template, tokenizer, context)
        super().__init__(config, prompts, shares_parameters)
        self.pool, self._names = pool, config.founders

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._names)

    def sampled(self, pieces: Sequence[Sequence[W]]) -> Iterator[Sampled]:
        shares = blocks([len(piece) for piece in pieces], len(self.pool.actors))
        sizes = [sum(len(pieces[number]) for number in share) for share in shares]
        packed = [(pickle.dumps([pieces[number] for number in share]),) for share in shares]
        for rank, answer in self.pool.each("sampled", packed):
            for number, rollout, read in pickle.loads(answer):
                yield sum(sizes[:rank]) + number, rollout, read

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
    ) -> dict[str, MemberRow]:
        workers, stats = len(self.pool.actors), dict[str, MemberRow]()
        call = self.pool.ray.put(pickle.dumps(samples)), lr_factor
        for done, (_, answer) in enumerate(self.pool.each("update", [call] * workers), 1):
            stats = answer  # of all members, from every worker
            if advance is not None:
                advance(done, workers)
        return stats

    def sync(self, step: int) -> None:
        self.pool.everywhere("sync", step)

    def export(self, member: str) -> Adapter:
        ((_, adapter),) = self.pool.each("export", [(member,)])
        return adapter  # type: ignore[no-any-return]

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        self.pool.everywhere("replace", member, self.pool.ray.put(adapter), new_name)
        self._names[self._names.index(member)] = new_name

    def save(self, folder: Path, home: Path) -> None:
        workers = len(self.pool.actors)
        parts = [(range(len(self._names))[rank::workers], folder, home) for rank in range(workers)]
        for _, members in self.pool.each("save_some", parts):
            for state, adapter in members:  # of a machine without this folder
                save_member(state, adapter, folder, home)

    def load(self, folder: Path, names: Sequence[str]) -> None:
        for place, name in enumerate(names):
            self.pool.everywhere("take", place, self.pool.ray.put(read_member(folder, name)))
        self._names = list(names)

    def end_step(self) -> dict[str, WorkerRow]:
        pool, rows = self.pool, {}
        for rank, (host, _) in enumerate(pool.places):
            busy = round(pool.busy[rank], 4)
            rows[f"worker-{rank}"] = WorkerRow(host, busy, pool.memory_mb[rank])
            pool.busy[rank] = 0.0
        return rows
