"""A reward of the study of collapse that selfplay does not name."""

from collections import Counter
from collections.abc import Mapping

from selfplay import TEACHER_REWARDS, Proposed


class Novelty:
    """The paper's reward over 1 + how many accepted programs had the same structure before.

    After count-based bonuses (Bellemare et al. 2016).
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __call__(self, p: Proposed) -> float:
        """Return what a proposal earns, and count it if it was accepted."""
        reward = TEACHER_REWARDS["populora"](p)
        if p.task is None or p.metrics is None:
            return reward
        self._counts[p.metrics.structure] += 1
        return reward / self._counts[p.metrics.structure]

    def state_dict(self) -> dict[str, int]:
        """Return the counts by structure."""
        return dict(self._counts)

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from what `state_dict` returned."""
        self._counts = Counter(state)


NOVELTY = Novelty()
