"""Base models by name: a folder, a hub name, or one of an installed package.

A package provides a base by an entry point of the group `populab.bases`: the base's name, and the
subpackage with its files, such as `nano = "selfplay.data.nano"`.
"""

import contextlib
import gc
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from threading import RLock
from typing import Any, TypeAlias

import torch
from torch import nn

from lora_evo import Adapter
from lora_evo.errors import LoraEvoError, first_line
from lora_evo.model.four_bit import in_four_bits, keep_layout, loading, quantization
from lora_evo.model.vllm_server import refuse_second_import
from lora_evo.peft.config import MERGE
from lora_evo.peft.directory import CONFIG_FILE
from lora_evo.peft.lineage import read_lineage
from lora_evo.peft.names import as_in

BASES = "populab.bases"
"""The group of entry points of bases."""
Shapes: TypeAlias = Mapping[str, tuple[int, int]]
"""(inputs, outputs) of a base's linear layers by path."""
_SAMPLED = 4096
"""Most values of each parameter in the fingerprint."""
_LOADING = RLock()
"""Held while transformers is imported or loads a model, and changes modules of torch meanwhile."""
_HUB_S = 5.0
"""Seconds to wait for an answer of the hub."""


@dataclass(frozen=True)
class BaseModel:
    """A loaded model.

    - context: longest text, in tokens.
    - quantization: the 4-bit format of its linear layers; None for plain weights.
    """

    name: str
    model: Any
    tokenizer: Any
    context: int | None
    fingerprint: str
    quantization: str | None = None

    @property
    def dtype(self) -> str:
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def dequantized(self) -> Any:
        """The model with plain weights in place of 4-bit ones."""
        model, dtype = self.model, self.model.dtype
        is_quantised = any(map(in_four_bits, model.modules()))
        return model.dequantize(dtype=dtype).to(dtype) if is_quantised else model  # biases, too

    @staticmethod
    def quantization_of(base: Any, load_in_4bit: bool = False) -> str | None:
        """Return the 4-bit format in which a base will be loaded; see `quantization`.

        base: its name, or its transformers configuration. Raises LoraEvoError.
        """
        from transformers import AutoConfig

        if not isinstance(base, str):
            return quantization(base, load_in_4bit)
        source = _found(resolve(base))
        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
            return quantization(config, load_in_4bit)
        except Exception as error:  # a damaged config.json makes transformers raise anything
            raise _unloadable(base, source, first_line(error)) from error


def resolve(name: str) -> str:
    """Return the folder or hub name of a base. Raises LoraEvoError if it cannot exist."""
    refuse_second_import()  # here, since all work on a model begins here
    name = next((entry.load().__path__[0] for entry in entry_points(group=BASES, name=name)), name)
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise LoraEvoError(f"{name} has no config.json; expected the folder of a base model")
        return name
    if folder.exists():
        raise LoraEvoError(f"{name} is a file; expected the folder of a base model")
    if folder.is_absolute() or name.startswith(".") or name.count("/") > 1 or not name:
        raise LoraEvoError(f"there is no folder {name!r}; expected a model folder or a hub name")
    return name


@cache
def _found(source: str) -> str:
    """Return a folder or hub name, or the folder in the hub's cache if the hub does not answer.

    One request of a few seconds: transformers would try for a minute. Raises LoraEvoError.
    """
    if Path(source).is_dir():
        return source
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(source, "config.json")
        try:
            get_hf_file_metadata(hf_hub_url(source, "config.json"), timeout=_HUB_S)
        except Exception:
            if isinstance(cached, str):
                return str(Path(cached).parent)
            raise
    except errors.HFValidationError:
        why = "is no name of the hub"
    except errors.GatedRepoError:
        why = "is given by the hub to those who accept its terms there and type `hf auth login`"
    except errors.EntryNotFoundError:
        why = "has no config.json on the hub"
    except errors.RepositoryNotFoundError:
        why = "is not on the hub, or private (`hf auth login` lets you in)"
    except Exception as error:  # a missing network, or HF_HUB_OFFLINE, may raise anything
        why = f"is not in the hub's cache, and the hub cannot be reached ({first_line(error)})"
    else:
        return source
    copy = f" (`hf download {source} --local-dir FOLDER` makes one where there is a network)"
    raise LoraEvoError(
        f"there is no model {source}: it is no folder here, and {why}; type OWNER/MODEL as on the "
        f"hub, or the path of a model's folder{copy if '/' in source else ''}"
    )


