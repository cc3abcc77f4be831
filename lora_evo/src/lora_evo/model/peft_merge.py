"""Adapters of more than linear layers' factors: merged into their base by PEFT.

These are DoRA, and those with modules_to_save or target_parameters (experts).
"""

import hashlib
import json
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import safe_open

from lora_evo.errors import LoraEvoError, pip_install
from lora_evo.model.base import BaseModel, check_base, check_bits, fingerprint, quiet
from lora_evo.peft.config import AdapterConfig
from lora_evo.peft.directory import CONFIG_FILE, WEIGHTS_FILE

_MERGED = {"use_dora": False, "modules_to_save": None}
"""The settings that PEFT's merge is asked for, and their values without."""


def needs_merge(folder: Path) -> bool:
    """Return whether an adapter is DoRA, or has modules_to_save or target_parameters.

    What is no adapter does not.
    """
    with suppress(OSError, ValueError, RecursionError):
        settings = json.loads((folder / CONFIG_FILE).read_bytes())
        return isinstance(settings, dict) and any(
            settings.get(name) for name in (*_MERGED, "target_parameters")
        )
    return False


def merge_by_peft(base: BaseModel, folder: Path, out: Path, *, any_base: bool) -> tuple[str, str]:
    """Save the base model with this adapter merged into it, and its tokenizer, in `out`.

    Returns the fingerprint of the merged model, and the hash of the adapter's configuration and
    file of weights. base: becomes the merged model. any_base: accept an adapter that names another
    base model. Needs peft. Raises LoraEvoError for an adapter that no merge covers (aLoRA, biases,
    ...), that names another base, or of which PEFT would leave a tensor out.
    """
    raw = json.loads((folder / CONFIG_FILE).read_bytes())
    config = AdapterConfig.from_json(json.dumps(raw | _MERGED))
    if config.start_problem:
        raise LoraEvoError(f"{folder}: {config.start_problem}")
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
            warnings.simplefilter("ignore")  # that tied weights may come apart, as they should
            count = len(file.keys())
            warnings.filterwarnings("error", "Found missing adapter keys")
            tuned: Any = peft.PeftModel.from_pretrained(base.dequantized, folder)
            taken = len(peft.get_peft_model_state_dict(tuned, save_embedding_layers=False))
            if taken != count:
                raise LoraEvoError(f"PEFT takes {taken} of the {count} tensors of {WEIGHTS_FILE}")
            model = tuned.merge_and_unload(safe_merge=True)
        ends = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
        if ends[0] is not ends[1]:  # also where only one of the two was trained
            model.config.tie_word_embeddings = False
        with quiet():
            model.save_pretrained(out, save_original_format=False)
            base.tokenizer.save_pretrained(out)
    except Exception as error:  # whatever damaged files or another base make PEFT raise
        told = " ".join(str(error).split())
        raise LoraEvoError(f"cannot merge {folder} into {base.name}: {told}") from error
    digest = hashlib.sha256(config.fingerprint())
    with weights.open("rb") as content:
        digest.update(hashlib.file_digest(content, "sha256").digest())
    return fingerprint(model), f"sha256:{digest.hexdigest()}"
