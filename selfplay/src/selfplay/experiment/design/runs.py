"""The runs of an experiment, in the order in which they are made, and how far each one is."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from selfplay.config.run_config import RunConfig
from selfplay.errors import RunDirectoryError
from selfplay.experiment.design.plan import Plan
from selfplay.run.directory import CONFIG, FOLDERS, LOCK, METRICS, YARDSTICK, open_config, size


@dataclass(frozen=True)
class PlannedRun:
    """One run: an arm, perhaps with a control, and a seed."""

    arm: str
    control: str | None
    seed: int
    config: RunConfig

    @property
    def folder(self) -> Path:
        """The run directory below that of the experiment: ARM/seed-N or ARM/CONTROL/seed-N."""
        names = [self.arm, *([self.control] if self.control else []), f"seed-{self.seed}"]
        return Path(*(name.replace(" ", "-") for name in names))

    @property
    def title(self) -> str:
        """The run's name for people."""
        return f"{self.arm}{f', {self.control}' if self.control else ''}, seed {self.seed}"

    @property
    def players(self) -> int:
        """Teachers and students, the single agent as both: a first measure of a run's time."""
        solo = self.config.mode == "azr"
        return 2 if solo else self.config.teachers + self.config.students


def planned_runs(plan: Plan) -> list[PlannedRun]:
    """Return all runs, one seed of all arms and controls first, so that early results compare."""
    every = list(dict.fromkeys([*plan.seeds, *plan.control_seeds]))
    return [
        PlannedRun(arm, control, seed, plan.run_config(arm, control, seed))
        for seed in every
        for control in (None, *plan.controls)
        for arm in plan.arms
        if seed in (plan.control_seeds if control else plan.seeds)
    ]


def is_finished(directory: Path, steps: int) -> bool:
    """Whether a run has done its last step and kept what it trained."""
    return (directory / "checkpoints" / f"step-{steps}").is_dir()


def prepare(run: PlannedRun, home: Path) -> bool:
    """Return whether the run has begun and can be resumed; clear away one without any step.

    Raises RunDirectoryError for a directory that holds something else.
    """
    directory = home / run.folder
    if not directory.is_dir() or not any(directory.iterdir()):
        return False
    if any((directory / "checkpoints").glob("step-*[0-9]")):
        if open_config(directory) != run.config:
            raise RunDirectoryError(f"{directory / CONFIG} has other settings than the plan")
        return True
    known = {CONFIG, LOCK, YARDSTICK, *FOLDERS}
    strange = {path.name for path in directory.iterdir() if path.suffix != ".tmp"} - known
    if strange or size(directory / METRICS):
        raise RunDirectoryError(
            f"{directory} has no checkpoint but other files; move it away to run it again"
        )
    # Killed before its first checkpoint: there is nothing to go on with.
    shutil.rmtree(directory)
    return False
