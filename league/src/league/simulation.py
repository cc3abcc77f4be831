"""Simulated leagues with known skills: how well the ratings find them."""

from dataclasses import dataclass, field

import numpy as np

from league.config import LeagueConfig
from league.errors import check_number, check_whole
from league.events import apply, round_event, score
from league.pairing import expected_scores
from league.probability import Z95, Floats, log_cdf_pair, stream
from league.ratings import Skills
from league.selection import leaderboard
from league.state import TEACHER, Outcome, State

TEACHERS = tuple(f"t{i}" for i in range(4))
STUDENTS = tuple(f"s{i}" for i in range(4))
TASKS = 16
"""In a batch."""
ROLLOUTS = 8
"""Of each task."""
SPREAD = 4.0
"""Standard deviation of the true skills."""
ALIKE = 0.5
"""The share of a performance's variance that belongs to the task, so that rollouts of one task
agree more than chance."""


@dataclass(frozen=True)
class Simulation:
    """Settings of a simulation.

    - drift: of each skill's step between rounds; None means config.tau, that is, a world that moves
      as the model believes.
    - broken: whether the last teacher writes invalid tasks, and one in 16 valid but impossible.
    """

    rounds: int = 60
    worlds: int = 8
    drift: float | None = None
    broken: bool = False
    config: LeagueConfig = field(default_factory=LeagueConfig)

    def __post_init__(self) -> None:
        for name in ("rounds", "worlds"):
            check_whole(name, getattr(self, name), 1)
        check_number("drift", self.drift or 0.0, 0.0)


@dataclass(frozen=True)
class SimulationResult:
    """Errors of the ratings, over all worlds and the last three quarters of the rounds."""

    rmse: float
    """Of the predicted solve rate, over all pairs of sound members."""
    coverage: float
    """Share of true gaps inside the 95 % interval."""
    bias: float
    """Slope of predicted on true skill gaps, less 1 (positive: spread out too far)."""
    broken_last: float | None
    """Share of worlds whose broken teacher ends last; None without."""
    worlds: int


def simulate(simulation: Simulation) -> SimulationResult:
    """Play the worlds and compare ratings with the truth; the same result for the same seed."""
    rows, last = [], 0
    for world in range(simulation.worlds):
        compared, broken_last = _play(simulation, world)
        rows.append(compared)
        last += broken_last
    error, truth, belief, spread = np.concatenate(rows, axis=1)
    slope = float((truth * belief).sum() / max(float((truth * truth).sum()), 1e-300))
    return SimulationResult(
        rmse=float(np.sqrt((error * error).mean())),
        coverage=float((np.abs(truth - belief) <= Z95 * spread).mean()),
        bias=slope - 1.0,
        broken_last=last / simulation.worlds if simulation.broken else None,
        worlds=simulation.worlds,
    )


def _play(simulation: Simulation, world: int) -> tuple[Floats, bool]:
    """Play one world; return rows (prediction error, true gap, believed gap, its standard
    deviation) and whether the broken teacher ended last."""
    rng = stream(simulation.config.seed, "world", world)
    config = simulation.config
    state = State(config)
    apply(state, {"event": "league_founded", "teachers": TEACHERS, "students": STUDENTS})
    skill = {name: SPREAD * rng.standard_normal() for name in (*TEACHERS, *STUDENTS)}
    drift = config.tau if simulation.drift is None else simulation.drift
    broken = TEACHERS[-1] if simulation.broken else ""
    sound = [name for name in TEACHERS if name != broken]
    compared = []
    for number in range(simulation.rounds):
        apply(state, round_event(state, number, None))
        for pair_id in state.rounds[number]:
            pair = state.pairs[pair_id]
            gap = skill[pair.student] - skill[pair.teacher]
            outcome = _match(gap, pair.teacher == broken, config.model.performance_scale, rng)
            score(state, {pair_id: outcome})
        if 4 * (number + 1) >= simulation.rounds:
            compared.append(_compare(state, sound, skill))
        for name in skill:
            skill[name] += drift * rng.standard_normal()
    ended_last = bool(broken) and leaderboard(state, TEACHER)[-1].member == broken
    return np.concatenate(compared, axis=1), ended_last


def _compare(state: State, teachers: list[str], skill: dict[str, float]) -> Floats:
    t, s = ([state.members[name] for name in names] for names in (teachers, STUDENTS))
    believed = [Skills.of([member.rating for member in side]) for side in (t, s)]
    gaps = np.array([skill[n] for n in STUDENTS]) - np.array([skill[n] for n in teachers])[:, None]
    belief = believed[1].mu - believed[0].mu[:, None]
    spread = np.hypot(believed[0].sigma[:, None], believed[1].sigma)
    truth = np.exp(log_cdf_pair(gaps / state.config.model.performance_scale)[0])
    error = expected_scores(state, t, s) - truth
    return np.stack([error.ravel(), gaps.ravel(), belief.ravel(), spread.ravel()])


def _match(gap: float, broken: bool, scale: float, rng: np.random.Generator) -> Outcome:
    """Return what a student wins whose skill is above the teacher's by `gap` rating units."""
    if broken:
        return Outcome(TASKS, 1, ROLLOUTS, 0, 1)
    offsets = scale * np.sqrt(ALIKE) * rng.standard_normal(TASKS)
    chances = np.exp(log_cdf_pair((gap - offsets) / (scale * np.sqrt(1.0 - ALIKE)))[0])
    solved = rng.binomial(ROLLOUTS, chances)
    total, unsolved = int(solved.sum()), int((solved == 0).sum())
    return Outcome(TASKS, TASKS, TASKS * ROLLOUTS, total, unsolved)
