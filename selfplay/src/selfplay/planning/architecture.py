"""The shape of a base model from its config.json alone: nothing of its weights is read."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config

from evals.engine.base_model import public_name, resolve
from evals.errors import first_line
from selfplay.errors import ConfigError

_QWEN25 = re.compile(r"Qwen2\.5(?:-Coder)?-(0\.5|1\.5|3|7|14)B(?:-Instruct)?")
_SIZES = {
    "0.5": (896, 4864, 24, 14, 2, 151936),
    "1.5": (1536, 8960, 28, 12, 2, 151936),
    "3": (2048, 11008, 36, 16, 2, 151936),
    "7": (3584, 18944, 28, 28, 4, 152064),
    "14": (5120, 13824, 48, 40, 8, 152064),
}
"""Hidden and inner size, layers, heads, key-value heads and vocabulary of the Qwen2.5 report
(arXiv 2412.15115, table 1) and of the published config.json, base, coder and instruct alike."""
_TIED = ("0.5", "1.5", "3")


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder-only model, in entries."""

    name: str
    parameters: int
    hidden: int
    inner: int
    """Width of the feed-forward part."""
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    linears: tuple[tuple[str, int, int], ...]
    """Name's last part, inputs and outputs of every linear layer under the output layer."""

    @property
    def query(self) -> int:
        """Width of all queries."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Width of all keys; of all values, too."""
        return self.kv_heads * self.head_dim

    def adapter_parameters(self, r: int, target_modules: tuple[str, ...]) -> int:
        """Entries of one adapter of rank r: A [r, in] and B [out, r] on each target."""
        return sum(r * (i + o) for name, i, o in self.linears if name in target_modules)

    def targets(self, target_modules: tuple[str, ...]) -> int:
        """Entries of the dense layers that carry adapters."""
        return sum(i * o for name, i, o in self.linears if name in target_modules)

    def per_layer(self, target_modules: tuple[str, ...]) -> int:
        """Adapted linear layers in one layer of the model."""
        return sum(name in target_modules for name, _, _ in self.linears) // max(1, self.layers)


def read_architecture(base: str) -> Architecture:
    """Return the shape of a base model: a folder, `nano`, or a hub name whose shape is known here.

    Raises ConfigError, one line, for one that is not.
    """
    config = model_config(base)
    with torch.device("meta"):
        try:
            model = AutoModelForCausalLM.from_config(config)
        except Exception as error:  # a config.json of anything but a text model
            raise ConfigError(
                f"{base} is no causal language model that transformers knows: {first_line(error)}"
            ) from error
    output = model.get_output_embeddings()
    linears = tuple(
        (path.rpartition(".")[2], module.in_features, module.out_features)
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not output
    )
    text = config.get_text_config()
    heads = text.num_attention_heads
    return Architecture(
        name=public_name(base),
        parameters=sum(p.numel() for p in model.parameters()),
        hidden=text.hidden_size,
        inner=text.intermediate_size,
        layers=text.num_hidden_layers,
        heads=heads,
        kv_heads=getattr(text, "num_key_value_heads", None) or heads,
        head_dim=getattr(text, "head_dim", None) or text.hidden_size // heads,
        vocabulary=text.vocab_size,
        linears=linears,
    )


def model_config(base: str) -> Any:
    """Return transformers' configuration of a base model. Raises ConfigError, one line."""
    source = resolve(base)
    known = _QWEN25.fullmatch(source.removeprefix("Qwen/"))
    if known and not Path(source).is_dir():
        hidden, inner, layers, heads, kv_heads, vocabulary = _SIZES[known[1]]
        return Qwen2Config(
            hidden_size=hidden,
            intermediate_size=inner,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            vocab_size=vocabulary,
            tie_word_embeddings=known[1] in _TIED,
        )
    try:
        return AutoConfig.from_pretrained(source, local_files_only=True)
    except Exception as error:  # whatever a damaged config.json makes transformers raise
        if Path(source).is_dir():
            raise ConfigError(f"cannot read {base}/config.json: {first_line(error)}") from error
        raise ConfigError(
            f"the shape of {base} is not known without a network: there is no such folder, and "
            "built in are Qwen2.5 and Qwen2.5-Coder of 0.5B to 14B; give the folder of the model "
            "as base, its config.json is enough for a plan"
        ) from error
