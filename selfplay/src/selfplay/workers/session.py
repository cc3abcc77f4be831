"""Ray, started on this machine or joined, and what a run opens on it: workers and sandboxes."""

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from typing import Any, TypeVar

import click

from code_verifier import Grade, Proposal, Task, Verdict
from lora_evo import EngineStopped
from selfplay.config import Config
from selfplay.errors import SelfplayError
from selfplay.population import all_founders
from selfplay.rollout import Verifier, open_sandbox
from selfplay.workers.pool import RemotePopulation, WorkerPool

_ANSWER_S = 5.0
T = TypeVar("T")
_CHUNK = 8
"""Programs in one question: few, so that machines finish together."""
_AHEAD = 4
"""Questions that wait for each sandbox."""
_TRIES = 3


@contextmanager
def open_workers(
    config: Config, count: int, address: str | None
) -> Iterator[tuple[RemotePopulation, Verifier]]:
    """Open a run's members on workers, and its verifier: one sandbox, of a cluster one a machine.

    count: workers; 0 for as many as there are GPUs, without GPUs as processors, and at most one a
    member. address: a cluster of Ray as HOST:PORT or `auto`; None is this machine. Raises
    SelfplayError for workers that cannot be had.
    """
    names = all_founders(config)
    if count > len(names):
        raise SelfplayError(
            f"--workers is {count}, the run has {len(names)} members; give at most one worker a "
            "member"
        )
    with ExitStack() as stack:
        ray = stack.enter_context(ray_session(address, count))
        total = ray.cluster_resources()
        gpus = int(config.device != "cpu" and total.get("GPU", 0) >= 1)
        if not count:
            count = max(1, min(len(names), int(total.get("GPU" if gpus else "CPU", 1))))
        check_room(total, gpus, count)
        verifier: Verifier
        if address is None:
            verifier = stack.enter_context(open_sandbox(config))
        else:
            verifier = stack.enter_context(closing(RemoteVerifier(ray, config)))
        pool = stack.enter_context(closing(WorkerPool(ray, config, names, gpus, count)))
        yield RemotePopulation(pool, config), verifier


def check_room(total: Mapping[str, float], gpus: int, count: int) -> None:
    """Raise SelfplayError where Ray has too few processors or GPUs for so many workers."""
    for resource in ("GPU", "CPU") if gpus else ("CPU",):
        there = int(total.get(resource, 0))
        if count > there:
            raise SelfplayError(
                f"{count} workers need {count} {resource}s, Ray has {there}; give at most "
                f"--workers {max(1, there)}, or add machines with `ray start`"
            )


