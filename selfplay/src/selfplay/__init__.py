"""PopuLoRA: co-evolving populations of LoRA teachers and students."""

from importlib import import_module
from typing import TYPE_CHECKING

from selfplay.errors import SelfplayError

if TYPE_CHECKING:
    from selfplay.config import Config as Config
    from selfplay.config import load_preset as load_preset
    from selfplay.evaluate import evaluate_members as evaluate_members
    from selfplay.files.export import export_member as export_member
    from selfplay.files.read import RunRecord as RunRecord
    from selfplay.files.read import read_run as read_run
    from selfplay.learning.batch import TrainingSample as TrainingSample
    from selfplay.learning.learner import Learner as Learner
    from selfplay.learning.rewards import TEACHER_REWARDS as TEACHER_REWARDS
    from selfplay.learning.rewards import TeacherReward as TeacherReward
    from selfplay.learning.rewards import training_samples as training_samples
    from selfplay.machine.base_defaults import config_for as config_for
    from selfplay.report.progress import Progress as Progress
    from selfplay.report.run_page import report as report
    from selfplay.run import Extensions as Extensions
    from selfplay.run import Run as Run
    from selfplay.sampling.texts import Attempt as Attempt
    from selfplay.sampling.texts import Proposed as Proposed
    from selfplay.step import evolve as evolve
    from selfplay.step import match as match
    from selfplay.step import propose as propose
    from selfplay.step import record_outcomes as record_outcomes
    from selfplay.step import record_step as record_step
    from selfplay.step import remember as remember
    from selfplay.step import solve as solve
    from selfplay.step import train_step as train_step
    from selfplay.step import verify as verify
    from selfplay.tasks.buffer import seed_tasks as seed_tasks
    from selfplay.tasks.kind import TaskKind as TaskKind
    from selfplay.tasks.template import template_named as template_named
    from selfplay.training import new_run as new_run
    from selfplay.training import open_run as open_run
    from selfplay.training import resume as resume
    from selfplay.training import train as train

__version__ = "0.1.0"

_LAZY = {
    "config": ("Config", "load_preset"),
    "evaluate": ("evaluate_members",),
    "files.export": ("export_member",),
    "learning.batch": ("TrainingSample",),
    "learning.learner": ("Learner",),
    "machine.base_defaults": ("config_for",),
    "run": ("Extensions", "Run"),
    "report.progress": ("Progress",),
    "tasks.kind": ("TaskKind",),
    "tasks.template": ("template_named",),
    "learning.rewards": ("TEACHER_REWARDS", "TeacherReward", "training_samples"),
    "sampling.texts": ("Attempt", "Proposed"),
    "files.read": ("RunRecord", "read_run"),
    "report.run_page": ("report",),
    "step": (
        "evolve", "match", "propose", "record_outcomes", "record_step", "remember", "solve",
        "train_step", "verify",
    ),
    "tasks.buffer": ("seed_tasks",),
    "training": ("new_run", "open_run", "resume", "train"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _LAZY.items() for name in names}

__all__ = ["SelfplayError", "__version__", *_MODULE_OF]


def __getattr__(name: str) -> object:
    """Import a public name when it is asked for: most of them bring torch."""
    if name in _MODULE_OF:
        return getattr(import_module(f"selfplay.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'selfplay' has no attribute {name!r}")
