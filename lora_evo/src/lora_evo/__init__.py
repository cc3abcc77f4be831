"""Evolution of LoRA adapters: children, lineage, distance and retention, without the base model.

Names that need torch are loaded on first use, so that `import lora_evo` does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lora_evo.errors import EngineStopped, LoraEvoError, first_line, pip_install, remedy
from lora_evo.files import (
    appearing,
    append_text,
    check_output,
    lock_folder,
    remove_empty,
    sweep,
    write_text,
)
from lora_evo.lineage import Lineage, family, read_lineage
from lora_evo.operators.operator import OPERATORS, Operator
from lora_evo.peft.card import push_to_hub
from lora_evo.peft.config import AdapterConfig
from lora_evo.peft.directory import content_hash

if TYPE_CHECKING:
    from lora_evo.children import (
        cross,
        cross_directory,
        make_child,
        merge,
        merge_directory,
        mutate,
        mutate_directory,
    )
    from lora_evo.commands.terminal import Commands, text_table
    from lora_evo.compare import distance, measured, retention
    from lora_evo.peft.adapter import Adapter, Slot, adapter_hash, load_adapter, save_adapter
    from lora_evo.verification import verify

__version__ = "0.1.0"

__all__ = [
    "OPERATORS", "Adapter", "AdapterConfig", "Commands", "EngineStopped", "Lineage", "LoraEvoError",
    "Operator", "Slot", "adapter_hash", "appearing", "append_text", "check_output", "content_hash",
    "cross", "cross_directory", "distance", "family", "first_line", "load_adapter", "lock_folder",
    "make_child", "measured", "merge", "merge_directory", "mutate", "mutate_directory",
    "pip_install", "push_to_hub", "read_lineage", "remedy", "remove_empty", "retention",
    "save_adapter", "sweep", "text_table", "verify", "write_text",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    places = ["peft.adapter", "compare", "children", "verification"]
    if name in ("Commands", "text_table"):
        places = ["commands.terminal"]
    for place in places if name in __all__ else []:
        loaded = import_module(f"lora_evo.{place}")
        if hasattr(loaded, name):
            return getattr(loaded, name)
    raise AttributeError(f"module 'lora_evo' has no attribute {name!r}")
