"""The members of a run on several workers, as the loop sees them: one learner."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from lora_evo import Adapter
from selfplay.errors import SelfplayError
from selfplay.learning.batch import TrainingSample
from selfplay.learning.member_state import MemberState, NamedState, joined, parted
from selfplay.learning.update_stats import UpdateStats
from selfplay.workers.pool import WorkerPool
from selfplay.workers.transport import pack_samples, pack_state, read_state


class RemoteLearner:
    """`population.parts.PopulationLearner` over workers; no gradient leaves one."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool

    @property
    def members(self) -> tuple[str, ...]:
        """Names in the order of their places."""
        return self._pool.names

    def update(
        self, samples: Sequence[TrainingSample], lr_factor: float = 1.0
    ) -> dict[str, UpdateStats]:
        """Let every worker update its members; statistics by member, in the order of places."""
        found: dict[str, UpdateStats] = {}
        owners = self._pool.places(sample.member for sample in samples)
        answers = self._pool.scatter(
            owners,
            lambda actor, mine: actor.update.remote(
                pack_samples([samples[i] for i in mine]), lr_factor
            ),
        )
        for _, (stats, states) in answers:
            found |= stats
            for state in states:
                self._keep(state.name, state)
        return {member: found[member] for member in self.members if member in found}

    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter."""
        adapter: Adapter = self._ask(member, lambda actor: actor.export.remote(member))
        return adapter

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        """Put an adapter in a member's place under a new name, with a fresh optimiser state."""
        if new_name != member and new_name in self.members:
            raise SelfplayError(f"there is already a member named {new_name!r}")
        state = self._ask(member, lambda actor: actor.replace.remote(member, adapter, new_name))
        self._keep(member, state)

    def state_dict(self) -> NamedState:
        """Return what one learner of all members would."""
        return joined([read_state(state) for state in self._pool.states])

    def load_state_dict(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken; the numbers of members must agree."""
        states = parted(tensors, values)
        if len(states) != len(self.members):
            raise SelfplayError(
                f"the state has {len(states)} members, expected {len(self.members)}"
            )
        self._pool.load([pack_state(state) for state in states])

    def _ask(self, member: str, ask: Any) -> Any:
        owners = self._pool.places([member])
        ((_, answer),) = self._pool.scatter(owners, lambda actor, _: ask(actor))
        return answer

    def _keep(self, member: str, state: MemberState) -> None:
        self._pool.states[self._pool.names.index(member)] = state
