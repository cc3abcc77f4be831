"""The sandboxes of all machines of a cluster, as one verifier."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import click

from code_verifier import Grade, Proposal, Task, Verdict
from lora_evo import EngineStopped
from selfplay.config import Config
from selfplay.verifier import open_sandbox

T = TypeVar("T")
_CHUNK = 8
"""Programs in one question: few, so that machines finish together."""
_AHEAD = 4
"""Questions that wait for each sandbox."""
_TRIES = 3


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
