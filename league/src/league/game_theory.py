"""A league as a game: its payoff matrix, Nash averaging, alpha-rank and diversity.

Payoff, the matrix of the living members, says who solves whose tasks.

Nash averaging says how good a member is when the other side plays as hard as it can: Balduzzi,
Tuyls, Perolat and Graepel, "Re-evaluating evaluation" (2018). The equilibrium comes from
predictive regret-matching+ with alternating turns and quadratic averaging (Farina, Kroer and
Sandholm, "Faster game solving via predictive Blackwell approachability", 2021), which needs nothing
but NumPy and comes within 1e-6 of a share.

alpha-rank says how often evolution visits each member when mutants take over one role at a time:
Omidshafiei et al., "alpha-Rank: multi-agent evaluation by evolution", Scientific Reports 9 (2019),
the multi-population model in the limit of infinite alpha. A state is one (teacher, student); a
mutant of one role takes over from the resident with the probability 1 - epsilon, 1/2 or epsilon for
a gain, a tie or a loss (Rowland et al., "Multiagent evaluation under incomplete information",
2019).

Diversity is how many different members a role effectively has, by what they win and lose.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from league.errors import LeagueError, check_whole
from league.pairing import expected_scores
from league.probability import Floats, Ints, stream
from league.state import Member, State

Cells = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Payoff:
    """Matrices of shape [teachers, students]; None where two members have never met.

    - observed: right rollouts on valid tasks; also None if there was no attempt.
    - share: the student's share of the tasks; it wins an invalid one, as in the ratings.
    - expected: that share as expected by rating and history.
    - tasks: how many tasks the cell rests on.
    """

    teachers: tuple[str, ...]
    students: tuple[str, ...]
    observed: Cells
    share: Cells
    expected: tuple[tuple[float, ...], ...]
    tasks: tuple[tuple[int, ...], ...]

    def matrix(self, fill: bool = False) -> Floats:
        """Return the shares as a zero-sum game: students want them high, teachers low.

        fill: put the expected share where two have never met; LeagueError otherwise.
        """
        share = np.array(self.share, dtype=np.float64)  # None becomes NaN
        blank = np.isnan(share)
        if blank.any() and not fill:
            missing = np.argwhere(blank).tolist()
            named = (f"{self.teachers[t]} with {self.students[s]}" for t, s in missing[:6])
            raise LeagueError(
                f"{len(missing)} of {share.size} pairs have never met, such as {', '.join(named)}; "
                "use fill=True to put the expected share in their place"
            )
        return np.where(blank, self.expected, share)


def payoff(state: State, top: int | None = None) -> Payoff:
    """Return the payoff matrices of the living members, by slot.

    top: only the members with the highest mu - 3 sigma of each side.
    """
    teachers, students = (_best(members, top) for members in state.sides())
    won: dict[tuple[str, str], float] = defaultdict(float)
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for pair_id, outcome in state.outcomes.items():
        key = (state.pairs[pair_id].teacher, state.pairs[pair_id].student)
        won[key] += outcome.counted * outcome.student_score
        counted[key] += outcome.counted
    names = [[(t.name, s.name) for s in students] for t in teachers]
    expected = expected_scores(state, teachers, students).tolist()
    return Payoff(
        teachers=tuple(t.name for t in teachers),
        students=tuple(s.name for s in students),
        observed=tuple(tuple(state.meeting(*key).solve_rate for key in row) for row in names),
        share=tuple(
            tuple(won[key] / counted[key] if counted.get(key) else None for key in row)
            for row in names
        ),
        expected=tuple(tuple(row) for row in expected),
        tasks=tuple(tuple(state.meeting(*key).tasks for key in row) for row in names),
    )


def _best(members: list[Member], top: int | None) -> list[Member]:
    if top is None:
        return members
    check_whole("top", top, 1)
    ranked = sorted(members, key=lambda m: 3.0 * m.rating.sigma - m.rating.mu)[:top]
    return sorted(ranked, key=lambda m: m.slot)


_CHECK_EVERY = 50
_ITERATIONS = 5_000
_TOLERANCE = 1e-9  # a share of the tasks


@dataclass(frozen=True)
class Nash:
    """An equilibrium of the game, within `gap`; shares are the students' shares of the tasks."""

    teachers: dict[str, float]
    """The weight of each teacher in the teachers' mixture."""
    students: dict[str, float]
    teacher_shares: dict[str, float]
    """The share when each teacher meets the students' mixture; good teachers have it low."""
    student_shares: dict[str, float]
    """The share when each student meets the teachers' mixture; good students have it high."""
    value: float
    """The share when both sides play their mixture."""
    gap: float
    """What the best single members would still gain, both sides added."""
    uniform_gains: tuple[float, float]
    """What the best single teacher and student gain against all members in equal parts."""


