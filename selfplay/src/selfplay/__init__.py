"""PopuLoRA: co-evolving populations of LoRA teachers and students."""

from importlib import import_module
from typing import TYPE_CHECKING

from selfplay.errors import SelfplayError

if TYPE_CHECKING:
    from selfplay.config import Config, load_preset
    from selfplay.evaluate import evaluate_members
    from selfplay.evolution import evolve
    from selfplay.files.export import export_member
    from selfplay.files.record import RunRecord, read_run
    from selfplay.learning.batch import TrainingSample
    from selfplay.learning.learner import Learner
    from selfplay.learning.rewards import TEACHER_REWARDS, TeacherReward, training_samples
    from selfplay.machine.preset_choice import config_for
    from selfplay.reports.progress import Progress
    from selfplay.reports.run_page import report
    from selfplay.run import Extensions, Run
    from selfplay.sampling.texts import Attempt, Proposed
    from selfplay.seeds import seed_tasks
    from selfplay.step import (
        match,
        propose,
        record_outcomes,
        record_step,
        remember,
        solve,
        train_step,
        verify,
    )
    from selfplay.tasks.kind import TaskKind
    from selfplay.tasks.template import template_named
    from selfplay.training import new_run, open_run, resume, train

__version__ = "0.1.0"

__all__ = [
    "TEACHER_REWARDS", "Attempt", "Config", "Extensions", "Learner", "Progress", "Proposed", "Run",
    "RunRecord", "SelfplayError", "TaskKind", "TeacherReward", "TrainingSample", "__version__",
    "config_for", "evaluate_members", "evolve", "export_member", "load_preset", "match", "new_run",
    "open_run", "propose", "read_run", "record_outcomes", "record_step", "remember", "report",
    "resume", "seed_tasks", "solve", "template_named", "train", "train_step", "training_samples",
    "verify",
]  # fmt: skip


def __getattr__(name: str) -> object:
    places = (
        "config", "files.record", "tasks.kind", "tasks.template", "reports.progress",
        "reports.run_page", "sampling.texts", "learning.rewards",
        "learning.batch", "machine.preset_choice", "files.export", "evaluate", "run", "evolution",
        "seeds", "step", "training", "learning.learner",
    )  # fmt: skip
    for place in places if name in __all__ else ():
        loaded = import_module(f"selfplay.{place}")
        if hasattr(loaded, name):
            return getattr(loaded, name)
    raise AttributeError(f"module 'selfplay' has no attribute {name!r}")
