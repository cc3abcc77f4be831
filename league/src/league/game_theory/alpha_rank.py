"""alpha-rank: how often evolution visits each member when mutants take over one role at a time.

Omidshafiei et al., "alpha-Rank: multi-agent evaluation by evolution", Scientific Reports 9
(2019), the multi-population model in the limit of infinite alpha: a state is one (teacher,
student); a mutant of one role takes over from the resident with the probability 1 - epsilon, 1/2
or epsilon for a gain, a tie or a loss (Rowland et al., "Multiagent evaluation under incomplete
information", 2019).
"""

from dataclasses import dataclass

import numpy as np

from league.errors import LeagueError
from league.game_theory.payoff import Payoff
from league.probability import Floats

LIMIT = 32
"""At most so many members a side: the chain has teachers x students states."""
_EPSILON = 1e-3


@dataclass(frozen=True)
class AlphaRank:
    """The long-run share of time that each member is the resident of its role."""

    teachers: dict[str, float]
    students: dict[str, float]


def alpha_rank(payoff: Payoff, *, fill: bool = False) -> AlphaRank:
    """Return how often each member is the resident of its role.

    fill: see `Payoff.matrix`. Raises LeagueError above 32 members a side.
    """
    if max(len(payoff.teachers), len(payoff.students)) > LIMIT:
        raise LeagueError(
            f"{len(payoff.teachers)} teachers and {len(payoff.students)} students; alpha-rank "
            f"takes at most {LIMIT} a side: use payoff(top={LIMIT})"
        )
    share = payoff.matrix(fill)
    mass = stationary(1.0 - share, share)
    return AlphaRank(
        teachers=dict(zip(payoff.teachers, mass.sum(axis=1).tolist(), strict=True)),
        students=dict(zip(payoff.students, mass.sum(axis=0).tolist(), strict=True)),
    )


def stationary(first: Floats, second: Floats, epsilon: float = _EPSILON) -> Floats:
    """Return the stationary distribution over the states, shape [n, m], summing to 1.

    first, second: what the row player and the column player gain in each state, shape [n, m].
    """

    def takeover(payoff: Floats) -> Floats:
        gain = np.sign(payoff[None, :] - payoff[:, None])
        return np.asarray(0.5 + (0.5 - epsilon) * gain)

    rows, columns = first.shape
    chain = np.zeros((rows, columns, rows, columns))
    for j in range(columns):
        chain[:, j, :, j] = takeover(first[:, j])
    for i in range(rows):
        chain[i, :, i, :] = takeover(second[i])
    flow = chain.reshape(rows * columns, -1)
    np.fill_diagonal(flow, 0.0)
    # In equilibrium as much flows into each state as out of it; one equation sets the sum to 1.
    balance = flow.T - np.diag(flow.sum(axis=1))
    balance[0] = 1.0
    mass = np.linalg.solve(balance, np.eye(rows * columns)[0])
    return np.asarray(mass.reshape(rows, columns))
