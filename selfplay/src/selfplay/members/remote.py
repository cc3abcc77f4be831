"""The workers of a run on Ray, each with the base and all members, and one population over them.

A phase's work is cut into pieces that do not depend on the workers; each worker is asked once, for
neighbouring pieces. Nothing is mended here: the first failure of a worker ends them all, and the
run goes back to its last checkpoint (`selfplay.training`).
"""

import logging
import os
import pickle
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec import to_builtins

from lora_evo import Adapter, EngineStopped
from selfplay import __version__
from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line, pip_install, quiet_libraries
from selfplay.files.rows import MemberRow, WorkerRow
from selfplay.learning.batch import TrainingSample, blocks
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

_ANSWER_S, _ROOM_S = 5.0, 10.0
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^(A worker died|The node with node id|Raylet is terminated)",
}
"""Ray's own text on a death, a kilobyte, is not shown; what workers write is."""
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

    def update(self, *given: Any) -> Any:
        """Return the statistics of every member as plain values; pickle looks for UNSET in all
        modules."""
        return to_builtins(super().update(*given))

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
        rates: Mapping[str, float] | None = None,
    ) -> dict[str, MemberRow]:
        workers, stats = len(self.pool.actors), dict[str, MemberRow]()
        call = self.pool.ray.put(pickle.dumps(samples)), lr_factor, None, rates
        for done, (_, answer) in enumerate(self.pool.each("update", [call] * workers), 1):
            stats = answer  # of all members, from every worker
            if advance is not None:
                advance(done, workers)
        return msgspec.convert(stats, dict[str, MemberRow])

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


@contextmanager
def open_workers(
    config: Config, template: Template, count: int, address: str | None, *, fewer: bool = False
) -> Iterator[RemotePopulation]:
    """Open a run on workers.

    count: workers; 0 for as many as there are free GPUs, without GPUs as processors. address: a
    cluster of Ray as HOST:PORT or `auto`; None is this machine. fewer: take what is free where that
    is less, as after a machine was lost. Raises SelfplayError for workers that cannot be had.
    """
    cores = len(os.sched_getaffinity(0))
    if address is None and count > cores:
        raise SelfplayError(
            f"--workers is {count}, this machine has {cores} cores; give at most one worker a core"
        )
    with ray_session(address, count or cores) as ray:
        gpus = int(config.device != "cpu" and ray.cluster_resources().get("GPU", 0) >= 1)
        free = free_workers(ray, gpus, count)
        if not free or (count > free and not fewer):
            resource = "GPU" if gpus else "CPU"
            there = int(ray.cluster_resources().get(resource, 0))
            raise SelfplayError(
                f"{count or 1} workers need {count or 1} {resource}s and as many CPUs; Ray has "
                f"{there}, of which {free} are free: give no more, wait, or add machines with "
                "`ray start`"
            )
        pool = WorkerPool(ray, config, template, gpus, min(count or free, free))
        yield RemotePopulation(pool, config, template)


def free_workers(ray: Any, gpus: int, count: int) -> int:
    """Return for how many workers, of at most one GPU each, there is room.

    Waits for some seconds where that is less than `count`, or none: workers that have just ended
    leave theirs a moment later.
    """
    end = time.monotonic() + _ROOM_S
    while True:
        resources = ray.available_resources()
        free = int(min(resources.get(name, 0) for name in ("CPU", "GPU")[: 1 + gpus]))
        if free >= max(1, count) or time.monotonic() > end:
            return free
        time.sleep(0.1)


@contextmanager
def ray_session(address: str | None, cpus: int) -> Iterator[Any]:
    """Yield the module `ray`, connected; it is left at the end, which ends workers.

    address: HOST:PORT of a cluster's head, or `auto` for the one this machine belongs to; None
    starts Ray on this machine, reachable from it alone, for so many processes. Raises
    SelfplayError.
    """
    # The last is what Ray sets on other systems, where it then binds to the loopback address alone.
    alone = {} if address else {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    for name, value in (_ENVIRONMENT | alone).items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise SelfplayError(
            "several workers need Ray, which is not installed; type: "
            f"{pip_install('ray')}, or leave out --workers and --ray"
        ) from error
    local = {"address": "local", "num_cpus": cpus, "include_dashboard": False}
    options = {"address": address} if address else local
    if address not in (None, "auto"):
        _check_answers(address)
    try:
        context = ray.init(**options, logging_level=logging.CRITICAL)
    except Exception as error:  # a node that does not start in time is a bare one
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise SelfplayError(
            f"{where} cannot be used: {' '.join(str(error).split())}; see `ray status`, and the "
            "page on workers in the docs"
        ) from error
    with context, ray_errors(ray):
        yield ray


@contextmanager
def ray_errors(ray: Any) -> Iterator[None]:
    """Turn what Ray itself cannot do into EngineStopped; other faults keep their traceback."""
    try:
        yield
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.RayTaskError):
            raise
        raise EngineStopped(f"Ray failed: {first_line(error)}") from error


def _check_answers(address: str) -> None:
    """Ask before Ray does, which would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, port), _ANSWER_S).close()
    except OSError as error:
        raise SelfplayError(
            f"nothing answers at {address} ({error.strerror or error}); --ray takes HOST:PORT of "
            "the cluster's head, started there with `ray start --head --port=6379`, or auto"
        ) from error
