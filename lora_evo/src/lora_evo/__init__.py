"""Evolution of LoRA adapters: children, lineage, distance and retention, without the base model.

`lora_evo.model` runs adapters on their base; `lora_evo.files` writes files that a crash leaves
whole, and `lora_evo.terminal` is what commands are made of. Names that need torch are loaded on
first use, so that `import lora_evo` does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lora_evo.errors import EngineStopped, LoraEvoError
from lora_evo.family import family
from lora_evo.operators.operator import OPERATORS, Operator
from lora_evo.peft.card import push_to_hub
from lora_evo.peft.config import AdapterConfig
from lora_evo.peft.directory import content_hash
from lora_evo.peft.lineage import Lineage, read_lineage

if TYPE_CHECKING:
    from lora_evo.children import cross, make_child, merge, mutate, write_child
    from lora_evo.compare import distance, retention
    from lora_evo.operators.slot_child import measured
    from lora_evo.peft.adapter import Adapter, Slot, adapter_hash, load_adapter, save_adapter
    from lora_evo.verification import verify

__version__ = "0.1.0"

__all__ = [
    "OPERATORS", "Adapter", "AdapterConfig", "EngineStopped", "Lineage", "LoraEvoError", "Operator",
    "Slot", "adapter_hash", "content_hash", "cross", "distance", "family", "load_adapter",
    "make_child", "measured", "merge", "mutate", "push_to_hub", "read_lineage", "retention",
    "save_adapter", "verify", "write_child",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    places = "peft.adapter", "compare", "operators.slot_child", "children", "verification"
    for place in places if name in __all__ else ():
        loaded = import_module(f"lora_evo.{place}")
        if hasattr(loaded, name):
            return getattr(loaded, name)
    raise AttributeError(f"module 'lora_evo' has no attribute {name!r}")
