"""Names of one module in several model classes: by version of transformers, and of text alone.

A model with pictures has its layers below `language_model.model` in transformers 4, and below
`model.language_model` in 5; the text model of the same weights has them below `model`.
"""

import re
from collections.abc import Sequence

from lora_evo.errors import LoraEvoError

_NAMINGS = (
    ("model.language_model.", "lm_head", "model."),
    ("language_model.model.", "language_model.lm_head", ""),
    ("model.", "lm_head", ""),
    ("language_model.", "lm_head", ""),
    ("", "lm_head", ""),
)
"""Where the layers of text are, what the head is called, and where all else is."""
_TEXT = r"(?:layers|embed_tokens|norm)\b"
_NOT_ELSE = r"(?:model|language_model|layers|embed_tokens|norm|lm_head)\b"
_PATTERNS = [
    re.compile(rf"({text})(?={_TEXT})|({head})$|({rest})(?!{_NOT_ELSE})".replace(".", r"\."))
    for text, head, rest in _NAMINGS
]
_TOWERS = ("vision_tower.vision_model.", "vision_tower.")
"""The encoder of pictures, up to transformers 5.16 and after."""


def as_in(paths: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return what modules are called where others are called as in `known`.

    Names outside of the table stay. Raises `LoraEvoError` where `known` does not tell.
    """
    mine, theirs = (
        [n for n, pattern in enumerate(_PATTERNS) if all(map(pattern.match, some))]
        for some in (paths, known)
    )
    names = [dict(zip(paths, paths, strict=True))]
    if mine and theirs and not set(mine) & set(theirs):
        matches = [(path, _PATTERNS[mine[0]].match(path)) for path in paths]
        names = [
            {p: _NAMINGS[to][(m.lastindex or 1) - 1] + p[m.end() :] for p, m in matches if m}
            for to in theirs
        ]
    if any(other != names[0] for other in names):
        raise LoraEvoError(
            f"{paths[0]} and {known[0]} are of two ways to name modules, and one is not known; "
            "save both adapters with one version of transformers"
        )
    here, there = (
        next((tower for tower in _TOWERS if any(tower in path for path in some)), None)
        for some in (paths, known)
    )
    if here and there and here != there:
        return {path: name.replace(here, there, 1) for path, name in names[0].items()}
    return names[0]
