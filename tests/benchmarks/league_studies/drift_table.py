"""Members that learn: how well tau must match their pace, and what no tau can do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from league_studies.contenders import Contender, Update, contenders, fractional
from league_studies.follow import Accuracy, Ledger, follow
from league_studies.oracle import oracle
from league_studies.world import Round, World, play

from league.basics.data import Floats
from league.history.tuning import TAUS
from league.rating.rating import RatingModel
from league.rating.schemes import Batch

DRIFTS = tuple(factor * RatingModel.tau for factor in (0.0, 1.0, 2.5, 5.0, 10.0))
"""True steps of a skill per match: none, the default tau, and what training may bring."""


@dataclass(frozen=True)
class DriftRow:
    """One setting at one drift, in the second half of the rounds; figures as in `Accuracy`.

    tau: the one used; for calibrated settings the mean of what the worlds' own logs chose.
    """

    drift: float
    setting: str
    tau: float
    rmse: float
    coverage: float


def drift_table(
    world: World,
    drifts: Sequence[float] = DRIFTS,
    progress: Callable[[int, int], None] | None = None,
) -> list[DriftRow]:
    """Rate worlds of several drifts in six ways.

    Under the default tau, three times it, the true one, one calibrated on the first half of each
    world's own log, the same with tasks weighed by their variance, and by the joint filter that
    knows everything (see `oracle`).
    """
    rows = []
    for done, drift in enumerate(drifts):
        rows += _at(replace(world, drift=drift), world.rounds // 2)
        if progress:
            progress(done + 1, len(drifts))
    return rows


def _at(world: World, first: int) -> list[DriftRow]:
    rounds = list(play(world))
    default = RatingModel.tau
    plain = _ledgers(world, rounds, first, lambda batch: fractional(batch, 1.0))
    varied = _ledgers(world, rounds, first, _variance_update)
    known = follow(
        _batch(world.drift), world, rounds, replace(RatingModel(), tau=world.drift), first
    )
    middle = follow(
        _batch(3.0 * default), world, rounds, replace(RatingModel(), tau=3.0 * default), first
    )
    rows = [
        _row(world, "default tau", default, plain[default].accuracy()),
        _row(world, "three times the default", 3.0 * default, middle.accuracy()),
        _row(world, "tau = drift", world.drift, known.accuracy()),
        _row(world, "calibrated tau", *_calibrated(plain, first)),
        _row(world, "calibrated tau, weight from task variance", *_calibrated(varied, first)),
    ]
    floor = oracle(world, rounds, _games_per_task(rounds, world), first).accuracy()
    return [*rows, _row(world, "floor: knows drift, spread, covariance", world.drift, floor)]


def _row(world: World, setting: str, tau: float, found: Accuracy) -> DriftRow:
    return DriftRow(world.drift, setting, tau, found.rmse, found.coverage)


def _batch(tau: float, update: Callable[[Batch], Update] | None = None) -> Contender:
    batch = Batch(replace(RatingModel(), tau=tau))
    return Contender("", update(batch) if update else fractional(batch, 1.0), batch)


def _variance_update(batch: Batch) -> Update:
    found = [c for c in contenders(batch.model) if c.name.endswith("task variance")]
    return found[0].update


def _ledgers(
    world: World, rounds: Sequence[Round], first: int, update: Callable[[Batch], Update]
) -> dict[float, Ledger]:
    model = RatingModel()
    return {
        tau: follow(_batch(tau, update), world, rounds, replace(model, tau=tau), first)
        for tau in TAUS
    }


def _calibrated(ledgers: dict[float, Ledger], first: int) -> tuple[float, Accuracy]:
    """Each world under the tau that predicted its rounds before `first` best."""
    taus = list(ledgers)
    losses = np.array([np.sum(ledgers[tau].losses[:first], axis=0) for tau in taus])
    choice = losses.argmin(axis=0)
    worlds = np.arange(losses.shape[1])

    def chosen(name: str) -> list[Floats]:
        stacked = np.array([getattr(ledgers[tau], name) for tau in taus])
        return list(np.moveaxis(stacked[choice, :, worlds], 0, 1))

    ledger = Ledger(chosen("predicted"), chosen("truth"), chosen("inside"))
    return float(np.array(taus)[choice].mean()), ledger.accuracy()


def _games_per_task(rounds: Sequence[Round], world: World) -> float:
    """How many independent games a task is worth, from the true correlation of its rollouts."""
    rates = np.concatenate([turn.solved.reshape(-1, world.tasks) for turn in rounds])
    q = rates.mean(axis=1) / world.rollouts
    if world.tasks < 2:
        return 1.0
    between = float((rates / world.rollouts).var(axis=1, ddof=1).mean())
    return float((q * (1.0 - q)).mean()) / between if between else 1.0
