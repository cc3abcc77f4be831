"""The trackers that a run reports to, each by its own package, opened where it left off.

Nothing leaves this machine unless the tracker's own environment variables say so.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = "populab"


@dataclass(frozen=True)
class Tracker:
    """An open tracker."""

    log: Callable[[Mapping[str, float], int], None]
    """Takes the numbers of a step."""
    close: Callable[[], None]
    name: str = ""
    """By which the tracker finds this run again."""


@dataclass(frozen=True)
class Reported:
    """The run that is reported."""

    home: Path
    config: dict[str, Any]
    step: int
    """Steps done; what a tracker holds of later ones is of a process that was killed."""
    known_as: str | None
    """What `Tracker.name` was before."""


def open_tensorboard(run: Reported) -> Tracker:
    """Event files in RUN/tensorboard; a viewer leaves out the steps that are done again."""
    from torch.utils.tensorboard import SummaryWriter

    purge = {"purge_step": run.step + 1} if run.step else {}
    writer = SummaryWriter(str(run.home / "tensorboard"), **purge)

    def log(values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return Tracker(log, writer.close)


def open_wandb(run: Reported) -> Tracker:
    """A run in RUN/wandb, offline unless WANDB_MODE says otherwise; `wandb sync` sends it."""
    import wandb

    opened = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=run.home.name,
        id=run.known_as,
        resume="allow",
        dir=str(run.home),
        config=run.config,
        mode=os.environ.get("WANDB_MODE", "offline"),
        settings=wandb.Settings(console="off", silent=True),
    )

    def log(values: Mapping[str, float], step: int) -> None:
        opened.log(dict(values), step=step)

    return Tracker(log, opened.finish, opened.id)


def open_trackio(run: Reported) -> Tracker:
    """A run in trackio's own folder (TRACKIO_DIR), which `trackio show` reads."""
    import trackio

    name = run.known_as or f"{run.home.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    opened = trackio.init(
        project=os.environ.get("TRACKIO_PROJECT", PROJECT),
        name=name,
        config=run.config,
        resume="allow",
        embed=False,
        auto_log_gpu=False,
        auto_log_cpu=False,
    )

    def log(values: Mapping[str, float], step: int) -> None:
        opened.log(dict(values), step=step)

    return Tracker(log, opened.finish, name)


def open_mlflow(run: Reported) -> Tracker:
    """A run where MLFLOW_TRACKING_URI says, by default in the folder that training began in."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    client = MlflowClient()
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    if run.known_as is not None:
        client.update_run(run.known_as, status="RUNNING")
        known_as = run.known_as
    else:
        experiment = client.get_experiment_by_name(name)
        place = experiment.experiment_id if experiment else client.create_experiment(name)
        known_as = client.create_run(place, run_name=run.home.name).info.run_id
        for key, value in run.config.items():
            client.log_param(known_as, key, str(value)[:500])

    def log(values: Mapping[str, float], step: int) -> None:
        now = int(1000 * time.time())
        client.log_batch(known_as, [Metric(k, v, now, step) for k, v in values.items()])

    return Tracker(log, lambda: client.set_terminated(known_as), known_as)


OPENERS: dict[str, tuple[str, Callable[[Reported], Tracker]]] = {
    "tensorboard": ("tensorboard", open_tensorboard),
    "wandb": ("wandb", open_wandb),
    "trackio": ("trackio", open_trackio),
    "mlflow": ("mlflow", open_mlflow),
}
"""By the name in `report_to`: the package that must be installed, and what opens the tracker."""
