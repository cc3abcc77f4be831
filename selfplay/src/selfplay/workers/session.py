"""Ray, started on this machine or joined, and the workers that a run opens on it."""

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from lora_evo import EngineStopped
from selfplay.config import Config
from selfplay.errors import SelfplayError, pip_install
from selfplay.members import all_founders
from selfplay.prompts.template import Template
from selfplay.workers.pool import RemotePopulation, WorkerPool

_ANSWER_S = 5.0


@contextmanager
def open_workers(
    config: Config, template: Template, count: int, address: str | None
) -> Iterator[RemotePopulation]:
    """Open a run's members on workers.

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
        ray = stack.enter_context(ray_session(address, count, config.engine == "vllm"))
        total = ray.cluster_resources()
        gpus = int(config.device != "cpu" and total.get("GPU", 0) >= 1)
        if not count:
            count = max(1, min(len(names), int(total.get("GPU" if gpus else "CPU", 1))))
        check_room(total, gpus, count)
        pool = stack.enter_context(closing(WorkerPool(ray, config, template, names, gpus, count)))
        yield RemotePopulation(pool, config, template)


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
def ray_session(address: str | None, cpus: int, show: bool) -> Iterator[Any]:
    """Yield the module `ray`, connected; it is left at the end.

    address: HOST:PORT of a cluster's head, or `auto` for the one this machine belongs to; None
    starts Ray on this machine, reachable from it alone, for so many processes (0: all). show: print
    what workers print, as vLLM's processes do when they fail. Raises SelfplayError.
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
    options = (
        {"address": address} if address else {"num_cpus": cpus or None, "include_dashboard": False}
    )
    try:
        ray.init(**{"address": "local"} | options, logging_level=logging.ERROR, log_to_driver=show)
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
