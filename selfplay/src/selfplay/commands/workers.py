"""`--workers` and `--ray`: where the work of a run is done."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from selfplay.config.run_config import RunConfig
from selfplay.errors import SelfplayError

if TYPE_CHECKING:
    from selfplay.population.parts import OpenParts


def worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options `--workers` and `--ray`."""
    for option in (
        click.option("--ray", "address", metavar="HOST:PORT", help="A Ray cluster, or auto."),
        click.option("--workers", type=int, help="Processes over which members are dealt."),
    ):
        command = option(command)
    return command


def parts_opener(workers: int | None, address: str | None) -> "OpenParts":
    """Return what opens a run's parts: in this process, or on workers. Raises SelfplayError."""
    if workers is not None and workers < 1:
        raise SelfplayError(f"--workers is {workers}; expected 1 or more")
    if address is None and workers in (None, 1):
        from selfplay.population.parts import local_parts

        return local_parts
    from selfplay.workers.opening import Workers
    from selfplay.workers.session import import_ray

    import_ray()
    return Workers(workers or 0, address)


def warn_of_rounding(config: RunConfig, workers: int | None, address: str | None) -> None:
    """Say so where a run goes on in other batches than it was started in."""
    alike = config.learner.micro_batch_members == config.rollout.merge_rows == 1
    if not alike and (address is not None or (workers or 1) > 1):
        click.echo(
            "this run was started without --workers: several members share its batches, and on "
            "workers its numbers differ in the last bits from those of one process",
            err=True,
        )
