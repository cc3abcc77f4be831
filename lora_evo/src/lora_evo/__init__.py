"""Mutation, crossover, retention and lineage of PEFT-format LoRA adapters, from files alone."""

from lora_evo.adapter import Adapter, Slot
from lora_evo.angles import SpaceGap, column_angles, row_angles
from lora_evo.breeding import (
    Child,
    cross,
    cross_with_report,
    mutate,
    mutate_with_report,
)
from lora_evo.breeding_directories import cross_directory, mutate_directory
from lora_evo.config import AdapterConfig
from lora_evo.content import adapter_hash
from lora_evo.directory import content_hash, load_adapter, save_adapter
from lora_evo.distance import distance, relative_change
from lora_evo.diversity import Diversity, diversity, diversity_of_directories
from lora_evo.errors import FileDamage, LoraEvoError
from lora_evo.family import Member, family, tree
from lora_evo.family_page import family_page
from lora_evo.inspection import AdapterView, ModuleView, inspect_directory
from lora_evo.layout import Layout
from lora_evo.lineage import Lineage, ModuleTrace, read_lineage
from lora_evo.operators import OPERATORS, Operator
from lora_evo.operators.operator import Recipe, Request, SlotChild
from lora_evo.parents import Moments, moments_of, parents_on_disk
from lora_evo.plugins import Plugin, known_operators, plugins
from lora_evo.probe import Behaviour, RowBehaviour, probe
from lora_evo.probe_model import open_base
from lora_evo.probe_rows import ProbeRow, read_probes
from lora_evo.recovery import RecoveryProtocol, checks_up_to
from lora_evo.recovery_summary import summarise
from lora_evo.resize import resize, resize_directory, resize_with_report
from lora_evo.retention import Comparison, Condition, Retention, retention, retention_of_directories
from lora_evo.supervised_learner import SupervisedLearner, TrainingRecipe
from lora_evo.supervised_trials import SupervisedTrials
from lora_evo.training_rows import TrainingRows, read_training_rows
from lora_evo.trial_journal import read_journal
from lora_evo.trial_plan import Pair, Treatment, TrialPlan, read_treatment
from lora_evo.trials import Learner, run_trials
from lora_evo.verdict import verdict
from lora_evo.verification import Verification, verify

__version__ = "0.1.0"

__all__ = [
    "OPERATORS",
    "Adapter",
    "AdapterConfig",
    "AdapterView",
    "Behaviour",
    "Child",
    "Comparison",
    "Condition",
    "Diversity",
    "FileDamage",
    "Layout",
    "Learner",
    "Lineage",
    "LoraEvoError",
    "Member",
    "ModuleTrace",
    "ModuleView",
    "Moments",
    "Operator",
    "Pair",
    "Plugin",
    "ProbeRow",
    "Recipe",
    "RecoveryProtocol",
    "Request",
    "Retention",
    "RowBehaviour",
    "Slot",
    "SlotChild",
    "SpaceGap",
    "SupervisedLearner",
    "SupervisedTrials",
    "TrainingRecipe",
    "TrainingRows",
    "Treatment",
    "TrialPlan",
    "Verification",
    "adapter_hash",
    "checks_up_to",
    "column_angles",
    "content_hash",
    "cross",
    "cross_directory",
    "cross_with_report",
    "distance",
    "diversity",
    "diversity_of_directories",
    "family",
    "family_page",
    "inspect_directory",
    "known_operators",
    "load_adapter",
    "moments_of",
    "mutate",
    "mutate_directory",
    "mutate_with_report",
    "open_base",
    "parents_on_disk",
    "plugins",
    "probe",
    "read_journal",
    "read_lineage",
    "read_probes",
    "read_training_rows",
    "read_treatment",
    "relative_change",
    "resize",
    "resize_directory",
    "resize_with_report",
    "retention",
    "retention_of_directories",
    "row_angles",
    "run_trials",
    "save_adapter",
    "summarise",
    "tree",
    "verdict",
    "verify",
]
