"""The model card (README.md) of an adapter directory, and a push of it to the Hugging Face hub.

A card holds no time, path or host, so that equal adapters have equal cards.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from lora_evo.errors import LoraEvoError, pip_install
from lora_evo.peft.config import AdapterConfig
from lora_evo.peft.directory import CONFIG_FILE, PathLike, adapter_files
from lora_evo.peft.lineage import LINEAGE_FILE, Lineage

CARD_FILE = "README.md"


def model_card(
    config: AdapterConfig,
    lineage: Lineage | None = None,
    results: Mapping[str, float] | None = None,
) -> str:
    """Return a model card: YAML front matter for the hub and PEFT, a description, the operator and
    parents, and results by name."""
    base = config.base_model_name_or_path
    lines = ["---", "library_name: peft"]
    if base:
        lines.append(f"base_model: {json.dumps(base, ensure_ascii=False)}")
    lines += ["tags:", "- lora", "- populab", "---", "", "# LoRA adapter", ""]
    of_base = f" of `{base}`" if base else ""
    lines.append(f"A LoRA adapter{of_base}: rank {config.r}, alpha {config.lora_alpha:g}.")
    if lineage is not None and lineage.quantization:
        lines += ["", f"It belongs to the base in bitsandbytes' {lineage.quantization}."]
    if lineage is not None:
        settings = {"seed": lineage.seed, "strength": lineage.strength, "weights": lineage.weights}
        values = {**settings, **lineage.parameters}
        words = [f"{name} {json.dumps(v)}" for name, v in values.items() if v is not None]
        lines += ["", f"Made by `{lineage.operator}` ({', '.join(words)})"]
        if lineage.parents:
            lines[-1] += f", generation {lineage.generation}, from the adapters with the contents"
            lines += ["", *(f"- `{parent}`" for parent in lineage.parents)]
        lines += ["", f"`{LINEAGE_FILE}` has the details; it may have been trained since."]
    if results:
        lines += ["", "| result | |", "|---|---|"]
        lines += [f"| {name} | {value:.4g} |" for name, value in results.items()]
    return "\n".join(lines) + "\n"


def push_to_hub(directory: PathLike, repo_id: str, *, private: bool | None = None) -> str:
    """Upload an adapter directory to a model repository of the hub and return the commit's URL.

    Creates the repository if necessary (private; None: the account's default). Uploads
    configuration, weights, lineage and model card only, with the token of `hf auth login` or
    HF_TOKEN. Raises `LoraEvoError`, and huggingface_hub's own errors.
    """
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise LoraEvoError(
            f"pushing needs huggingface_hub; type: {pip_install('huggingface_hub')}"
        ) from error
    base = adapter_files(directory).config.base_model_name_or_path or ""
    if base.count("/") > 1 or base.startswith((".", "/", "~")):
        raise LoraEvoError(
            f"{directory} has the base model {base!r}, a path of this machine; set it to its id on "
            f"the hub in {CONFIG_FILE} and {CARD_FILE}"
        )
    api = HfApi()
    api.create_repo(repo_id, private=private, exist_ok=True)
    files = [CONFIG_FILE, "adapter_model*", LINEAGE_FILE, CARD_FILE]
    commit = api.upload_folder(
        folder_path=Path(directory), repo_id=repo_id, allow_patterns=files,
        commit_message="Upload adapter",
    )  # fmt: skip
    return str(commit.commit_url)
