"""One way of rating, followed through all rounds of all worlds and held against the truth."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from league_studies.contenders import Contender
from league_studies.world import Round, World, solve_rates

from league.basics.data import Floats, Ints
from league.rating.normal import Z95
from league.rating.rating import RatingModel, Skills
from league.rating.schemes import RatingScheme


@dataclass(frozen=True)
class Accuracy:
    """Beliefs against truth, over all pairs of all worlds after each compared round.

    rmse: of the predicted solve rate. coverage: share of true solve rates within the belief's 95 %
    interval. bias: slope of predicted on true rates about 1/2, less 1; above 0 is too bold.
    """

    rmse: float
    coverage: float
    bias: float


@dataclass
class Ledger:
    """What is collected round by round: beliefs and truth, one value per world and pair.

    losses: the log-loss per task of the round's matches, predicted before them, shape [W].
    """

    predicted: list[Floats] = field(default_factory=list)
    truth: list[Floats] = field(default_factory=list)
    inside: list[Floats] = field(default_factory=list)
    losses: list[Floats] = field(default_factory=list)

    def add(self, predicted: Floats, truth: Floats, low: Floats, high: Floats) -> None:
        """Take in one round; all of shape [W, teachers, students]."""
        self.predicted.append(predicted)
        self.truth.append(truth)
        self.inside.append(((low <= truth) & (truth <= high)).astype(np.float64))

    def accuracy(self) -> Accuracy:
        """Return the figures over everything collected."""
        predicted, truth = np.array(self.predicted), np.array(self.truth)
        away = truth - 0.5
        slope = float((away * (predicted - 0.5)).sum() / max(float((away**2).sum()), 1e-300))
        return Accuracy(
            rmse=float(np.sqrt(((predicted - truth) ** 2).mean())),
            coverage=float(np.array(self.inside).mean()),
            bias=slope - 1.0,
        )


def newcomers(world: World, model: RatingModel) -> Skills:
    """Return one side of all worlds before the first match, shape [W, M]."""
    shape = (world.worlds, world.members)
    return Skills(np.full(shape, model.mu), np.full(shape, model.sigma))


def rated(
    contender: Contender, world: World, teachers: Skills, students: Skills, turn: Round
) -> tuple[Skills, Skills]:
    """Return both sides, shape [W, M], after a round."""
    partners = matched(students, turn.partner)
    shape = turn.partner.shape
    new = contender.update(
        _flat(teachers), _flat(partners), turn.solved.reshape(-1, world.tasks), world.rollouts
    )
    back = np.argsort(turn.partner, axis=1)
    met = Skills(new[1].mu.reshape(shape), new[1].sigma.reshape(shape))
    return Skills(new[0].mu.reshape(shape), new[0].sigma.reshape(shape)), matched(met, back)


def matched(students: Skills, partner: Ints) -> Skills:
    """Return the students of columns [W, M] in the order of `partner`."""
    return Skills(
        np.take_along_axis(students.mu, partner, axis=1),
        np.take_along_axis(students.sigma, partner, axis=1),
    )


def compare(
    ledger: Ledger, scheme: RatingScheme, teachers: Skills, students: Skills, gaps: Floats, c: float
) -> None:
    """Enter the beliefs about all pairs, and their truth, into a ledger."""
    column = Skills(teachers.mu[:, :, None], teachers.sigma[:, :, None])
    row = Skills(students.mu[:, None, :], students.sigma[:, None, :])
    middle = row.mu - column.mu
    reach = Z95 * np.hypot(row.sigma, column.sigma)
    still = np.zeros_like(middle)
    low, high = (
        scheme.predict(Skills(still, still), Skills(middle + side * reach, still))
        for side in (-1.0, 1.0)
    )
    ledger.add(scheme.predict(column, row), solve_rates(gaps / c), low, high)


def follow(
    contender: Contender, world: World, rounds: Iterable[Round], model: RatingModel, first: int
) -> Ledger:
    """Return how a contender knew the worlds, from round number `first` on."""
    teachers = students = newcomers(world, model)
    ledger = Ledger()
    for turn in rounds:
        met = matched(students, turn.partner)
        p = np.clip(contender.predictor.predict(teachers, met), 1e-9, 1.0 - 1e-9)
        share = turn.solved.mean(axis=2) / world.rollouts
        loss = -(share * np.log(p) + (1.0 - share) * np.log1p(-p))
        ledger.losses.append(loss.mean(axis=1))
        teachers, students = rated(contender, world, teachers, students, turn)
        if turn.number >= first:
            compare(ledger, contender.predictor, teachers, students, turn.gaps, world.scale)
    return ledger


def _flat(skills: Skills) -> Skills:
    return Skills(skills.mu.ravel(), skills.sigma.ravel())