def nash(payoff: Payoff, *, fill: bool = False) -> Nash:
    """Return an equilibrium of the game and what each member is worth against it.

    Members with equal rows get equal weights, so a copy of a member changes nothing for others.
    fill: see `Payoff.matrix`.
    """
    share = payoff.matrix(fill)
    x, y = equilibrium(share)
    return Nash(
        teachers=dict(zip(payoff.teachers, x.tolist(), strict=True)),
        students=dict(zip(payoff.students, y.tolist(), strict=True)),
        teacher_shares=dict(zip(payoff.teachers, (share @ y).tolist(), strict=True)),
        student_shares=dict(zip(payoff.students, (x @ share).tolist(), strict=True)),
        value=float(x @ share @ y),
        gap=sum(gains(share, x, y)),
        uniform_gains=gains(share, *(np.full(n, 1.0 / n) for n in share.shape)),
    )


def gains(share: Floats, teachers: Floats, students: Floats) -> tuple[float, float]:
    """Return what the best single teacher and the best single student gain against two mixtures.

    share: shape [teachers, students]. teachers, students: weights that sum to 1.
    """
    by_teacher, by_student = share @ students, teachers @ share
    value = float(teachers @ by_teacher)
    return max(0.0, value - float(by_teacher.min())), max(0.0, float(by_student.max()) - value)


def equilibrium(share: Floats) -> list[Floats]:
    """Return the two average mixtures, once what both could still gain is tiny.

    share: what the column side wants high and the row side wants low, shape [n, m].
    """

    def matched(regret: Floats) -> Floats:
        whole, size = float(regret.sum()), regret.size
        return np.asarray(regret / whole) if whole > 0.0 else np.full(size, 1.0 / size)

    regret = [np.zeros(n) for n in share.shape]
    total = [np.zeros(n) for n in share.shape]
    x, y = (np.full(n, 1.0 / n) for n in share.shape)
    mean = [x, y]
    for step in range(1, _ITERATIONS + 1):
        gain = x @ share @ y - share @ y
        regret[0] = np.maximum(regret[0] + gain, 0.0)
        x = matched(np.maximum(regret[0] + gain, 0.0))
        gain = x @ share - x @ share @ y
        regret[1] = np.maximum(regret[1] + gain, 0.0)
        y = matched(np.maximum(regret[1] + gain, 0.0))
        total[0] += step * step * x
        total[1] += step * step * y
        if step % _CHECK_EVERY == 0:
            mean = [part / part.sum() for part in total]
            if sum(gains(share, *mean)) <= _TOLERANCE:
                break
    return mean


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


@dataclass(frozen=True)
class Diversity:
    """Effective numbers of different members, from 1 (all alike) to the size of the role."""

    teachers: float
    """exp of the entropy of the normalised singular values of the payoff rows."""
    students: float
    teachers_alike: float
    """The 95 % quantile of that number if all teachers were equal and only chance made their rows
    differ; a number at or below it shows no diversity."""
    students_alike: float


def diversity(payoff: Payoff, *, fill: bool = False) -> Diversity:
    """Return the effective number of distinct payoff rows of both roles.

    The two `alike` numbers come from 200 draws, in which every task is one trial. fill: see
    `Payoff.matrix`.
    """
    share = payoff.matrix(fill)
    tasks = np.array(payoff.tasks, dtype=np.int64)
    return Diversity(
        teachers=effective_rows(1.0 - share),
        students=effective_rows(share.T),
        teachers_alike=_alike(1.0 - share, tasks, "teacher"),
        students_alike=_alike(share.T, tasks.T, "student"),
    )


def effective_rows(rows: Floats) -> float:
    """Return exp(-sum p log p) of the singular values divided by their sum; 1 if all are 0.

    Roy and Vetterli, "The effective rank" (2007). rows: shape [n, m], n > 0.
    """
    values = np.linalg.svd(rows, compute_uv=False)
    total = float(values.sum())
    if total <= 0.0:
        return 1.0
    p = values[values > 1e-12 * total] / total
    return float(np.exp(-(p * np.log(p)).sum()))


def _alike(rows: Floats, tasks: Ints, role: str) -> float:
    weight = np.maximum(tasks, 1)
    common = np.clip((rows * weight).sum(axis=0) / weight.sum(axis=0), 0.0, 1.0)
    rng = stream(0, "diversity", role)
    chance = np.broadcast_to(common, rows.shape)
    found = [
        effective_rows(np.where(tasks > 0, rng.binomial(weight, chance) / weight, chance))
        for _ in range(200)
    ]
    return float(np.quantile(found, 0.95))
