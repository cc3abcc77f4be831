"""Many small made-up leagues at once: true skills that drift, random pairs, counted rollouts."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from league.basics.data import Floats, Ints
from league.basics.errors import LeagueError
from league.basics.streams import stream
from league.rating.normal import log_cdf_pair
from league.rating.rating import RatingModel


@dataclass(frozen=True)
class World:
    """`worlds` leagues of `members` teachers and as many students, alike but for their luck.

    rounds, tasks (per match), rollouts (per task): counts. spread: standard deviation of the true
    skills. drift: of each skill's step between rounds. alike: the share of a performance's
    variance that belongs to the task, so that rollouts of one task agree more than chance.
    cycle: skill units that teacher i gains against student i and loses against student i + 1,
    counted round: a planted circle of rock, paper and scissors.
    """

    members: int = 4
    rounds: int = 60
    tasks: int = 16
    rollouts: int = 8
    worlds: int = 32
    spread: float = 4.0
    drift: float = RatingModel.tau
    alike: float = 0.5
    cycle: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"members": 2, "rounds": 4, "tasks": 1, "rollouts": 1, "worlds": 1, "seed": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise LeagueError(f"{name} is {getattr(self, name)}; expected at least {low}")
        for name in ("spread", "drift", "cycle"):
            value = getattr(self, name)
            if not 0.0 <= value < float("inf"):
                raise LeagueError(f"{name} is {value}; expected a finite number >= 0")
        if not 0.0 <= self.alike < 1.0:
            raise LeagueError(f"alike is {self.alike}; expected 0 <= alike < 1")

    @property
    def scale(self) -> float:
        """Standard deviation of the difference of two performances, in rating units."""
        return RatingModel().performance_scale


@dataclass(frozen=True)
class Round:
    """One round of all worlds, W of them with M members a side.

    number: from 0. partner: the student of each teacher, shape [W, M]. solved: right rollouts of
    each task, shape [W, M, tasks]. gaps: true skill of students less that of teachers, circle
    included, shape [W, teachers, students].
    """

    number: int
    partner: Ints
    solved: Ints
    gaps: Floats


def play(world: World) -> Iterator[Round]:
    """Yield the rounds of all worlds; the same for the same world, whatever is done with them."""
    rng = stream(world.seed, "worlds")
    shape = (world.worlds, world.members)
    teachers = world.spread * rng.standard_normal(shape)
    students = world.spread * rng.standard_normal(shape)
    circle = world.cycle * (np.eye(world.members) - np.roll(np.eye(world.members), 1, axis=1))
    for number in range(world.rounds):
        gaps = students[:, None, :] - teachers[:, :, None] - circle
        partner = np.argsort(rng.random(shape), axis=1)
        met = np.take_along_axis(gaps, partner[:, :, None], axis=2)[:, :, 0]
        yield Round(number, partner, solve(world, met, rng), gaps)
        teachers = teachers + world.drift * rng.standard_normal(shape)
        students = students + world.drift * rng.standard_normal(shape)


def solve(world: World, gaps: Floats, rng: np.random.Generator) -> Ints:
    """Return right rollouts per task, of the shape of `gaps` with the tasks as a last axis."""
    hardness = np.sqrt(world.alike) * rng.standard_normal((*gaps.shape, world.tasks))
    z = (gaps[..., None] / world.scale - hardness) / np.sqrt(1.0 - world.alike)
    return np.asarray(rng.binomial(world.rollouts, solve_rates(z)), dtype=np.int64)


def solve_rates(z: Floats) -> Floats:
    """Return Φ(z), of z's shape: z is a gap over the scale of performances."""
    return np.exp(log_cdf_pair(z)[0])
