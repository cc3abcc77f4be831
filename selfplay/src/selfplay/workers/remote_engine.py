"""The engines of all workers, as the loop sees them: one engine."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from evals.engine.request import Completion
from evals.engine.rollout import Rollout, TokenRequest
from evals.engine.rollout_engine import AdapterSource, RolloutEngine, check_request
from evals.errors import EvalsError
from selfplay.workers.pool import WorkerPool
from selfplay.workers.shares import base_batches
from selfplay.workers.transport import ReadRollout, read_rollout


class RemoteEngine(RolloutEngine):
    """Samples a member's requests where the member is, and the base's wherever there is least."""

    def __init__(self, pool: WorkerPool) -> None:
        about = pool.about
        self._pool = pool
        self.tokenizer = about.tokenizer
        self.end_tokens = about.end_tokens
        self.context = about.context
        self.max_rows = about.max_rows
        self.shares_parameters = about.shares_parameters

    @property
    def versions(self) -> Mapping[str, int]:
        """Names of the members, and the step as of which they are published."""
        return dict.fromkeys(self._pool.names, self._pool.step)

    def rollouts(self, requests: Sequence[TokenRequest]) -> list[Rollout]:
        """Sample every request; results in the same order. Raises EvalsError."""
        results = dict(self.stream(requests))
        return [results[i] for i in range(len(requests))]

    def stream(self, requests: Sequence[TokenRequest]) -> Iterator[tuple[int, Rollout]]:
        """Yield (number of the request, its sample), worker by worker as they are done."""
        for request in requests:
            check_request(request)
        mine = [(r.adapter, i) for i, r in enumerate(requests) if r.adapter is not None]
        places = self._pool.places(adapter for adapter, _ in mine)
        pieces: list[tuple[int | None, list[int]]] = [
            (place, [i]) for place, (_, i) in zip(places, mine, strict=True)
        ]
        pieces += [(None, batch) for batch in base_batches(requests, self.max_rows)]

        def indices(chosen: Sequence[int]) -> list[int]:
            return [i for piece in chosen for i in pieces[piece][1]]

        answers = self._pool.scatter(
            [owner for owner, _ in pieces],
            lambda actor, chosen: actor.sample.remote([requests[i] for i in indices(chosen)]),
        )
        for chosen, samples in answers:
            for i, sample in zip(indices(chosen), samples, strict=True):
                yield i, read_rollout(requests[i], sample)

    def completion(self, rollout: Rollout, stop: Sequence[str] = ()) -> Completion:
        """Return the text that the worker read."""
        if stop or not isinstance(rollout, ReadRollout):
            raise EvalsError("on workers texts are those of a run's samples, without stop texts")
        ids, logprobs = rollout.completion_ids, rollout.logprobs
        return Completion(rollout.text, ids, logprobs, rollout.finish_reason)

    def publish(self, step: int) -> None:
        """Let every worker's engine sample from its members as of this step."""
        self._pool.step = step
        if not self.shares_parameters:
            self._pool.everywhere(lambda share: share.actor.publish.remote(step))

    def put_adapter(self, name: str, version: int, adapter: AdapterSource) -> NoReturn:
        """Refused: members change where they learn."""
        raise EvalsError(f"{name!r} belongs to a worker, which changes it when it learns")

    def drop_adapter(self, name: str) -> NoReturn:
        """Refused, as `put_adapter`."""
        raise EvalsError(f"{name!r} belongs to a worker")

    def release(self) -> None:
        """Nothing to do: each worker gives its engine's memory back before it learns."""

    def restore(self) -> None:
        """Nothing to do: each worker's engine takes its memory when it is asked again."""

    def close(self) -> None:
        """End all workers."""
        self._pool.close()
