"""Which way of rating knows the truth best: the table of schemes."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from league_studies.contenders import contenders
from league_studies.follow import follow
from league_studies.world import World, play

from league.rating.rating import RatingModel


@dataclass(frozen=True)
class SchemeRow:
    """One way of rating; the figures are those of `Accuracy`, over the last three quarters."""

    scheme: str
    rmse: float
    coverage: float | None
    bias: float


def scheme_table(
    world: World, progress: Callable[[int, int], None] | None = None
) -> list[SchemeRow]:
    """Rate the same worlds in every way; tau is the worlds' true drift."""
    model = replace(RatingModel(), tau=world.drift)
    rounds = list(play(world))
    rows = []
    everyone = contenders(model)
    for contender in everyone:
        found = follow(contender, world, rounds, model, world.rounds // 4).accuracy()
        doubtless = contender.name.startswith("Elo")
        rows.append(
            SchemeRow(contender.name, found.rmse, None if doubtless else found.coverage, found.bias)
        )
        if progress:
            progress(len(rows), len(everyone))
    return rows
