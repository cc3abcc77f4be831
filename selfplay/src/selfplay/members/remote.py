"""The workers of a run on Ray, each with the base and all members, and one population over them.

A phase's work is cut into pieces that do not depend on the number of workers; each worker gets one
block of neighbouring pieces. The first failure of a worker ends all of them, and the run goes back
to its last checkpoint (`selfplay.training`).
"""

import logging
import os
import pickle
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec import to_builtins

from code_verifier import cores
from lora_evo import Adapter, EngineStopped
from selfplay import __version__
from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line, pip_install
from selfplay.files.rows import MemberRow
from selfplay.learning.batch import TrainingSample
from selfplay.learning.exchange import MEETING, PATIENCE, Exchange, PeerLost, open_group, open_store
from selfplay.learning.learner import Advance, MemberState
from selfplay.learning.pieces import blocks
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
from selfplay.terminal import quiet_libraries

_ANSWER_S, _ROOM_S = 5.0, 10.0
"""Seconds to wait for an answer of the cluster's head, and for enough free workers."""
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_raylet_start_wait_time_s": "60",  # a busy machine takes longer than Ray's half a minute
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^(A worker died|The node with|Raylet is |.*raylet.*RpcError)",
}
"""Ray's messages about a death, a kilobyte, are hidden; the workers' output is shown."""
_CAUSE = timedelta(seconds=10)
"""Time to wait for the error of the worker that failed first, after others lost it."""


class Worker(Population):
    """All members in a Ray actor, which does one call at a time. rank: its number.

    Lists of proposals, attempts and samples are passed as pickled bytes: Ray would pickle each of
    their thousands of items in Python.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def do(self, method: str, *arguments: Any) -> Any:
        """Call a method; return its result."""
        unpacked = (pickle.loads(a) if isinstance(a, bytes) else a for a in arguments)
        result = getattr(self, method)(*unpacked)
        return pickle.dumps(list(result)) if isinstance(result, Iterator) else result

    def meet(self, store: tuple[str, int], count: int) -> tuple[tuple[str, str], int]:
        """Connect to the others at a store; return this machine's name and address, and process."""
        ray: Any = import_module("ray")
        address = ray.util.get_node_ip_address()
        group = open_group(address, store, self._rank, count)
        self._exchange = Exchange(self._rank, count, group)
        return (socket.gethostname(), address), os.getpid()

    def open(self, config: Config, template: Template) -> tuple[dict[str, str], Any]:
        """Load the base with fresh members.

        Returns versions, and the engine's tokenizer, context and `shares_parameters`.
        """
        quiet_libraries()
        learner, engine = open_learner(config, self._exchange)
        super().__init__(learner, engine, config, template)
        facts = engine.tokenizer, engine.context, engine.shares_parameters
        return versions() | {"base": learner.base_hash}, facts

    def update(self, *arguments: Any) -> Any:
        """Return the statistics of every member as plain values: UNSET is slow to pickle."""
        return to_builtins(super().update(*arguments))

    def save_some(
        self, places: Sequence[int], folder: Path, home: Path
    ) -> Sequence[tuple[MemberState, Adapter]]:
        """Save the members of these places; return them if the folder is on another machine."""
        members = [(self.learner.member_state(p), self.export(self.members[p])) for p in places]
        if not folder.is_dir():
            return members
        for state, adapter in members:
            save_member(state, adapter, folder, home)
        return ()

    def take(self, place: int, state: MemberState) -> None:
        """Load a member's state into a place."""
        self.learner.load_member(place, state)


def versions() -> dict[str, str]:
    """Return the versions that must agree between processes; Ray itself checks Python's."""
    return {
        "selfplay": __version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }


