"""`--workers` and `--ray`: where the work of a run is done."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from selfplay.errors import SelfplayError

if TYPE_CHECKING:  # torch comes with these, and a report does without
    from selfplay.config.run_config import RunConfig
    from selfplay.population.parts import OpenParts


def worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options `--workers` and `--ray`."""
    for option in (
        click.option("--ray", "address", metavar="HOST:PORT", help="A Ray cluster, or auto."),
        click.option(
            "--workers",
            type=int,
            help="Processes over which members are dealt. Default: 1; of nano all cores.",
        ),
    ):
        command = option(command)
    return command


def usual_workers(config: "RunConfig") -> int:
    """How many workers a run gets that nobody said a number for.

    The built-in model is too small for two threads to help it; it uses cores by workers, where Ray
    is installed.
    """
    from evals.engine.base_model import choose_device
    from selfplay.population.founders import all_founders

    if (config.base, config.engine) != ("nano", "hf") or find_spec("ray") is None:
        return 1
    if choose_device(config.device).type != "cpu":
        return 1
    return min(len(os.sched_getaffinity(0)), len(all_founders(config)))


def parts_opener(workers: int | None, address: str | None) -> "OpenParts":
    """Return what opens a run's parts: in this process, or on workers. Raises SelfplayError."""
    if workers is not None and workers < 1:
        raise SelfplayError(f"--workers is {workers}; expected 1 or more")
    if address is None and workers in (None, 1):
        from selfplay.population.parts import local_parts

        return local_parts
    from selfplay.workers.opening import Workers
    from selfplay.workers.session import require_ray

    require_ray()
    return Workers(workers or 0, address)


def warn_of_rounding(config: "RunConfig", workers: int | None, address: str | None) -> None:
    """Say so where a run goes on in other batches than it was started in."""
    alone = config.learner.micro_batch_members == 1 and config.rollout.by_member
    if not alone and (address is not None or (workers or 1) > 1):
        click.echo(
            "this run was started without --workers: several members share its batches, and on "
            "workers its numbers differ in the last bits from those of one process",
            err=True,
        )
