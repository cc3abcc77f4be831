"""Names of modules and PEFT's names for their factors; why any other tensor is refused."""

import re
from collections.abc import Mapping

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import check_shapes
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.files.layout import LINEAR, Layout, flat, layout_from_shapes

_PREFIX = "base_model.model."
_KEY = re.compile(
    r"base_model\.model\.(?P<path>.+)\."
    r"(?:lora_(?P<half>[AB])\.weight|lora_embedding_(?P<row>[AB]))"
)
_OF_BASE = "it is a weight of the base model; save with save_embedding_layers=False"
_REASONS = {
    "lora_magnitude_vector": "it belongs to DoRA; fold the adapter into the base model",
    "modules_to_save": "it is a whole trained module; train without modules_to_save",
    "token_adapter": "it holds trained embedding rows; train without trainable_token_indices",
    "base_layer": _OF_BASE,
    "embed_tokens.weight": _OF_BASE,
    "lm_head.weight": _OF_BASE,
    ".bias": "it is a bias; train with bias='none'",
}


def tensor_names(path: str, layout: Layout = LINEAR) -> tuple[str, str]:
    """The names that PEFT gives to A and B of the module at `path`."""
    head = f"{_PREFIX}{path}.lora_"
    if layout.kind == "embedding":
        return f"{head}embedding_A", f"{head}embedding_B"
    return f"{head}A.weight", f"{head}B.weight"


def module_type(path: str) -> str:
    """The last word of a module's path: `q_proj` of `model.layers.0.self_attn.q_proj`.

    Numbers at the end are places in a list and left out: `to_out` of `attn.to_out.0`.
    """
    words = path.split(".")
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    return words[-1]


def layouts_in(
    config: AdapterConfig, shapes: Mapping[str, tuple[int, ...]], file_name: str
) -> dict[str, Layout]:
    """The layout of every module, in sorted order of paths, from tensor names that must pair up.

    Raises `LoraEvoError` for names that are not factors, half pairs and shapes that do not fit.
    """
    halves: dict[tuple[str, bool], set[str]] = {}
    for name in shapes:
        match = _KEY.fullmatch(name)
        if match is None:
            for part, reason in _REASONS.items():
                if part in name:
                    raise LoraEvoError(f"unexpected tensor {name}: {reason}")
            raise LoraEvoError(
                f"unknown tensor {name}: expected only names like "
                f"{_PREFIX}<module>.lora_A.weight and .lora_B.weight (or .lora_embedding_A and _B)"
            )
        half = match["half"] or match["row"]
        halves.setdefault((match["path"], match["half"] is None), set()).add(half)
    if not halves:
        raise LoraEvoError(f"{file_name} holds no LoRA tensors")
    found: dict[str, Layout] = {}
    for (path, embedding), present in sorted(halves.items()):
        kind = "lora_embedding_" if embedding else "lora_"
        if len(present) == 1:
            (half,) = present
            other = "B" if half == "A" else "A"
            raise LoraEvoError(f"half a pair: {path} has {kind}{half} but no {kind}{other}")
        if path in found:
            raise LoraEvoError(f"{path} has factors of a linear layer and of an embedding")
        names = tensor_names(path, Layout("embedding") if embedding else LINEAR)
        a, b = (shapes[name] for name in names)
        if 0 in a or 0 in b or not a or not b:
            raise LoraEvoError(f"{path} is empty: lora_A is {list(a)}, lora_B is {list(b)}")
        found[path] = layout_from_shapes(path, a, b, embedding=embedding)
        check_shapes(config, path, flat(a), flat(b))
    return found
