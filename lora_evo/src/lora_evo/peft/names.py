"""Names of one module in several model classes: by version of transformers, and of text alone.

A model with pictures has its layers below `language_model.model` in transformers 4, and below
`model.language_model` in 5; the text model of the same weights has them below `model`.
"""

import re
from collections.abc import Iterable, Sequence

from lora_evo.errors import LoraEvoError

_NAMINGS = (
    ("model.language_model.", "lm_head", "model."),
    ("language_model.model.", "language_model.lm_head", ""),
    ("model.", "lm_head", ""),
    ("language_model.", "lm_head", ""),
    ("", "lm_head", ""),
)
"""Where the layers of text are, what the head is called, and where all else is."""
_TOWERS = ("vision_tower.vision_model.", "vision_tower.")
"""The encoder of pictures, up to transformers 5.16 and after."""
_TEXT = re.compile(r"(?:layers|embed_tokens|norm)\b")
_NOT_ELSE = re.compile(r"(?:model|language_model|layers|embed_tokens|norm|lm_head)\b")


def as_in(paths: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return what modules are called where others are called as in `known`.

    Names outside of the table stay. Raises `LoraEvoError` where `known` does not tell.
    """
    mine, theirs = _namings(paths), _namings(known)
    names = [dict(zip(paths, paths, strict=True))]
    if mine and theirs and not mine & theirs:
        parts = {path: _part(path, min(mine)) for path in paths}
        names = [
            {path: _NAMINGS[to][part[0]] + part[1] for path, part in parts.items() if part}
            for to in sorted(theirs)
        ]
    if any(other != names[0] for other in names):
        raise LoraEvoError(
            f"{paths[0]} and {known[0]} are of two ways to name modules, and it is not clear what "
            "the first is called in the second way; save both adapters with one version of "
            "transformers"
        )
    here, there = (_tower(some) for some in (paths, known))
    if here and there and here != there:
        return {path: name.replace(here, there, 1) for path, name in names[0].items()}
    return names[0]


def _namings(paths: Iterable[str]) -> set[int]:
    """Return the namings that all of these names are in."""
    return {n for n in range(len(_NAMINGS)) if all(_part(path, n) for path in paths)}


def _part(path: str, naming: int) -> tuple[int, str] | None:
    """Return which part of a naming a module is in, and its name there."""
    text, head, rest = _NAMINGS[naming]
    if path == head:
        return 1, ""
    for kind, prefix, first in (
        (0, text, _TEXT.match),
        (2, rest, lambda n: not _NOT_ELSE.match(n)),
    ):
        if path.startswith(prefix) and first(path[len(prefix) :]):
            return kind, path[len(prefix) :]
    return None


def _tower(paths: Iterable[str]) -> str | None:
    return next((tower for tower in _TOWERS if any(tower in path for path in paths)), None)
