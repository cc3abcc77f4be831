"""Workers as actors of Ray: started, checked, asked, ended."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from lora_evo import EngineStopped
from selfplay.config import Config
from selfplay.errors import SelfplayError
from selfplay.workers.worker import About, Done, Worker, versions

_ROOM_S = 10.0
"""How long to wait for room that a dead worker may leave."""
_PATIENCE_S = 30.0
"""After how many seconds a line says what is waited for."""


@dataclass
class Share:
    """A worker and the places of its members."""

    name: str
    actor: Any
    places: tuple[int, ...]
    host: str = ""
    process: int = 0
    busy: float = 0.0
    """Seconds that it has worked since they were last counted."""
    memory_mb: float = 0.0


class Actors:
    """Starts workers of one run, and takes their answers.

    ray: the module, connected. founders: names of all places' first members. gpus: of each worker.
    """

    def __init__(self, ray: Any, config: Config, founders: Sequence[str], gpus: int) -> None:
        self._ray, self._config, self._founders = ray, config, founders
        needs = {"num_cpus": 1, "num_gpus": gpus}
        self._class = ray.remote(max_restarts=0, max_task_retries=0, **needs)(Worker)
        self._resource, self._each = ("GPU", gpus) if gpus else ("CPU", 1)
        self._count = 0
        errors = ray.exceptions
        self.deaths: tuple[type[Exception], ...] = (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.NodeDiedError,
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
        )
        """What Ray raises when a worker, or the machine that held its answer, is gone."""

    def start(self, parts: Sequence[tuple[int, ...]]) -> tuple[list[Share], About]:
        """Start a worker for each tuple of places, with the members as they were born.

        Raises SelfplayError when they have other versions or another base than each other.
        """
        shares = []
        for places in parts:
            name = f"worker-{self._count}"
            self._count += 1
            shares.append(Share(name, self._class.remote(), places))
        born = [[self._founders[place] for place in share.places] for share in shares]
        asked = [
            share.actor.open.remote(self._config, names)
            for share, names in zip(shares, born, strict=True)
        ]
        try:
            if len(self._ray.wait(asked, num_returns=len(asked), timeout=_PATIENCE_S)[1]):
                line = f"{len(asked)} workers load the base model, or wait for room in Ray ..."
                click.echo(line, err=True)
            found: list[About] = [
                self.answer(r, share) for r, share in zip(asked, shares, strict=True)
            ]
            for share, about in zip(shares, found, strict=True):
                share.host, share.process = about.host, about.process
            _check_equal(shares, found)
        except self.deaths as error:
            self.end(shares)
            raise EngineStopped(f"a worker died while it started: {why(error)}") from error
        except BaseException:
            self.end(shares)
            raise
        return shares, found[0]

    def answer(self, ref: Any, share: Share) -> Any:
        """Wait for an answer; what a worker raised for the user is raised here."""
        try:
            done: Done[Any] = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ValueError | OSError):
                raise error.cause from None
            raise
        share.busy += done.seconds
        share.memory_mb = done.memory_mb
        return done.result

    def first(self, refs: Sequence[Any]) -> Any:
        """Wait until one of these is answered, and return it."""
        (ref,), _ = self._ray.wait(list(refs), num_returns=1)
        return ref

    def end(self, shares: Sequence[Share]) -> None:
        """End workers, dead or alive."""
        for share in shares:
            self._ray.kill(share.actor)

    def room(self) -> int:
        """For how many more workers there is room now."""
        free: float = self._ray.available_resources().get(self._resource, 0.0)
        return int(free / self._each)

    def has_room(self, count: int) -> bool:
        """Whether there is, within seconds, room for so many."""
        end = time.monotonic() + _ROOM_S
        while self.room() < count:
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True


def why(error: BaseException) -> str:
    """Return the first line of what Ray says of a death."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


Ask = Callable[[Share], Any]
"""Sends a worker a question and returns the reference of the answer."""


def _check_equal(shares: Sequence[Share], found: Sequence[About]) -> None:
    own = versions()
    for share, about in zip(shares, found, strict=True):
        odd = [f"{k} {v} (here {own[k]})" for k, v in about.versions.items() if v != own[k]]
        if odd:
            raise SelfplayError(
                f"{share.name} on {share.host} has other versions: {', '.join(odd)}; install the "
                "same on all machines"
            )
        if about.base != found[0].base:
            raise SelfplayError(
                f"{share.name} on {share.host} has another base model than {shares[0].name} on "
                f"{shares[0].host} under the same name; put the same files on all machines"
            )
