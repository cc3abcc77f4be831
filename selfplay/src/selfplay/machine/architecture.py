"""The shape of a base model, from its config.json or from what is known here; no weights."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfplay.config import LearnerConfig
from selfplay.errors import ConfigError, first_line

_QWEN25 = re.compile(r"Qwen2\.5(?:-Coder)?-(0\.5|1\.5|3|7|14)B(?:-Instruct)?")
_SIZE_NAMES = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "vocab_size",
)  # fmt: skip
_SIZES = {
    "0.5": (896, 4864, 24, 14, 2, 151936),
    "1.5": (1536, 8960, 28, 12, 2, 151936),
    "3": (2048, 11008, 36, 16, 2, 151936),
    "7": (3584, 18944, 28, 28, 4, 152064),
    "14": (5120, 13824, 48, 40, 8, 152064),
}
"""Of Qwen2.5 (arXiv 2412.15115)."""
_HUB_S = 5.0
"""How long the hub may take to answer, in seconds."""


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder-only model, in entries; context: its longest text, in tokens; linears:
    name, inputs and outputs of each."""

    name: str
    parameters: int
    hidden: int
    inner: int
    layers: int
    heads: int
    query: int
    key: int
    vocabulary: int
    context: int | None
    linears: tuple[tuple[str, int, int], ...]

    @property
    def cache(self) -> int:
        """Entries of the keys and values of a token."""
        return 2 * self.layers * self.key

    def adapter_parameters(self, learner: LearnerConfig) -> int:
        """Return the entries of one adapter: A [r, in] and B [out, r] on each target."""
        return sum(learner.r * (i + o) for n, i, o in self.linears if n in learner.target_modules)


def model_config(base: str) -> Any:
    """Return transformers' configuration of a base model. Raises ConfigError, one line.

    Where config.json is not on this machine, it alone is fetched from the hub.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from transformers import AutoConfig, Qwen2Config

    from lora_evo.model import resolve

    source = resolve(base)
    known = _QWEN25.fullmatch(source.removeprefix("Qwen/"))
    if known and not Path(source).is_dir():
        sizes = dict(zip(_SIZE_NAMES, _SIZES[known[1]], strict=True))
        return Qwen2Config(**sizes, tie_word_embeddings=known[1] in ("0.5", "1.5", "3"))
    local = Path(source).is_dir()
    try:
        try:
            return AutoConfig.from_pretrained(source, local_files_only=True)
        except OSError:
            if local:
                raise
        # Asked for first: a download tries for half a minute to reach a hub that is not there.
        get_hf_file_metadata(hf_hub_url(source, "config.json"), timeout=_HUB_S)
        return AutoConfig.from_pretrained(source)
    except Exception as error:  # whatever a damaged config.json makes transformers raise
        place = "cannot be read" if local else f"does not come from the hub ({first_line(error)})"
        raise ConfigError(
            f"the shape of {base} is not known: its config.json {place}; put that file of a model "
            "into a folder and give the folder as base; built in are Qwen2.5 and Qwen2.5-Coder of "
            "0.5B to 14B"
        ) from error


def read_architecture(base: str) -> Architecture:
    """Return the shape of a base model: a folder, `nano`, or a model's name on the hub."""
    import torch
    from transformers import AutoModelForCausalLM

    from lora_evo.model import public_name

    config = model_config(base)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    output, text = model.get_output_embeddings(), config.get_text_config()
    heads = text.num_attention_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    return Architecture(
        name=public_name(base),
        parameters=sum(p.numel() for p in model.parameters()),
        hidden=text.hidden_size,
        inner=text.intermediate_size,
        layers=text.num_hidden_layers,
        heads=heads,
        query=heads * head_dim,
        key=(getattr(text, "num_key_value_heads", None) or heads) * head_dim,
        vocabulary=text.vocab_size,
        context=getattr(text, "max_position_embeddings", None),
        linears=tuple(
            (path.rpartition(".")[2], module.in_features, module.out_features)
            for path, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and module is not output
        ),
    )
