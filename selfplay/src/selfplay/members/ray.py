"""Ray, started on this machine or joined, and the workers that a run opens on it."""

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lora_evo import EngineStopped
from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line, pip_install
from selfplay.members.remote import RemotePopulation, WorkerPool
from selfplay.tasks.template import Template

_ANSWER_S, _ROOM_S = 5.0, 10.0
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^(A worker died|The node with node id|Raylet is terminated)",
}
"""Ray's own text on a death, a kilobyte, is not shown; what workers write is."""


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
