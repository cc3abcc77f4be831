"""The `league` command: all its verbs."""

import click

from league import __version__
from league.commands import board, games, history, replay, simulate
from league.commands.group import OneLineErrors


@click.group(cls=OneLineErrors)
@click.version_option(__version__, prog_name="league")
def main() -> None:
    """Ratings, matchmaking and replacement for two populations."""


for _command in (
    *(board.board_command, board.matrix_command),
    *(games.interaction_command, games.nash_command, games.alpha_rank_command),
    *(games.diversity_command, history.calibration_command, history.survival_command),
    *(history.drift_command, history.generations_command),
    *(replay.replay_command, replay.calibrate_command),
    *(board.report_command, simulate.simulate_command),
):
    main.add_command(_command)