class WorkerPool:
    """Starts workers and calls their methods. They end with the Ray session.

    ray: the connected module. gpus: of each worker, 0 or 1.
    """

    def __init__(self, ray: Any, config: Config, template: Template, gpus: int, count: int) -> None:
        self.ray, self._kind = ray, "GPU" if gpus else "core"
        self._store, place = open_store(ray.util.get_node_ip_address())
        self.places: list[tuple[str, int]] = []
        """Machine (see `machine_names`) and process id of each worker."""
        actor = ray.remote(num_cpus=1, num_gpus=gpus)(Worker)
        self.actors = [actor.remote(rank) for rank in range(count)]
        machines, processes = zip(*self.everywhere("meet", place, count), strict=True)
        self.places += zip(machine_names(machines), processes, strict=True)
        opened = self.everywhere("open", config, template)
        (first, self.facts), *_ = opened
        for rank, (installed, _) in enumerate(opened):
            check_equal(self.name(rank), installed, versions() | {"base": first["base"]})

    def name(self, rank: int) -> str:
        """Return a worker's name, with its process and machine once they are known."""
        where = [f" (process {process} on {host})" for host, process in self.places]
        return f"worker-{rank}{where[rank] if where else ''}"

    @property
    def text(self) -> str:
        """Number, kind and machines of the workers."""
        hosts, count = Counter(host for host, _ in self.places), len(self.actors)
        where = ", ".join(f"{number} on {host}" for host, number in sorted(hosts.items()))
        return f"{count} worker{'s' * (count > 1)}, one a {self._kind}: {where}"

    def everywhere(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every worker with the same arguments; return the results in order."""
        return [answer for _, answer in sorted(self.each(method, [arguments] * len(self.actors)))]

    def each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Call a method of the first workers, each with its arguments; yield rank and result.

        Raises a worker's error for the user, and EngineStopped if one died or does not answer.
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
                answer = self.ray.get(ready[0])
            except errors.RayTaskError as error:
                if isinstance(error.cause, PeerLost):  # the lost worker's own error follows
                    lost, patience = EngineStopped(f"{self.name(rank)} {error.cause}"), _CAUSE
                    continue
                is_for_user = isinstance(error.cause, ValueError | OSError)
                raise (error.cause if is_for_user else error) from None
            except errors.RayError as error:
                raise EngineStopped(f"{self.name(rank)} died: {_reason(error)}") from None
            yield rank, answer
        if lost:
            raise lost


def machine_names(machines: Sequence[tuple[str, str]]) -> list[str]:
    """Return a name for each machine: its own, with the address where several have that name.

    machines: name and address of each.
    """
    names = Counter(name for name, _ in set(machines))
    return [f"{name} ({address})" if names[name] > 1 else name for name, address in machines]


def _reason(error: Exception) -> str:
    """Return the known reason of a worker's death; Ray's message is a kilobyte of possible ones."""
    if type(error).__name__ == "OutOfMemoryError":
        return "Ray ended it, as memory ran out on its machine"
    first = first_line(error)
    if "node" in first.lower() or "unavailable" in first or "node has died" in str(error):
        return "its machine is gone"
    return "it was killed, as the system does where memory runs out"


def check_equal(worker: str, installed: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raise SelfplayError if a worker has other versions, or another base."""
    if odd := [f"{k} {installed[k]} (not {v})" for k, v in expected.items() if installed[k] != v]:
        raise SelfplayError(
            f"{worker} is not as the others: {', '.join(odd)}; install the same versions on all "
            "machines, and put the same files of the base there"
        )


class RemotePopulation(Members):
    """All members on workers, each of which has a population."""

    def __init__(self, pool: WorkerPool, config: Config, template: Template) -> None:
        tokenizer, context, shares_parameters = pool.facts
        self.prompts = Prompts(config, template, tokenizer, context)
        self.config, self.shares_parameters = config, shares_parameters
        self.pool, self._names = pool, config.founders

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._names)

    def sample_pieces(self, pieces: Sequence[Sequence[W]]) -> Iterator[Sampled]:
        shares = blocks([len(piece) for piece in pieces], len(self.pool.actors))
        sizes = [sum(len(pieces[number]) for number in share) for share in shares]
        packed = [(pickle.dumps([pieces[number] for number in share]),) for share in shares]
        for rank, answer in self.pool.each("sample_pieces", packed):
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
        packed = pickle.dumps([replace(sample, text=None) for sample in samples])
        call = self.pool.ray.put(packed), lr_factor, None, rates
        for count, (_, answer) in enumerate(self.pool.each("update", [call] * workers), 1):
            stats = answer  # of all members, from every worker
            if advance is not None:
                advance(count, workers)
        return msgspec.convert(stats, dict[str, MemberRow])

    def sync(self, step: int) -> None:
        self.pool.everywhere("sync", step)

    def export(self, member: str) -> Adapter:
        ((_, adapter),) = self.pool.each("export", [(member,)])
        return adapter  # type: ignore[no-any-return]

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        self.pool.everywhere("replace", member, self.pool.ray.put(adapter), new_name)
        self._names[self._names.index(member)] = new_name

    def set_reference(self, adapter: Adapter) -> None:
        self.pool.everywhere("set_reference", self.pool.ray.put(adapter))

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


@contextmanager
def open_workers(
    config: Config, template: Template, count: int, address: str | None, *, fewer: bool = False
) -> Iterator[RemotePopulation]:
    """Open a population on workers.

    count: workers; 0 for all free GPUs, or cores without GPUs. address: of a Ray cluster, HOST:PORT
    or `auto`; None for this machine. fewer: accept fewer workers if not all are free, as after the
    loss of a machine. Raises SelfplayError if there are not enough.
    """
    if address is None and count > cores():
        raise SelfplayError(
            f"--workers is {count}, and {cores()} cores may be used here; give at most one worker "
            "a core"
        )
    with ray_session(address, count or cores()) as ray:
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
    """Return the number of workers, with a GPU each if gpus is 1, that can start.

    Waits up to `_ROOM_S` seconds for `count`, or one: resources of ended workers become free late.
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
    """Yield the module `ray`, connected; at the end it is disconnected, which ends workers.

    address: HOST:PORT of a cluster's head, or `auto` for this machine's cluster; None starts Ray on
    this machine for `cpus` processes, at its loopback address. Raises SelfplayError, and
    EngineStopped for errors of Ray itself in the block.
    """
    # With this variable, meant for other systems, Ray binds to the loopback address only.
    local_only = {} if address else {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    for name, value in (_ENVIRONMENT | local_only).items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise SelfplayError(
            "several workers need Ray, which is not installed; type: "
            f"{pip_install('ray')}, or leave out --workers and --ray"
        ) from error
    local: dict[str, Any] = {} if address else {"num_cpus": cpus, "include_dashboard": False}
    if address not in (None, "auto"):
        _check_answers(address)
    try:
        context = ray.init(address or "local", **local, logging_level=logging.CRITICAL)
    except Exception as error:  # Ray raises a bare one for a node that does not start in time
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise SelfplayError(
            f"{where} cannot be used: {' '.join(str(error).split())}; see `ray status`, and the "
            "page on workers in the docs"
        ) from error
    with context:
        try:
            yield ray
        except ray.exceptions.RayTaskError:  # an error in a worker keeps its traceback
            raise
        except ray.exceptions.RayError as error:
            raise EngineStopped(f"Ray failed: {first_line(error)}") from error


def _check_answers(address: str) -> None:
    """Raise SelfplayError if nothing listens at an address: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, port), _ANSWER_S).close()
    except OSError as error:
        raise SelfplayError(
            f"nothing answers at {address} ({error.strerror or error}); --ray takes HOST:PORT of "
            "the cluster's head, started there with `ray start --head --port=6379`, or auto"
        ) from error
