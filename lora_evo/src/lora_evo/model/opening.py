"""Saved adapters of one base model, and an engine opened on them."""

import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from lora_evo import Adapter, adapter_hash, load_adapter
from lora_evo.compare import any_update
from lora_evo.errors import LoraEvoError
from lora_evo.model.base import (
    BaseModel,
    choose_device,
    fitted,
    linear_shapes,
    load_base_model,
    resolve,
)
from lora_evo.model.engine import Engine, Folders, Request
from lora_evo.model.hf_engine import HFEngine
from lora_evo.model.peft_merge import merge_by_peft, needs_merge
from lora_evo.model.stacked_lora import stack_saved
from lora_evo.model.vllm_engine import VLLMEngine, zero_adapter
from lora_evo.model.vllm_server import Serving, VLLMOptions, refuse_float32, require_vllm

_PROBE_TOKENS = 8
"""Prompt and completion by which an adapter is distinguished from the base."""


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

    kind: `hf` or `vllm`. model: folder or hub name, or `nano`. adapters: name -> PEFT folder.
    device: auto, cpu or cuda. dtype: auto, float32, bfloat16 or float16. max_rows: sequences in one
    batch. any_base: accept adapters whose configuration names another base model, or whose lineage
    a base in other bits. load_in_4bit: as `load_base_model` takes it.

    An adapter that `needs_merge` is opened alone: PEFT merges it into a copy of the base, which the
    engine serves, of a base in 4 bits into what they stand for; `about["model_hash"]` is that of
    the copy.

    Raises LoraEvoError when vLLM, the model or an adapter cannot be used, or an adapter does not
    change what the model says.
    """
    target, cpu = choose_device(device), torch.device("cpu")
    if kind == "vllm":
        refuse_float32(dtype, bool(adapters) and target.type == "cuda")
        if bits := BaseModel.quantization_of(model, load_in_4bit):
            raise LoraEvoError(f"{model} is in {bits}, which vLLM does not load; type --engine hf")
        require_vllm()
    loaded_on = cpu if kind == "vllm" else target
    folders = dict(adapters or {})
    merged = [name for name, folder in folders.items() if needs_merge(Path(folder))]
    if not merged:
        base = load_base_model(model, loaded_on, dtype, load_in_4bit)
        saved = {name: load_adapter(folder) for name, folder in folders.items()}
        at = {name: str(folder) for name, folder in folders.items()}
        fitting = {name: fitted(base, one, at[name], any_base) for name, one in saved.items()}
        engine = _open_on(kind, base, resolve(model), fitting, target, max_rows)
        engine.hashes = {name: adapter_hash(adapter) for name, adapter in saved.items()}
        return engine
    if len(folders) > 1:
        raise LoraEvoError(
            f"{merged[0]!r} is DoRA or has modules_to_save or target_parameters: it is merged into "
            "a base of its own; open it without other adapters"
        )
    (name, folder) = folders.popitem()
    with ExitStack() as stack:
        home = stack.enter_context(TemporaryDirectory(prefix="populab-merged-"))
        plain = load_base_model(model, cpu, dtype, load_in_4bit)
        merged_print, digest = merge_by_peft(plain, Path(folder), Path(home), any_base=any_base)
        base = load_base_model(home, loaded_on, dtype)
        base = replace(base, name=plain.name, quantization=plain.quantization)
        if base.fingerprint != merged_print:
            raise LoraEvoError(f"{folder}: transformers does not save {plain.name} as it is merged")
        del plain
        nothing = {name: zero_adapter(linear_shapes(base.model))}
        engine = _open_on(kind, base, home, nothing, target, max_rows)
        engine.hashes = {name: digest}
        weakref.finalize(engine, stack.pop_all().close)
    return engine


def sharing(names: Sequence[str | None], folders: Folders) -> list[list[str | None]]:
    """Return names in groups of one engine each; None, the base, is with those that share it.

    First come all that share the base model, then one by one those that PEFT merges into it.
    """
    alone = [name for name in names if name is not None and needs_merge(Path(folders[name]))]
    shared = [name for name in names if name not in alone]
    groups: list[list[str | None]] = [shared] if shared else []
    return groups + [[name] for name in alone]


def _open_on(
    kind: str,
    base: BaseModel,
    source: str,
    saved: Mapping[str, Adapter],
    target: torch.device,
    max_rows: int,
) -> Engine:
    """Open an engine on a loaded base, which vLLM reads again from its source."""
    engine: Engine
    if kind == "vllm":
        refuse_float32(base.dtype, bool(saved) and target.type == "cuda")
        base.model.to("meta")
        ranks = [slot.rank for adapter in saved.values() for slot in adapter.slots.values()]
        highest = max(ranks, default=1)
        serving = Serving(source, base.dtype, target, base.context, len(saved), highest)
        options = VLLMOptions(max_rows=max_rows)
        engine = VLLMEngine(base, serving, options, linear_shapes(base.model))
    else:
        stack = stack_saved(base.model, saved)
        engine = HFEngine(stack, base.tokenizer, max_rows=max_rows)
    engine.about = {
        "engine": kind,
        "model": base.name,
        "model_hash": base.fingerprint,
        "dtype": base.dtype,
        **({"quantization": base.quantization} if base.quantization else {}),
    }
    try:
        if kind == "vllm":
            for name, adapter in saved.items():
                engine.put_adapter(name, 0, adapter)
        _check_hold(engine, base.name, base.model.config.get_text_config().vocab_size, saved)
    except BaseException:
        engine.close()
        raise
    return engine


def _check_hold(engine: Engine, model: str, vocabulary: int, saved: Mapping[str, Adapter]) -> None:
    """Every adapter changes what the model says, unless its update is 0.

    An adapter that silently has no effect would be evaluated as the base model.
    """
    names = [
        name for name, adapter in saved.items() if any(map(any_update, adapter.slots.values()))
    ]
    if not names:
        return
    ids = tuple(i % vocabulary for i in range(1, _PROBE_TOKENS + 1))
    # One at a time: rows of one batch may be rounded differently.
    plain, *changed = (
        engine.generate([Request(ids, name, _PROBE_TOKENS)])[0].logprobs for name in (None, *names)
    )
    for name, logprobs in zip(names, changed, strict=True):
        if logprobs == plain:
            raise LoraEvoError(
                f"adapter {name!r} changes nothing of what {model} says, though it is not 0"
            )