@contextmanager
def ray_session(address: str | None, cpus: int) -> Iterator[Any]:
    """Yield the module `ray`, connected; it is left at the end.

    address: HOST:PORT of a cluster's head, or `auto` for the one this machine belongs to; None
    starts Ray on this machine, reachable from it alone, for so many processes. Raises
    SelfplayError.
    """
    if address is None:
        # What Ray sets on other systems, where it then binds to the loopback address alone.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise SelfplayError(
            "several workers need Ray; type: pip install 'populab-selfplay[ray]'"
        ) from error
    if address is not None:
        _check_answers(address)
    options = {"address": address} if address else {"num_cpus": cpus, "include_dashboard": False}
    try:
        ray.init(**{"address": "local"} | options, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise SelfplayError(
            f"{where} cannot be used: {' '.join(str(error).split())}; see `ray status`, and the "
            "page on workers in the docs"
        ) from error
    try:
        with ray_errors(ray):
            yield ray
    finally:
        ray.shutdown()


@contextmanager
def ray_errors(ray: Any) -> Iterator[None]:
    """Turn what Ray itself cannot do into EngineStopped; other faults keep their traceback."""
    errors = ray.exceptions
    try:
        yield
    except errors.RayTaskError:
        raise
    except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
        raise EngineStopped(
            "Ray's object store is full, and so is the disk that it moves to: make room there, or "
            "start Ray with a larger --object-store-memory"
        ) from error
    except errors.RayError as error:
        raise EngineStopped(f"Ray failed: {' '.join(str(error).split())[:300]}") from error


def _check_answers(address: str) -> None:
    """Ask before Ray does, which would wait for minutes."""
    if address == "auto" or "://" in address:
        return
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise SelfplayError(
            f"--ray is {address!r}; expected HOST:PORT of the cluster's head, such as "
            "10.0.0.1:6379, or auto"
        )
    try:
        socket.create_connection((host, int(port)), _ANSWER_S).close()
    except OSError as error:
        raise SelfplayError(
            f"nothing answers at {address} ({error.strerror or error}); start the head there with "
            f"`ray start --head --port={port}`, or give the right address with --ray"
        ) from error


class VerifierActor:
    """A sandbox on one machine; an actor of Ray."""

    def __init__(self, config: Config) -> None:
        self._sandbox = open_sandbox(config)

    def validate(self, proposals: Sequence[Proposal]) -> list[Verdict]:
        """Validate proposals."""
        return list(self._sandbox.validate_many(proposals))

    def grade(self, answers: Sequence[tuple[Task, str]]) -> list[Grade]:
        """Grade answers."""
        return list(self._sandbox.grade_many(answers))


class RemoteVerifier:
    """A `Verifier` over actors, one on every machine of the cluster."""

    def __init__(self, ray: Any, config: Config) -> None:
        self._ray, self._config = ray, config
        self._deaths = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
        self._actors: dict[str, Any] = {}
        """By node."""

    def validate_many(self, proposals: Iterable[Proposal], /) -> Iterator[Verdict]:
        """Validate proposals as they come."""
        return self._verdicts(proposals, lambda actor, chunk: actor.validate.remote(chunk))

    def grade_many(self, answers: Iterable[tuple[Task, str]], /) -> Iterator[Grade]:
        """Grade answers as they come."""
        return self._verdicts(answers, lambda actor, chunk: actor.grade.remote(chunk))

    def close(self) -> None:
        """End all actors."""
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._actors = {}

    def _verdicts(self, items: Iterable[T], ask: Callable[[Any, list[T]], Any]) -> Iterator[Any]:
        """Give chunks to the actor that has least to do; yield verdicts in order."""
        self._start_missing()
        source = iter(items)
        asked: deque[tuple[Any, str, list[T]]] = deque()

        def send(chunk: list[T]) -> tuple[Any, str, list[T]]:
            load = [node for _, node, _ in asked]
            node = min(self._actors, key=load.count)
            return ask(self._actors[node], chunk), node, chunk

        def first() -> list[Any]:
            ref, node, chunk = asked.popleft()
            for _ in range(_TRIES):
                try:
                    found: list[Any] = self._ray.get(ref)
                    return found
                except self._deaths:
                    self._bury(node)
                    ref, node, _ = send(chunk)
            raise EngineStopped(f"{_TRIES} verifiers died over the same programs")

        while chunk := list(islice(source, _CHUNK)):
            if len(asked) >= _AHEAD * len(self._actors):
                yield from first()
            asked.append(send(chunk))
        while asked:
            yield from first()

    def _start_missing(self) -> None:
        """Start an actor on every machine that has none."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        self._actors = {node: actor for node, actor in self._actors.items() if node in alive}
        for node in sorted(alive - set(self._actors)):
            remote = self._ray.remote(num_cpus=0)(VerifierActor)
            place = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
            self._actors[node] = remote.options(scheduling_strategy=place).remote(self._config)

    def _bury(self, node: str) -> None:
        """Leave a dead actor out, or start another where its machine is still there."""
        if node in self._actors:
            click.echo("a verifier died; its programs are verified again", err=True)
            del self._actors[node]
            self._start_missing()