def public_name(name: str) -> str:
    """Return a base's name without paths: `owner/model` of a hub, or the folder's name."""
    parts = Path(os.path.normpath(name)).parts
    if len(parts) >= 3 and parts[-2] == "snapshots" and parts[-3].startswith("models--"):
        return parts[-3].removeprefix("models--").replace("--", "/")
    if Path(name).is_dir():
        return Path(name).resolve().name
    return name if len(parts) <= 2 and not Path(name).is_absolute() else parts[-1]


def same_base(one: str, other: str) -> bool:
    """Return whether two names are of the same base model, by the names without their owners."""
    return public_name(one).split("/")[-1] == public_name(other).split("/")[-1]


def load_base_model(
    name: str, device: torch.device, dtype: str = "auto", load_in_4bit: bool = False
) -> BaseModel:
    """Load model and tokenizer. Raises LoraEvoError.

    dtype: `auto` (as stored), `float32`, `bfloat16` or `float16`. load_in_4bit: load its linear
    layers, except for the output layer, as bitsandbytes' NF4; a model that is stored in 4 bits
    needs no such option.
    """
    with uncollected():
        from transformers import AutoConfig
        from transformers.utils import find_adapter_config_file

    source = _found(resolve(name))
    # Large tensors get pages of their own: glibc could not reuse their holes.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    tokenizer = load_tokenizer(name)
    try:
        with quiet():
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
            if find_adapter_config_file(source):
                raise LoraEvoError(
                    f"it holds an adapter, too ({CONFIG_FILE}), which transformers would put on it;"
                    " move the adapter into a folder of its own"
                )
            model, info = model_class(config).from_pretrained(
                source, dtype=dtype, output_loading_info=True, trust_remote_code=False,
                **loading(config, device, load_in_4bit),
            )  # fmt: skip
    except Exception as error:  # a damaged folder or a missing network may raise anything
        raise _unloadable(name, source, " ".join(str(error).split())) from error
    if missing := sorted(info["missing_keys"]) + [str(key) for key in info["mismatched_keys"]]:
        raise LoraEvoError(
            f"cannot load the model {name}: {len(missing)} weights are missing or of another "
            f"shape, {missing[0]} first; copy or save it again"
        )
    keep_layout(model)
    model = model.to(device).eval().requires_grad_(False)
    return BaseModel(
        name=public_name(name),
        model=model,
        tokenizer=tokenizer,
        context=getattr(model.config.get_text_config(), "max_position_embeddings", None),
        fingerprint=fingerprint(model),
        quantization=quantization(config, load_in_4bit),
    )


def model_class(config: Any) -> Any:
    """Return transformers' class for a model: causal if there is one, else image-text-to-text."""
    import transformers as t

    is_causal = type(config) in t.MODEL_FOR_CAUSAL_LM_MAPPING
    needs_images = not is_causal and type(config) in t.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    return t.AutoModelForImageTextToText if needs_images else t.AutoModelForCausalLM


def load_tokenizer(name: str) -> Any:
    """Load the tokenizer of a base model. Raises LoraEvoError if it is missing or does not work."""
    with uncollected():
        from transformers import AutoTokenizer

    source, cause, reason = _found(resolve(name)), None, "all texts are the same to it"
    try:
        with quiet():
            tokenizer: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
            # transformers creates an empty one for some folders without a tokenizer
            if tokenizer.encode("a") != tokenizer.encode("b"):
                return tokenizer
    except Exception as error:  # a damaged folder or a missing network may raise anything
        cause, reason = error, " ".join(str(error).split())
    if Path(source).is_dir():
        reason = (
            "it has no tokenizer that works; copy tokenizer.json and tokenizer_config.json of the "
            f"model that it was made of into its folder ({reason})"
        )
    raise _unloadable(name, source, reason) from cause


def _unloadable(name: str, source: str, reason: str) -> LoraEvoError:
    copy = f" (`hf download {name}` makes a copy in the hub's cache)"
    more = "" if Path(source).is_dir() else copy
    return LoraEvoError(f"cannot load the model {name}{more}: {reason}")


