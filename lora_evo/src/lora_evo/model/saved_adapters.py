"""Engines on saved adapters of one base model.

PEFT merges adapters with more than factors of linear layers into their base: DoRA, and those with
modules_to_save or target_parameters (experts).
"""

import hashlib
import json
import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import safe_open

from lora_evo import Adapter, adapter_hash, load_adapter
from lora_evo.compare import any_update
from lora_evo.errors import LoraEvoError, pip_install
from lora_evo.model.base import (
    BaseModel,
    check_base,
    check_bits,
    choose_device,
    fingerprint,
    fitted,
    linear_shapes,
    load_base_model,
    quiet,
    resolve,
)
from lora_evo.model.engine import Engine, Folders, Request
from lora_evo.model.hf_engine import HFEngine
from lora_evo.model.stacked_lora import stack_saved
from lora_evo.model.vllm_engine import VLLMEngine, zero_adapter
from lora_evo.model.vllm_server import Serving, VLLMOptions, refuse_float32, require_vllm
from lora_evo.peft.config import AdapterConfig
from lora_evo.peft.directory import CONFIG_FILE, WEIGHTS_FILE, naming

_PROBE_TOKENS = 8
"""Tokens of the prompt and the completion that check an adapter's effect."""

_MERGED = {"use_dora": False, "modules_to_save": None}
"""Settings that need a merge by PEFT, with their values in other adapters."""


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
    names another 4-bit format. load_in_4bit: as for `load_base_model`. An adapter that
    `needs_merge` must be the only one, and `about["model_hash"]` is that of the merged model.
    Raises LoraEvoError.
    """
    target, cpu = choose_device(device), torch.device("cpu")
    if kind == "vllm":
        refuse_float32(dtype, bool(adapters) and target.type == "cuda")
        if bits := BaseModel.quantization_of(model, load_in_4bit):
            raise LoraEvoError(f"{model} is in {bits}, which vLLM does not load; type --engine hf")
        require_vllm()
    loaded_on = cpu if kind == "vllm" else target
    folders = dict(adapters or {})
    to_merge = [name for name, folder in folders.items() if needs_merge(Path(folder))]
    if to_merge and len(folders) > 1:
        raise LoraEvoError(
            f"{to_merge[0]!r} is DoRA or has modules_to_save or target_parameters: it is merged "
            "into a base of its own; open it without other adapters"
        )
    with ExitStack() as stack:
        base = load_base_model(model, cpu if to_merge else loaded_on, dtype, load_in_4bit)
        if to_merge:
            ((name, folder),) = folders.items()
            source = stack.enter_context(TemporaryDirectory(prefix="populab-merged-"))
            expected, digest = merge_by_peft(base, Path(folder), Path(source), any_base=any_base)
            copy = load_base_model(source, loaded_on, dtype)
            if copy.fingerprint != expected:
                raise LoraEvoError(
                    f"{folder}: transformers saves another model than the merged {base.name}"
                )
            base = replace(copy, name=base.name, quantization=base.quantization)
            fitting, hashes = {name: zero_adapter(linear_shapes(base.model))}, {name: digest}
        else:
            source, fitting, hashes = resolve(model), {}, {}
            for name, folder in folders.items():
                saved = load_adapter(folder)
                fitting[name] = fitted(base, saved, str(folder), any_base)
                hashes[name] = adapter_hash(saved)
        engine = _open_on(kind, base, source, fitting, target, max_rows)
        engine.hashes = hashes
        weakref.finalize(engine, stack.pop_all().close)
    return engine


def sharing(names: Sequence[str | None], folders: Folders) -> list[list[str | None]]:
    """Return names in groups, one for each engine.

    The first group shares the plain base model, and includes None, the base itself; each adapter
    that PEFT merges is a group of its own.
    """
    merged = [name for name in names if name is not None and needs_merge(Path(folders[name]))]
    shared = [name for name in names if name not in merged]
    groups: list[list[str | None]] = [shared] if shared else []
    return groups + [[name] for name in merged]


def _open_on(
    kind: str,
    base: BaseModel,
    source: str,
    saved: Mapping[str, Adapter],
    target: torch.device,
    max_rows: int,
) -> Engine:
    """Open an engine on a loaded base, which vLLM loads again from its source."""
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
        _check_effect(engine, base.name, base.model.config.get_text_config().vocab_size, saved)
    except BaseException:
        engine.close()
        raise
    return engine


def _check_effect(
    engine: Engine, model: str, vocabulary: int, saved: Mapping[str, Adapter]
) -> None:
    """Raise LoraEvoError for an adapter that is not 0 and changes no log-probability."""
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
                f"adapter {name!r} does not change the outputs of {model}, though it is not 0"
            )


def needs_merge(folder: Path) -> bool:
    """Return whether an adapter is DoRA, or has modules_to_save or target_parameters."""
    with suppress(OSError, ValueError, RecursionError):
        settings = json.loads((folder / CONFIG_FILE).read_bytes())
        return isinstance(settings, dict) and any(
            settings.get(name) for name in (*_MERGED, "target_parameters")
        )
    return False


def merge_by_peft(base: BaseModel, folder: Path, out: Path, *, any_base: bool) -> tuple[str, str]:
    """Merge an adapter into the base model by PEFT, and save it with its tokenizer in `out`.

    Returns the fingerprint of the merged model, and the hash of the adapter's configuration and
    weights file. base: changed into the merged model. Needs peft. Raises LoraEvoError for an
    adapter that cannot be merged (aLoRA, biases, ...), or of which PEFT would ignore a tensor.
    """
    raw = json.loads((folder / CONFIG_FILE).read_bytes())
    with naming(folder):
        config = AdapterConfig.from_json(json.dumps(raw | _MERGED))
    if not any_base:
        check_base(base, config.base_model_name_or_path, str(folder))
        check_bits(base.quantization, str(folder), " (--load-in-4bit), or accept with --any-base")
    weights = folder / WEIGHTS_FILE
    if not weights.is_file():
        raise LoraEvoError(f"{folder} has no {WEIGHTS_FILE}; save it with PEFT's save_pretrained")
    try:
        import peft
    except ImportError:
        raise LoraEvoError(
            f"{folder} is DoRA or has modules_to_save or target_parameters, which PEFT merges; "
            f"type: {pip_install('peft')}"
        ) from None
    try:
        with safe_open(weights, "pt") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about tied weights, which are untied on purpose
            count = len(file.keys())
            warnings.filterwarnings("error", "Found missing adapter keys")
            tuned: Any = peft.PeftModel.from_pretrained(base.dequantized, folder)
            loaded = len(peft.get_peft_model_state_dict(tuned, save_embedding_layers=False))
            if loaded != count:
                raise LoraEvoError(f"PEFT loads {loaded} of the {count} tensors of {WEIGHTS_FILE}")
            model = tuned.merge_and_unload(safe_merge=True)
        ends = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
        if ends[0] is not ends[1]:  # also if only one of the two was trained
            model.config.tie_word_embeddings = False
        with quiet():
            model.save_pretrained(out, save_original_format=False)
            base.tokenizer.save_pretrained(out)
    except Exception as error:  # damaged files or another base make PEFT raise anything
        reason = " ".join(str(error).split())
        raise LoraEvoError(f"cannot merge {folder} into {base.name}: {reason}") from error
    digest = hashlib.sha256(config.fingerprint())
    with weights.open("rb") as content:
        digest.update(hashlib.file_digest(content, "sha256").digest())
    return fingerprint(model), f"sha256:{digest.hexdigest()}"
