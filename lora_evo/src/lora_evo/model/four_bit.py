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
"""What a plain base is loaded as, by the names of transformers' BitsAndBytesConfig."""


def quantization(config: Any, load_in_4bit: bool = False) -> str | None:
    """Say in which 4 bits a base is loaded, by its transformers configuration; None: in none.

    load_in_4bit: `NF4` for plain weights; what is stored in 4 bits stays as it is. Raises
    LoraEvoError for weights that are quantised in another way.
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
    """Return what `from_pretrained` is told of 4 bits. Raises LoraEvoError without bitsandbytes."""
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
    """Whether a layer's weights are 4 bits of bitsandbytes."""
    return getattr(getattr(layer, "weight", None), "quant_state", None) is not None


def dense(layer: nn.Linear) -> Tensor:
    """Return the weights [out, in] that a layer multiplies by, in the number type of its products.

    `quant_state.dtype`, in which bitsandbytes returns them, is that of the weights as they were.
    """
    if not in_four_bits(layer):
        return layer.weight
    from bitsandbytes.functional import dequantize_4bit

    some = cast(Any, layer)
    weight: Tensor = dequantize_4bit(some.weight.data, some.weight.quant_state)
    return weight.to(some.compute_dtype)


def product(layer: nn.Linear, x: Tensor) -> Tensor:
    """Return x W^T + bias in the number type of x."""
    weight = dense(layer)
    bias = None if layer.bias is None else layer.bias.to(weight.dtype)
    return F.linear(x.to(weight.dtype), weight, bias).to(x.dtype)


def keep_layout(model: nn.Module) -> None:
    """Have a model's layers stay as they are when they are called.

    The first call changes them in place: a bias gets the number type of products, and on a CPU with
    AVX512-BF16 the 4 bits another layout, of which `dequantize_4bit` returns other weights. Raises
    LoraEvoError where a layer multiplies by other weights than `dense` returns of it.
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
                "this bitsandbytes multiplies by other weights here than it dequantises; type: "
                f"{pip_install('bitsandbytes==0.50.2')}"
            )


def dequantized(model: Any) -> Any:
    """Return a model in 4 bits with the plain weights that they stand for; a plain one as it is."""
    four, dtype = any(map(in_four_bits, model.modules())), model.dtype
    return model.dequantize(dtype=dtype).to(dtype) if four else model  # biases, too