def linear_shapes(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Return (inputs, outputs) of the linear layers of a model by path, also of one on `meta`."""
    return {
        path: (module.in_features, module.out_features)
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear)
    }


def fitted(base: BaseModel, adapter: Adapter, folder: str, any_base: bool = True) -> Adapter:
    """Return an adapter with this base's module names.

    Raises LoraEvoError unless it has factors of the right shapes for all modules that it targets
    and, without any_base, names this base.
    """
    if not any_base:
        check_base(base, adapter, folder, ", or accept it with --any-base")
        check_bits(base.quantization, folder, " (--load-in-4bit), or accept it with --any-base")
    if experts := sorted(filter(None, map(adapter.config.parameter, adapter.slots))):
        raise LoraEvoError(
            f"{folder} adapts the experts {experts[0]}, which engines do not run; {MERGE}"
        )
    shapes, modules = linear_shapes(base.model), dict(base.model.named_modules())
    adapter = adapter.renamed(as_in(adapter.paths, list(shapes)))
    config = adapter.config
    for path in adapter.slots:
        if path in modules and path not in shapes:
            raise LoraEvoError(
                f"{folder} adapts {path}, which is a {type(modules[path]).__name__} in {base.name};"
                f" engines run adapters of nn.Linear alone; {MERGE}"
            )
    check_shapes(folder, adapter, shapes, base.name)
    targets = {path for path in shapes if config.adapts(path)}
    if str(config.target_modules).lower() == "all-linear":
        output = base.model.get_output_embeddings()
        targets = {path for path in targets if modules[path] is not output}
    if odd := sorted(targets ^ adapter.slots.keys()):
        raise LoraEvoError(
            f"{folder} is of another base model, or damaged: it has factors for "
            f"{len(adapter.slots)} modules, its configuration targets {len(targets)} of "
            f"{base.name}; they differ in {odd[0]}"
        )
    return adapter


def check_base(base: BaseModel, adapter: Adapter, who: str, more: str = "") -> None:
    """Raise LoraEvoError, with `more` at its end, if an adapter names another base model."""
    named = adapter.config.base_model_name_or_path
    if named and not same_base(named, base.name):
        raise LoraEvoError(
            f"{who} is an adapter of the base model {named!r}, not of {base.name!r}; "
            f"name the right --model{more}"
        )


def check_bits(quantization: str | None, folder: str, more: str = "") -> None:
    """Raise LoraEvoError, with `more` at its end, if a lineage names another 4-bit format."""
    record = read_lineage(folder)
    if record is not None and record.quantization != quantization:
        trained, loaded = (bits or "plain weights" for bits in (record.quantization, quantization))
        raise LoraEvoError(
            f"{folder} is an adapter of a base in {trained}, and this base is in {loaded}; "
            f"{'set' if record.quantization else 'leave out'} load_in_4bit{more}"
        )


def check_shapes(who: str, adapter: Adapter, shapes: Shapes, base: str) -> None:
    other = f"{who} is of another base model"
    for path, slot in adapter.slots.items():
        if path not in shapes:
            raise LoraEvoError(f"{other}: {base} has no linear module {path}")
        shape = (slot.A.shape[1], slot.B.shape[0])
        if shape != shapes[path]:
            raise LoraEvoError(
                f"{other}: its factors of {path} map {shape[0]} to {shape[1]} features, {base} has "
                f"{shapes[path][0]} to {shapes[path][1]} there"
            )


def fingerprint(model: Any) -> str:
    """Return a hash of all parameters' names, dtypes, shapes and up to 4096 evenly spaced values,
    and of the scales of 4-bit weights."""
    digest = hashlib.blake2b(digest_size=16)
    for name, parameter in sorted(model.named_parameters()):
        state = getattr(parameter, "quant_state", None)
        scales = state.as_dict(packed=True) if state else {}
        for part, tensor in ((name, parameter.detach()), *sorted(scales.items())):
            flat = tensor.reshape(-1)
            sample = flat[:: max(1, flat.numel() // _SAMPLED)][:_SAMPLED].float().cpu().contiguous()
            digest.update(f"{part} {tensor.dtype} {list(tensor.shape)}\n".encode())
            digest.update(sample.numpy().tobytes())
    return f"blake2b:{digest.hexdigest()}"


def choose_device(device: str) -> torch.device:
    """Return a device; `auto`: cuda if available. Raises LoraEvoError for a missing device.

    On cuda, cuDNN's attention is switched off: it plans again for every new length of a text.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise LoraEvoError(f"device is {device!r}; expected auto, cpu or cuda") from None
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise LoraEvoError(f"device is {device!r}, and torch finds no GPU here; expected cpu")
        torch.backends.cuda.enable_cudnn_sdp(False)
    return chosen


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Switch off progress bars and notes of transformers inside the block, a thread at a time."""
    with _LOADING:
        from transformers.utils import logging as log

        verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
        log.set_verbosity_error()
        log.disable_progress_bar()
        try:
            yield
        finally:
            log.set_verbosity(verbosity)
            if bars:
                log.enable_progress_bar()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Switch off garbage collection inside the block, a thread at a time: a third of a large
    library's import time."""
    with _LOADING:
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_on:
                gc.enable()
