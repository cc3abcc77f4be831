"""The engines of all workers, as the loop sees them: one population that writes."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from evals.engine.rollout import TokenRequest
from selfplay.population.writing import Answered, Draft, Prompts, Trial, Written
from selfplay.workers.pool import WorkerPool
from selfplay.workers.shares import base_batches
from selfplay.workers.transport import read_written

D = TypeVar("D", bound=Draft | Trial)
W = TypeVar("W", Written, Answered)


class RemoteWriters:
    """`population.parts.Writers` over workers: a member writes where it is, the base wherever there
    is least to do. Prompts and texts are read there too."""

    def __init__(self, pool: WorkerPool, prompts: Prompts) -> None:
        self._pool, self._prompts = pool, prompts
        self.shares_parameters = pool.about.shares_parameters

    def proposals(self, drafts: Sequence[Draft]) -> Iterator[tuple[int, Written]]:
        """Yield proposals, worker by worker as they are done."""

        def ask(actor: Any, drafts: bytes) -> Any:
            return actor.propose.remote(drafts)

        return self._written(drafts, Written, ask, self._prompts.of_drafts)

    def answers(self, trials: Sequence[Trial]) -> Iterator[tuple[int, Answered]]:
        """Yield answers, worker by worker as they are done."""

        def ask(actor: Any, trials: bytes) -> Any:
            return actor.solve.remote(trials)

        return self._written(trials, Answered, ask, self._prompts.of_trials)

    def _written(
        self,
        asked: Sequence[D],
        kind: type[W],
        ask: Callable[[Any, bytes], Any],
        requests: Callable[[Sequence[D]], list[TokenRequest]],
    ) -> Iterator[tuple[int, W]]:
        """Ask workers; what the base is asked goes in batches, cut as one process cuts them."""
        pieces = [[i] for i, a in enumerate(asked) if a.member is not None]
        base = [i for i, a in enumerate(asked) if a.member is None]
        batches = base_batches(requests([asked[i] for i in base]), self._pool.about.max_rows)
        pieces += [[base[k] for k in batch] for batch in batches]

        def numbers(chosen: Sequence[int]) -> list[int]:
            return [i for piece in chosen for i in pieces[piece]]

        answers = self._pool.scatter(
            self._pool.places(asked[first].member for first, *_ in pieces),
            lambda actor, chosen: ask(actor, pickle.dumps([asked[i] for i in numbers(chosen)])),
        )
        for chosen, packed in answers:
            yield from zip(numbers(chosen), read_written(packed, kind), strict=True)

    def publish(self, step: int) -> None:
        """Let every worker's engine sample from its members as of this step."""
        self._pool.step = step
        if not self.shares_parameters:
            self._pool.everywhere(lambda share: share.actor.publish.remote(step))

    def release(self) -> None:
        """Nothing to do: each worker gives its engine's memory back before it learns."""

    def restore(self) -> None:
        """Nothing to do: each worker's engine takes its memory when it is asked again."""
