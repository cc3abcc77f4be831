"""Short names for folders and modules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lora_evo.errors import LoraEvoError


def telling_names(folders: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as it takes to tell all of them apart.

    Raises `LoraEvoError` when one folder is given twice.
    """
    parts = [folder.resolve().parts for folder in folders]
    for place, path in enumerate(parts):
        if path in parts[:place]:
            raise LoraEvoError(f"{folders[place]} is given twice; name every adapter once")
    for depth in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(path[-depth:]) for path in parts]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


def module_type(path: str) -> str:
    """The last word of a module's path: `q_proj` of `model.layers.0.self_attn.q_proj`.

    Numbers at the end are places in a list and left out: `to_out` of `attn.to_out.0`.
    """
    words = path.split(".")
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    return words[-1]
