"""Bases whose linear layers are stored in 4 bits by bitsandbytes (QLoRA, arXiv 2305.14314).

Every product dequantises a layer's weights first. Embeddings, norms and the output layer are plain.
"""

import logging
from importlib.util import find_spec
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lora_evo.errors import LoraEvoError, pip_install

NF4 = {
    "load_in_4bit": True,
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_use_double_quant": True,
    "bnb_4bit_compute_dtype": "bfloat16",
}
"""Format in which a plain base is loaded, for transformers' BitsAndBytesConfig."""


def quantization(config: Any, load_in_4bit: bool = False) -> str | None:
    """Return the 4-bit format in which a base is loaded, by its configuration; None: plain weights.

    load_in_4bit: `NF4` for plain weights; weights stored in 4 bits keep their format. Raises
    LoraEvoError for weights with another quantisation.
    """
    settings = getattr(config, "quantization_config", NF4 if load_in_4bit else None)
    if settings is None:
        return None
    if not settings.get("load_in_4bit"):
        bits = "8-bit " if settings.get("load_in_8bit") else ""
        raise LoraEvoError(
            f"it is quantised ({bits}{settings.get('quant_method', 'unknown')}); expected plain "
            "weights or bitsandbytes' 4 bits: name the model that it was made of, with load_in_4bit"
        )
    dtype = settings.get("bnb_4bit_compute_dtype") or "float32"
    double = "double" if settings.get("bnb_4bit_use_double_quant") else "single"
    kind = settings.get("bnb_4bit_quant_type", "fp4")
    return f"4-bit {kind}, {double} quantization, compute in {dtype}"


def loading(config: Any, device: torch.device, load_in_4bit: bool) -> dict[str, Any]:
    """Return the 4-bit options of `from_pretrained`. Raises LoraEvoError without bitsandbytes."""
    if quantization(config, load_in_4bit) is None:
        return {}
    if not all(map(find_spec, packages := ("bitsandbytes", "accelerate"))):
        raise LoraEvoError(f"4 bits need {' and '.join(packages)}; type: {pip_install(*packages)}")
    from transformers import BitsAndBytesConfig

    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # of kernels that are not needed
    is_stored = hasattr(config, "quantization_config")
    more = {} if is_stored else {"quantization_config": BitsAndBytesConfig(**NF4)}
    return {**more, "device_map": {"": str(device)}}


def in_four_bits(layer: nn.Module) -> bool:
    """Return whether a layer's weights are in bitsandbytes' 4 bits."""
    return getattr(getattr(layer, "weight", None), "quant_state", None) is not None


def dense(layer: nn.Linear) -> Tensor:
    """Return the dense weights [out, in] of a layer, in the dtype of its products.

    bitsandbytes returns them in `quant_state.dtype`, that of the original weights.
    """
    if not in_four_bits(layer):
        return layer.weight
    from bitsandbytes.functional import dequantize_4bit

    quantised = cast(Any, layer)
    weight: Tensor = dequantize_4bit(quantised.weight.data, quantised.weight.quant_state)
    return weight.to(quantised.compute_dtype)


def product(layer: nn.Linear, x: Tensor) -> Tensor:
    """Return x W^T + bias in the dtype of x."""
    weight = dense(layer)
    bias = None if layer.bias is None else layer.bias.to(weight.dtype)
    return F.linear(x.to(weight.dtype), weight, bias).to(x.dtype)


def keep_layout(model: nn.Module) -> None:
    """Keep the first call of a model's layers from changing them in place.

    It would change a bias to the dtype of products and, on a CPU with AVX512-BF16, the layout of
    the 4 bits, which `dequantize_4bit` would then read as other weights. Raises LoraEvoError if a
    layer multiplies by other weights than `dense` returns.
    """
    layers = [cast(Any, module) for module in model.modules() if in_four_bits(module)]
    for layer in layers:
        layer.support_avx512bf16_for_cpu = False
        if layer.bias is not None:
            layer.bias.data = layer.bias.data.to(layer.compute_dtype)
    for layer in layers[:1]:
        weights = dense(layer)
        x = torch.linspace(-1, 1, 2 * layer.in_features, device=weights.device).view(2, -1)
        with torch.no_grad():
            expected, y = product(layer, x), layer(x)
        near = float((y - expected).abs().max()) <= 0.02 * float(expected.abs().max())
        if not near or not torch.equal(dense(layer), weights):
            raise LoraEvoError(
                "this bitsandbytes multiplies by other weights than it dequantises; type: "
                f"{pip_install('bitsandbytes==0.50.2')}"
            )
