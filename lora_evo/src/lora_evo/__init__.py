"""Mutation, crossover and lineage of PEFT-format LoRA adapters, from files alone."""

from lora_evo.adapter import Adapter, Slot
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
from lora_evo.errors import FileDamage, LoraEvoError
from lora_evo.family import Member, family, tree
from lora_evo.inspection import AdapterView, ModuleView, inspect_directory
from lora_evo.lineage import Lineage, ModuleTrace, read_lineage
from lora_evo.operators import OPERATORS, Operator
from lora_evo.verification import Verification, verify

__version__ = "0.1.0"

__all__ = [
    "OPERATORS",
    "Adapter",
    "AdapterConfig",
    "AdapterView",
    "Child",
    "FileDamage",
    "Lineage",
    "LoraEvoError",
    "Member",
    "ModuleTrace",
    "ModuleView",
    "Operator",
    "Slot",
    "Verification",
    "adapter_hash",
    "content_hash",
    "cross",
    "cross_directory",
    "cross_with_report",
    "distance",
    "family",
    "inspect_directory",
    "load_adapter",
    "mutate",
    "mutate_directory",
    "mutate_with_report",
    "read_lineage",
    "relative_change",
    "save_adapter",
    "tree",
    "verify",
]
