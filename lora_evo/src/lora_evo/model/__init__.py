"""Many adapters on one base model: stacked LoRA, decoding, and the `hf` and `vllm` engines.

torch and transformers are imported with the first name that needs them, vllm with its engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from lora_evo.model.engine import Engine, Request, Rollout, before_stop, encoded
from lora_evo.peft.config import TARGET_MODULES
from lora_evo.random_streams import derive_seed, stream

if TYPE_CHECKING:
    from lora_evo.model.base import (
        BaseModel,
        choose_device,
        linear_shapes,
        load_base_model,
        load_tokenizer,
        public_name,
        resolve,
        same_base,
    )
    from lora_evo.model.hf_engine import HFEngine
    from lora_evo.model.optimizer import MemberAdamW
    from lora_evo.model.output_layer import chunk_tokens
    from lora_evo.model.saved_adapters import open_engine
    from lora_evo.model.scoring import Scorer, TokenPair
    from lora_evo.model.stacked_linear import BASE
    from lora_evo.model.stacked_lora import (
        StackedAdapters,
        export_adapter,
        import_adapter,
        merge_adapter,
        stack_adapters,
        trainable_shapes,
    )
    from lora_evo.model.supervised import SupervisedLearner, drawn, token_pair
    from lora_evo.model.vllm_engine import VLLMEngine
    from lora_evo.model.vllm_server import Serving, VLLMOptions, require_vllm

__all__ = [
    "BASE", "TARGET_MODULES", "BaseModel", "Engine", "HFEngine", "MemberAdamW", "Request",
    "Rollout", "Scorer", "Serving", "StackedAdapters", "SupervisedLearner", "TokenPair",
    "VLLMEngine", "VLLMOptions", "before_stop", "choose_device", "chunk_tokens", "derive_seed",
    "drawn", "encoded", "export_adapter", "import_adapter", "linear_shapes", "load_base_model",
    "load_tokenizer", "merge_adapter", "open_engine", "public_name", "require_vllm", "resolve",
    "same_base", "stack_adapters", "stream", "token_pair", "trainable_shapes",
]  # fmt: skip


def __getattr__(name: str) -> object:
    places = (
        "vllm_server", "stacked_lora", "base", "supervised", "hf_engine", "vllm_engine",
        "saved_adapters", "optimizer", "output_layer", "scoring",
    )  # fmt: skip
    for place in places if name in __all__ else ():
        loaded = import_module(f"lora_evo.model.{place}")
        if hasattr(loaded, name):
            return getattr(loaded, name)
    raise AttributeError(f"module 'lora_evo.model' has no attribute {name!r}")
