"""The verb `simulate`: leagues whose truth is known."""

from dataclasses import replace
from typing import Any

import click

from league.commands.options import as_json_option
from league.commands.output import number, print_json, print_table
from league.simulation import Simulation, simulate
from league.state.config import MATCHERS, LeagueConfig


@click.command("simulate")
@click.option("--teachers", default=4, show_default=True)
@click.option("--students", default=4, show_default=True)
@click.option("--rounds", default=60, show_default=True)
@click.option("--tasks", default=16, show_default=True, help="Tasks per match.")
@click.option("--rollouts", default=8, show_default=True, help="Attempts per task.")
@click.option("--worlds", default=8, show_default=True, help="Repetitions with other truths.")
@click.option("--drift", type=float, help="How far a true skill moves per round  [default: tau]")
@click.option("--tau", type=float, help="How far the model believes it moves  [default: 0.083]")
@click.option("--matcher", type=click.Choice(MATCHERS), default="sampled", show_default=True)
@click.option("--seed", default=0, show_default=True)
@as_json_option
def simulate_command(
    tau: float | None, matcher: str, seed: int, as_json: bool, **chosen: Any
) -> None:
    """Rate members whose true skills are known, in a sound league and with a broken teacher."""
    config = LeagueConfig(seed=seed, matcher=matcher)
    config = config if tau is None else replace(config, tau=tau)
    world = Simulation(seed=seed, config=config, **chosen)
    results = {"sound": simulate(world)}
    if world.teachers > 1:
        results["one broken teacher"] = simulate(replace(world, broken=True))
    if as_json:
        print_json({name: result.to_dict() for name, result in results.items()})
        return
    header = ("league", "RMSE", "coverage", "bias", "broken last")
    rows = [
        (name, f"{x.rmse:.3f}", f"{x.coverage:.3f}", f"{x.bias:+.3f}", number(x.broken_last, 2))
        for name, x in results.items()
    ]
    print_table(header, rows)
    click.echo(
        "\nRMSE of the predicted solve rate; share of true skill gaps inside 95 % intervals; "
        "relative\noverspread of gaps; share of worlds in which the broken teacher ends last."
    )
