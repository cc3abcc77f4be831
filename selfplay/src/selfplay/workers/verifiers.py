"""The sandboxes of all machines of a cluster, as one verifier."""

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
_AHEAD = 2
"""Questions that wait at each sandbox."""
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
        """Give chunks to whoever has least to do; verdicts in order, chunks of the dead again."""
        self._start_missing()
        source = iter(items)
        rest = enumerate(iter(lambda: list(islice(source, _CHUNK)), []))
        again: list[tuple[int, list[T]]] = []
        tries: dict[int, int] = {}
        asked: dict[Any, tuple[int, list[T], str]] = {}
        verdicts: dict[int, list[Any]] = {}
        given, more = 0, True
        while more or asked:
            while more and len(asked) < _AHEAD * len(self._actors):
                chunk = again.pop() if again else next(rest, None)
                if chunk is None:
                    more = False
                    break
                load = [node for _, _, node in asked.values()]
                node = min(self._actors, key=load.count)
                asked[ask(self._actors[node], chunk[1])] = (*chunk, node)
            if not asked:
                continue
            (ref,), _ = self._ray.wait(list(asked), num_returns=1)
            number, items_of, node = asked.pop(ref)
            try:
                verdicts[number] = self._ray.get(ref)
            except self._deaths as error:
                tries[number] = tries.get(number, 0) + 1
                if tries[number] == _TRIES:
                    raise EngineStopped(
                        f"{_TRIES} verifiers died over the same programs: {error}"
                    ) from error
                again.append((number, items_of))
                more = True
                self._bury(node)
            while given in verdicts:
                yield from verdicts.pop(given)
                given += 1

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
