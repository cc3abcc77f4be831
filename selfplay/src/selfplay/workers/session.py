"""Ray: started on this machine, or joined where somebody started it."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from evals.errors import EngineStopped
from selfplay.errors import SelfplayError

_ANSWER_S = 5.0


def require_ray() -> None:
    """Raise SelfplayError, with what to type, when there is no Ray."""
    if find_spec("ray") is None:
        raise SelfplayError(
            "several workers need Ray, which is not installed; type: pip install "
            "'populab-selfplay[ray]', or leave out --workers and --ray"
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
    require_ray()
    import ray

    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is not None:
        _check_answers(address)
    try:
        if address is None:
            ray.init("local", num_cpus=cpus, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise SelfplayError(
            f"{where} cannot be used: {' '.join(str(error).split())}; see `ray status`, and the "
            "page on workers in the docs"
        ) from error
    try:
        with told_by_ray(ray):
            yield ray
    finally:
        ray.shutdown()


@contextmanager
def told_by_ray(ray: Any) -> Iterator[None]:
    """Turn what Ray itself cannot do into EngineStopped; faults of ours keep their traceback."""
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
    host, colon, port = address.rpartition(":")
    if address == "auto" or "://" in address:
        return
    if not colon or not port.isdigit():
        raise SelfplayError(
            f"--ray is {address!r}; expected HOST:PORT of the cluster's head, such as "
            "10.0.0.1:6379, or auto"
        )
    try:
        socket.create_connection((host, int(port)), _ANSWER_S).close()
    except OSError as error:
        raise SelfplayError(
            f"nobody answers at {address} ({error.strerror or error}); start the head there with "
            f"`ray start --head --port={port}`, or give the right address with --ray"
        ) from error
