"""Ray, started on this machine or joined, and the workers that a run opens on it."""

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from lora_evo import EngineStopped
from selfplay.config import Config
from selfplay.errors import SelfplayError, pip_install
from selfplay.prompts.template import Template
from selfplay.workers.pool import RemotePopulation, WorkerPool

_ANSWER_S, _ROOM_S = 5.0, 10.0


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
    with ExitStack() as stack:
        ray = stack.enter_context(ray_session(address, count or cores))
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
        count = min(count or free, free)
        pool = WorkerPool(ray, config, template, gpus, count, alone=address is None)
        yield RemotePopulation(stack.enter_context(closing(pool)), config, template)


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
    """Yield the module `ray`, connected; it is left at the end.

    address: HOST:PORT of a cluster's head, or `auto` for the one this machine belongs to; None
    starts Ray on this machine, reachable from it alone, for so many processes. What workers write
    is shown, and what Ray itself writes of them is not. Raises SelfplayError.
    """
    if address is None:
        # What Ray sets on other systems, where it then binds to the loopback address alone.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise SelfplayError(f"several workers need Ray; type: {pip_install('ray')}") from error
    if address is not None:
        _check_answers(address)
    options = {"address": address} if address else {"num_cpus": cpus, "include_dashboard": False}
    try:
        _show_workers_alone()
        ray.init(**{"address": "local"} | options, logging_level=logging.CRITICAL)
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


def _show_workers_alone() -> None:
    """Keep what Ray's own processes write of a worker's death, a kilobyte, off the terminal."""
    from ray._private import worker

    shown: Any = getattr(worker, "print_worker_logs", None)
    if getattr(shown, "__name__", "") == "print_worker_logs":  # once, and where Ray has it

        def without_raylet(data: dict[str, Any], *how: Any, **more: Any) -> None:
            if data.get("pid") not in ("raylet", "autoscaler"):
                shown(data, *how, **more)

        worker.print_worker_logs = without_raylet


@contextmanager
def ray_errors(ray: Any) -> Iterator[None]:
    """Turn what Ray itself cannot do into EngineStopped; other faults keep their traceback."""
    errors = ray.exceptions
    try:
        yield
    except errors.RayTaskError:
        raise
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
