"""Engines on saved adapters of one base model."""

from collections.abc import Mapping

import torch

from lora_evo import Adapter, adapter_hash, load_adapter
from lora_evo.compare import any_update
from lora_evo.errors import LoraEvoError, checked_count
from lora_evo.model.base import BaseModel, choose_device, fitted, linear_shapes, load_base_model
from lora_evo.model.engine import Engine, Folders, Request
from lora_evo.model.hf_engine import HFEngine
from lora_evo.model.stacked_lora import stack_saved
from lora_evo.model.vllm_engine import VLLMEngine
from lora_evo.model.vllm_server import Serving, VLLMOptions, refuse_float32, require_vllm

_PROBE_TOKENS = 8
"""Tokens of the prompt and the completion that check an adapter's effect."""


def open_engine(
    kind: str,
    model: str,
    adapters: Folders | None = None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    max_rows: int = 64,
    any_base: bool = False,
    load_in_4bit: bool = False,
) -> Engine:
    """Open an engine on saved adapters of one base model.

    kind: `hf` or `vllm`. model: folder or hub name, or `nano`. adapters: PEFT folders by name.
    device: auto, cpu or cuda. dtype: auto, float32, bfloat16 or float16. max_rows: sequences in one
    batch. any_base: accept adapters whose configuration names another base model, or whose lineage
    names another 4-bit format. load_in_4bit: as for `load_base_model`. Raises LoraEvoError.
    """
    if kind not in ("hf", "vllm"):
        raise LoraEvoError(f"the engine is {kind!r}; expected hf or vllm")
    checked_count("max_rows", max_rows)
    target = choose_device(device)
    on_gpu = bool(adapters) and target.type == "cuda"
    if kind == "vllm":
        refuse_float32(dtype, on_gpu)
        if bits := BaseModel.quantization_of(model, load_in_4bit):
            raise LoraEvoError(f"{model} is in {bits}, which vLLM does not load; type --engine hf")
        require_vllm()
    folders = dict(adapters or {})
    saved = {name: load_adapter(folder) for name, folder in folders.items()}
    loaded_on = torch.device("cpu") if kind == "vllm" else target
    base = load_base_model(model, loaded_on, dtype, load_in_4bit)
    fitting = {name: fitted(base, a, str(folders[name]), any_base) for name, a in saved.items()}
    engine: Engine
    if kind == "vllm":
        refuse_float32(base.dtype, on_gpu)
        base.model.to("meta")  # vLLM loads the weights again
        highest = max((slot.rank for a in saved.values() for slot in a.slots.values()), default=1)
        source = base.model.name_or_path
        serving = Serving(source, base.dtype, target, base.context, len(saved), highest)
        options = VLLMOptions(max_rows=max_rows)
        engine = VLLMEngine(base, serving, options, linear_shapes(base.model))
    else:
        engine = HFEngine(stack_saved(base.model, fitting), base.tokenizer, max_rows=max_rows)
    engine.hashes = {name: adapter_hash(adapter) for name, adapter in saved.items()}
    engine.about = {
        "engine": kind,
        "model": base.name,
        "model_hash": base.fingerprint,
        "dtype": base.dtype,
        **({"quantization": base.quantization} if base.quantization else {}),
    }
    try:
        if kind == "vllm":
            for name, adapter in fitting.items():
                engine.put_adapter(name, 0, adapter)
        _check_effect(engine, base, fitting)
    except BaseException:
        engine.close()
        raise
    return engine


def _check_effect(engine: Engine, base: BaseModel, saved: Mapping[str, Adapter]) -> None:
    """Raise LoraEvoError for an adapter that is not 0 and changes no log-probability."""
    names = [name for name, a in saved.items() if any(map(any_update, a.slots.values()))]
    if not names:
        return
    vocabulary = base.model.config.get_text_config().vocab_size
    ids = tuple(i % vocabulary for i in range(1, _PROBE_TOKENS + 1))
    # One at a time: rows of one batch may be rounded differently.
    plain, *changed = (
        engine.generate([Request(ids, name, _PROBE_TOKENS)])[0].logprobs for name in (None, *names)
    )
    for name, logprobs in zip(names, changed, strict=True):
        if logprobs == plain:
            rounding = f"; {base.dtype} may round it off: --dtype float32"
            raise LoraEvoError(
                f"adapter {name!r} does not change the outputs of {base.name}, though it is not 0"
                f"{'' if base.dtype == 'float32' else rounding}"
            )
