"""The sandboxes of all machines of a cluster, as the loop sees them: one judge."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import click

from code_verifier import Grade, Metrics, Proposal, Task, Validation
from evals.errors import EngineStopped
from selfplay.config.run_config import RunConfig
from selfplay.population.judging import LocalJudge
from selfplay.population.opening import open_sandbox

T = TypeVar("T")
_CHUNK = 8
"""Programs in one question: few, so that machines finish together."""
_AHEAD = 2
"""Questions that wait at each sandbox."""
_TRIES = 3


class Verifier:
    """A sandbox on one machine; an actor of Ray."""

    def __init__(self, config: RunConfig) -> None:
        self._judge = LocalJudge(open_sandbox(config))

    def validate(self, proposals: Sequence[Proposal]) -> list[tuple[Validation, Metrics | None]]:
        """Judge proposals, and measure."""
        return list(self._judge.validate_many(proposals))

    def grade(self, answers: Sequence[tuple[Task, str]]) -> list[Grade]:
        """Grade answers."""
        return list(self._judge.grade_many(answers))


class RemoteJudge:
    """`population.parts.Judge` over verifiers, one on every machine that is there."""

    def __init__(self, ray: Any, config: RunConfig) -> None:
        self._ray, self._config = ray, config
        self._deaths = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
        self._verifiers: dict[str, Any] = {}
        """By node."""

    def validate_many(
        self, proposals: Iterable[Proposal], /
    ) -> Iterator[tuple[Validation, Metrics | None]]:
        """Judge proposals; metrics of those that became tasks."""
        return self._judged(proposals, lambda verifier, chunk: verifier.validate.remote(chunk))

    def grade_many(self, answers: Iterable[tuple[Task, str]], /) -> Iterator[Grade]:
        """Grade answers to tasks."""
        return self._judged(answers, lambda verifier, chunk: verifier.grade.remote(chunk))

    def close(self) -> None:
        """End all verifiers."""
        for verifier in self._verifiers.values():
            self._ray.kill(verifier)
        self._verifiers = {}

    def _judged(self, items: Iterable[T], ask: Callable[[Any, list[T]], Any]) -> Iterator[Any]:
        """Deal chunks to whoever has least to do; verdicts in order, the dead's chunks again."""
        self._meet_nodes()
        rest = iter(items)
        chunks: list[list[T]] = []
        tries: list[int] = []
        verdicts: dict[int, list[Any]] = {}
        waiting: list[int] = []
        asked: dict[Any, tuple[int, str]] = {}
        more, told = True, 0
        while more or waiting or asked or verdicts:
            load = dict.fromkeys(self._verifiers, 0)
            for _, node in asked.values():
                load[node] = load.get(node, 0) + 1
            while len(asked) < _AHEAD * len(self._verifiers) and (waiting or more):
                if not waiting:
                    chunk = list(islice(rest, _CHUNK))
                    more = bool(chunk)
                    if not more:
                        break
                    chunks.append(chunk)
                    tries.append(0)
                    waiting.append(len(chunks) - 1)
                number = waiting.pop(0)
                node = min(self._verifiers, key=lambda n: load[n])
                load[node] += 1
                asked[ask(self._verifiers[node], chunks[number])] = (number, node)
            if asked:
                (ref,), _ = self._ray.wait(list(asked), num_returns=1)
                number, node = asked.pop(ref)
                try:
                    verdicts[number] = self._ray.get(ref)
                except self._deaths as error:
                    tries[number] += 1
                    if tries[number] == _TRIES:
                        raise EngineStopped(
                            f"{_TRIES} verifiers died over the same programs: {error}"
                        ) from error
                    waiting.append(number)
                    self._bury(node)
            while told in verdicts:
                yield from verdicts.pop(told)
                told += 1

    def _meet_nodes(self) -> None:
        """Start a verifier on every machine that has none."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        for gone in set(self._verifiers) - alive:
            del self._verifiers[gone]
        for node in sorted(alive - set(self._verifiers)):
            actor = self._ray.remote(num_cpus=0)(Verifier)
            place = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
            self._verifiers[node] = actor.options(scheduling_strategy=place).remote(self._config)

    def _bury(self, node: str) -> None:
        """Leave a dead verifier out, or start another where its machine still is."""
        if node in self._verifiers:
            click.echo("a verifier died; its programs are judged again", err=True)
            del self._verifiers[node]
            self._meet_nodes()
