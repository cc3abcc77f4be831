"""Many adapters on one base model: stacked LoRA, decoding, and the `hf` and `vllm` engines.

torch and transformers load with the first name that needs them, vllm with the first vllm engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from lora_evo.model.engine import Engine
from lora_evo.model.requests import Completion, Request, Rollout, TokenRequest, derive_seed, stream

if TYPE_CHECKING:
    from lora_evo.model.base_model import (
        BaseModel,
        choose_device,
        linear_shapes,
        load_base_model,
        public_name,
        resolve,
        same_base,
    )
    from lora_evo.model.exchange import (
        export_adapter,
        import_adapter,
        members_of,
        merge_adapter,
        name_adapters,
    )
    from lora_evo.model.hf_engine import HFEngine
    from lora_evo.model.opening import open_engine
    from lora_evo.model.stacked_lora import BASE, TARGET_MODULES, StackedAdapters, stack_adapters
    from lora_evo.model.supervised import SupervisedLearner, TokenPair, drawn, token_pair
    from lora_evo.model.vllm_engine import VLLMEngine
    from lora_evo.model.vllm_options import Serving, VLLMOptions, require_vllm

_HOMES = {
    "BASE": "stacked_lora",
    "BaseModel": "base_model",
    "HFEngine": "hf_engine",
    "Serving": "vllm_options",
    "StackedAdapters": "stacked_lora",
    "SupervisedLearner": "supervised",
    "TARGET_MODULES": "stacked_lora",
    "TokenPair": "supervised",
    "VLLMEngine": "vllm_engine",
    "VLLMOptions": "vllm_options",
    "choose_device": "base_model",
    "drawn": "supervised",
    "export_adapter": "exchange",
    "import_adapter": "exchange",
    "linear_shapes": "base_model",
    "load_base_model": "base_model",
    "members_of": "exchange",
    "merge_adapter": "exchange",
    "name_adapters": "exchange",
    "open_engine": "opening",
    "public_name": "base_model",
    "require_vllm": "vllm_options",
    "resolve": "base_model",
    "same_base": "base_model",
    "stack_adapters": "stacked_lora",
    "token_pair": "supervised",
}

__all__ = [
    "BASE",
    "TARGET_MODULES",
    "BaseModel",
    "Completion",
    "Engine",
    "HFEngine",
    "Request",
    "Rollout",
    "Serving",
    "StackedAdapters",
    "SupervisedLearner",
    "TokenPair",
    "TokenRequest",
    "VLLMEngine",
    "VLLMOptions",
    "choose_device",
    "derive_seed",
    "drawn",
    "export_adapter",
    "import_adapter",
    "linear_shapes",
    "load_base_model",
    "members_of",
    "merge_adapter",
    "name_adapters",
    "open_engine",
    "public_name",
    "require_vllm",
    "resolve",
    "same_base",
    "stack_adapters",
    "stream",
    "token_pair",
]


def __getattr__(name: str) -> object:
    """Import what brings torch and transformers when it is asked for."""
    if name in _HOMES:
        return getattr(import_module(f"lora_evo.model.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'lora_evo.model' has no attribute {name!r}")
