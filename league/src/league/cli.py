"""The `league` command: all its verbs."""

import click

from league import __version__
from league.commands.board import board_command, matrix_command, report_command
from league.commands.games import (
    alpha_rank_command,
    diversity_command,
    interaction_command,
    nash_command,
)
from league.commands.group import OneLineErrors
from league.commands.history import (
    calibration_command,
    drift_command,
    generations_command,
    survival_command,
)
from league.commands.replay import calibrate_command, replay_command
from league.commands.simulate import simulate_command


@click.group(cls=OneLineErrors)
@click.version_option(__version__, prog_name="league")
def main() -> None:
    """Ratings, matchmaking and replacement for two populations."""


for _command in (
    board_command,
    matrix_command,
    interaction_command,
    nash_command,
    alpha_rank_command,
    diversity_command,
    calibration_command,
    survival_command,
    drift_command,
    generations_command,
    replay_command,
    calibrate_command,
    report_command,
    simulate_command,
):
    main.add_command(_command)
