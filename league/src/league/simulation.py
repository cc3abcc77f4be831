"""Known-truth leagues: how well the ratings find skills that we made up ourselves."""

from dataclasses import asdict, dataclass, field

import numpy as np

from league.basics.data import Floats, PlainData
from league.basics.errors import LeagueError
from league.basics.streams import stream
from league.events.fold import apply
from league.pairing.matching import propose
from league.pairing.payoff import expected_scores
from league.rating.normal import Z95, cdf, log_cdf_pair
from league.selection.leaderboard import leaderboard
from league.state.config import LeagueConfig
from league.state.records import TEACHER, Outcome
from league.state.state import State


@dataclass(frozen=True)
class Simulation:
    """A made-up world, repeated."""

    teachers: int = 4
    students: int = 4
    rounds: int = 60
    tasks: int = 16
    """Per batch."""
    rollouts: int = 8
    """Per task."""
    worlds: int = 8
    spread: float = 4.0
    """Standard deviation of the true skills."""
    drift: float | None = None
    """Of each skill's step between rounds; None means config.tau, that is, a world that moves as
    the model believes."""
    alike: float = 0.5
    """The share of a performance's variance that belongs to the task, so that rollouts of one task
    agree more than chance."""
    broken: bool = False
    """Whether the last teacher writes invalid tasks, and one in 16 valid but impossible."""
    seed: int = 0
    config: LeagueConfig = field(default_factory=LeagueConfig)

    def __post_init__(self) -> None:
        for name in ("teachers", "students", "rounds", "tasks", "rollouts", "worlds"):
            if getattr(self, name) < 1:
                raise LeagueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.broken and self.teachers < 2:
            raise LeagueError("a broken teacher needs at least one other; expected teachers >= 2")
        if not (
            0.0 <= self.alike < 1.0
            and 0.0 <= self.spread < float("inf")
            and 0.0 <= (self.drift or 0.0) < float("inf")
        ):
            raise LeagueError("expected 0 <= alike < 1, and finite spread >= 0 and drift >= 0")


@dataclass(frozen=True)
class SimulationResult(PlainData):
    """What was found, over all worlds and the last three quarters of the rounds."""

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
    """Play the worlds and compare beliefs with the truth; the same result for the same seed."""
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
    """One world: rows (prediction error, true gap, believed gap, its sd), and who ended last."""
    rng = stream(simulation.seed, "world", world)
    config = simulation.config
    teachers = [f"t{i}" for i in range(simulation.teachers)]
    students = [f"s{i}" for i in range(simulation.students)]
    state = State(config)
    apply(state, {"event": "league_founded", "teachers": teachers, "students": students})
    skill = {name: simulation.spread * rng.standard_normal() for name in (*teachers, *students)}
    drift = config.tau if simulation.drift is None else simulation.drift
    broken = teachers[-1] if simulation.broken else ""
    sound = [name for name in teachers if name != broken]
    compared = []
    for number in range(simulation.rounds):
        pairs = propose(state, number)
        entries = [asdict(pair) for pair in pairs]
        apply(state, {"event": "round_paired", "round": number, "pairs": entries})
        for pair in pairs:
            gap = skill[pair.student] - skill[pair.teacher]
            outcome = made_up_match(simulation, gap, pair.teacher == broken, rng)
            result = {"event": "match_recorded", "pair": pair.id, "outcome": asdict(outcome)}
            apply(state, result)
        if 4 * (number + 1) >= simulation.rounds:
            compared.append(_compare(state, sound, students, skill))
        for name in skill:
            skill[name] += drift * rng.standard_normal()
    ended_last = bool(broken) and leaderboard(state, TEACHER)[-1].member == broken
    return np.concatenate(compared, axis=1), ended_last


def _compare(
    state: State, teachers: list[str], students: list[str], skill: dict[str, float]
) -> Floats:
    t = [state.members[name] for name in teachers]
    s = [state.members[name] for name in students]
    gaps = np.array([[skill[b.name] - skill[a.name] for b in s] for a in t])
    belief = np.array([[b.rating.mu - a.rating.mu for b in s] for a in t])
    spread = np.array([[np.hypot(a.rating.sigma, b.rating.sigma) for b in s] for a in t])
    truth = np.exp(log_cdf_pair(gaps / state.config.model.performance_scale)[0])
    error = expected_scores(state, t, s) - truth
    return np.stack([error.ravel(), gaps.ravel(), belief.ravel(), spread.ravel()])


def made_up_match(
    simulation: Simulation, gap: float, broken: bool, rng: np.random.Generator
) -> Outcome:
    """Return what a student wins whose skill is above the teacher's by `gap` rating units."""
    tasks = simulation.tasks
    if broken:
        valid = max(tasks // 16, 1) if tasks > 1 else 0
        return Outcome(tasks, valid, valid * simulation.rollouts, 0, valid)
    scale = float(np.sqrt(2.0)) * simulation.config.beta
    task_scale = scale * float(np.sqrt(simulation.alike))
    own_scale = scale * float(np.sqrt(1.0 - simulation.alike))
    offsets = task_scale * rng.standard_normal(tasks)
    chances = [cdf((gap - float(offset)) / own_scale) for offset in offsets]
    solved = rng.binomial(simulation.rollouts, chances)
    return Outcome(
        tasks, tasks, tasks * simulation.rollouts, int(solved.sum()), int((solved == 0).sum())
    )
