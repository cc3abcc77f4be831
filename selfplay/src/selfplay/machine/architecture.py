"""The shape of a base model, from its config.json without weights."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from selfplay.config import LearnerConfig
from selfplay.errors import ConfigError, first_line

_HUB_S = 5.0
"""How long the hub may take to answer, in seconds."""


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder-only model.

    inner: width of the feed-forward part; query, key: widths of all query and key-value heads;
    context: longest text, in tokens; linears: name, inputs and outputs of each trainable layer;
    four_bit: number of weights stored in 4 bits; double: whether their scales are quantised, too.
    """

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
    four_bit: int = 0
    double: bool = True

    @property
    def cache(self) -> int:
        """Number of entries of a token's keys and values."""
        return 2 * self.layers * self.key

    def adapter_parameters(self, learner: LearnerConfig) -> int:
        """Return the number of an adapter's parameters: A [r, in] and B [out, r] on each target."""
        return sum(learner.r * (i + o) for n, i, o in self.linears if n in learner.target_modules)


def model_config(base: str) -> Any:
    """Return transformers' configuration of a base model. Raises ConfigError, one line.

    The configuration of the presets' 7B base is built in. For others config.json is read, from the
    hub if it is not on this machine.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from transformers import AutoConfig, Qwen2Config

    from lora_evo.model import resolve

    source = resolve(base)
    if source == "Qwen/Qwen2.5-Coder-7B":
        return Qwen2Config(
            hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, vocab_size=152064,
            num_attention_heads=28, num_key_value_heads=4, tie_word_embeddings=False,
        )  # fmt: skip
    try:
        with suppress(OSError):
            return AutoConfig.from_pretrained(source, local_files_only=True)
        # A quick check first: a download would try for half a minute to reach a missing hub.
        get_hf_file_metadata(hf_hub_url(source, "config.json"), timeout=_HUB_S)
        return AutoConfig.from_pretrained(source)
    except Exception as error:  # a damaged config.json makes transformers raise anything
        raise ConfigError(
            f"the shape of {base} is not known: its config.json cannot be read "
            f"({first_line(error)}); put that file into a folder and give the folder as base"
        ) from error


def read_architecture(base: str) -> Architecture:
    """Return the shape of a base model: a folder, `nano`, or a model's name on the hub."""
    from lora_evo.model import BaseModel, public_name, trainable_shapes

    config = model_config(base)
    stored, settings = BaseModel.quantization_of(config), getattr(config, "quantization_config", {})
    left_out = {"lm_head", *(settings.get("llm_int8_skip_modules") or ())}
    parameters, layers = trainable_shapes(config)
    kept = [p for p in layers if any(f".{part}." in f".{p}." for part in left_out)]
    quantised = {path: layers[path] for path in layers if stored and path not in kept}
    text = config.get_text_config()
    heads = getattr(text, "num_attention_heads", None) or 1  # Mamba has none
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    return Architecture(
        name=public_name(base),
        parameters=parameters,
        hidden=text.hidden_size,
        inner=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        layers=text.num_hidden_layers,
        heads=heads,
        query=heads * head_dim,
        key=(getattr(text, "num_key_value_heads", None) or heads) * head_dim,
        vocabulary=text.vocab_size,
        context=getattr(text, "max_position_embeddings", None),
        linears=tuple((path.rpartition(".")[2], *shape) for path, shape in layers.items()),
        four_bit=sum(inputs * outputs for inputs, outputs in quantised.values()),
        double=stored is None or "double" in stored,
    )
