"""The members of a run on several workers, as one population; no gradient leaves a worker."""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor

from lora_evo import Adapter
from lora_evo.model import TokenRequest
from selfplay.config import Config
from selfplay.errors import SelfplayError
from selfplay.learning.batch import TrainingSample
from selfplay.learning.member_state import MemberState, NamedState, joined, parted
from selfplay.learning.statistics import UpdateStats
from selfplay.prompts.template import template_named
from selfplay.rollout import Attempt, Prompts, Proposed
from selfplay.rows import WorkerRow
from selfplay.workers.pool import WorkerPool
from selfplay.workers.worker import pack_state, read_state

W = TypeVar("W", Proposed, Attempt)


class RemotePopulation:
    """What `Population` is, over workers: a member works where it is, the base where there is room.

    Every method of `Population` is asked of the workers, which hold a population each.
    """

    def __init__(self, pool: WorkerPool, config: Config) -> None:
        about, template = pool.about, template_named(config.template, config.base)
        self._pool = pool
        self.prompts = Prompts(config, template, about.tokenizer, about.context)

    @property
    def members(self) -> tuple[str, ...]:
        return self._pool.names

    @property
    def shares_parameters(self) -> bool:
        return self._pool.about.shares_parameters

    def propose(self, drafts: Sequence[Proposed]) -> Iterator[Proposed]:
        members = [draft.teacher for draft in drafts]
        return self._written("propose", drafts, members, self.prompts.of_proposals)

    def solve(self, attempts: Sequence[Attempt]) -> Iterator[Attempt]:
        members = [attempt.member for attempt in attempts]
        return self._written("solve", attempts, members, self.prompts.of_attempts)

    def _written(
        self,
        method: str,
        asked: Sequence[W],
        members: Sequence[str | None],
        requests: Callable[[Sequence[W]], list[TokenRequest]],
    ) -> Iterator[W]:
        """Ask workers; what the base is asked goes in batches, cut as one process cuts them."""
        pieces = [[i] for i, member in enumerate(members) if member is not None]
        base = [i for i, member in enumerate(members) if member is None]
        batches = base_batches(requests([asked[i] for i in base]), self._pool.about.max_rows)
        pieces += [[base[k] for k in batch] for batch in batches]

        def of(chosen: Sequence[int]) -> bytes:
            return pickle.dumps([asked[i] for i in sorted(i for p in chosen for i in pieces[p])])

        owners = self._pool.places(members[first] for first, *_ in pieces)
        answers = self._pool.scatter(owners, lambda share, mine: share.ask(method, of(mine)))
        for _, packed in answers:
            yield from pickle.loads(packed)

    def update(
        self, samples: Sequence[TrainingSample], lr_factor: float = 1.0
    ) -> dict[str, UpdateStats]:
        def of(chosen: Sequence[int]) -> bytes:
            return pickle.dumps([samples[i] for i in chosen])

        found: dict[str, UpdateStats] = {}
        owners = self._pool.places(sample.member for sample in samples)
        answers = self._pool.scatter(
            owners, lambda share, mine: share.ask("update", of(mine), lr_factor)
        )
        for _, (stats, states) in answers:
            found |= stats
            for state in states:
                self._keep(state.name, state)
        return {member: found[member] for member in self.members if member in found}

    def sync(self, step: int) -> None:
        self._pool.step = step
        if not self.shares_parameters:
            self._pool.everywhere(lambda share: share.ask("sync", step))

    def export(self, member: str) -> Adapter:
        adapter: Adapter = self._ask(member, "export", member)
        return adapter

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        if new_name != member and new_name in self.members:
            raise SelfplayError(f"there is already a member named {new_name!r}")
        state = self._ask(member, "replace", member, adapter, new_name)
        self._keep(member, state)

    def state_dict(self) -> NamedState:
        return joined([read_state(state) for state in self._pool.states])

    def load_state_dict(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        states = parted(tensors, values)
        if len(states) != len(self.members):
            raise SelfplayError(
                f"the state has {len(states)} members, expected {len(self.members)}"
            )
        self._pool.load([pack_state(state) for state in states])

    def end_step(self) -> dict[str, WorkerRow]:
        return self._pool.end_step()

    def _ask(self, member: str, method: str, *arguments: Any) -> Any:
        owners = self._pool.places([member])
        ((_, answer),) = self._pool.scatter(owners, lambda share, _: share.ask(method, *arguments))
        return answer

    def _keep(self, member: str, state: MemberState) -> None:
        self._pool.states[self._pool.names.index(member)] = state


def base_batches(requests: Sequence[TokenRequest], max_rows: int) -> list[list[int]]:
    """Cut the base's requests, by index, as an engine in a single process would."""

    def size(i: int) -> tuple[int, tuple[int, ...]]:
        return len(requests[i].prompt_ids), requests[i].prompt_ids

    order = sorted(range(len(requests)), key=size)
    return [order[start : start + max_rows] for start in range(0, len(order), max_rows)]
