"""Names of the same module in several model classes and versions of transformers.

A vision-language model has its text layers below `language_model.model` in transformers 4, and
below `model.language_model` in 5; the text model of the same weights has them below `model`.
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
"""Prefix of the text layers, name of the head, and prefix of all else."""
_TEXT = r"(?:layers|embed_tokens|norm)\b"
_NOT_ELSE = r"(?:model|language_model|layers|embed_tokens|norm|lm_head)\b"
_PATTERNS = [
    re.compile(rf"({text})(?={_TEXT})|({head})$|({default})(?!{_NOT_ELSE})".replace(".", r"\."))
    for text, head, default in _NAMINGS
]
_TOWERS = ("vision_tower.vision_model.", "vision_tower.")
"""Prefix of the image encoder, up to transformers 5.16 and after."""


def everywhere(path: str) -> list[str]:
    """Return how the names of a module end, one of them in each naming."""
    for start in ("model.language_model.", "language_model.model.", "language_model."):
        if path.startswith(start) and not path.endswith("lm_head"):
            tail = path.removeprefix(start)
            return [f"language_model.{tail}", f"language_model.model.{tail}"]
    tail = path.removeprefix("language_model.").removeprefix("model.")
    tower = next((tower for tower in _TOWERS if tail.startswith(tower)), None)
    return [tail] if tower is None else [start + tail.removeprefix(tower) for start in _TOWERS]


def as_in(paths: Sequence[str], examples: Sequence[str]) -> dict[str, str]:
    """Return the names of modules in the naming scheme of `examples`, by path.

    Names outside of the table stay. Raises `LoraEvoError` if the scheme of `examples` is ambiguous.
    """
    sources, targets = (
        [n for n, pattern in enumerate(_PATTERNS) if all(map(pattern.match, names))]
        for names in (paths, examples)
    )
    candidates = [dict(zip(paths, paths, strict=True))]
    if sources and targets and not set(sources) & set(targets):
        matches = [(path, _PATTERNS[sources[0]].match(path)) for path in paths]
        candidates = [
            {p: _NAMINGS[to][(m.lastindex or 1) - 1] + p[m.end() :] for p, m in matches if m}
            for to in targets
        ]
    if any(candidate != candidates[0] for candidate in candidates):
        raise LoraEvoError(
            f"{paths[0]} and {examples[0]} are of two naming schemes, of which one is not known; "
            "save both adapters with one version of transformers"
        )
    old, new = (
        next((tower for tower in _TOWERS if any(tower in name for name in names)), None)
        for names in (paths, examples)
    )
    if old and new and old != new:
        return {path: name.replace(old, new, 1) for path, name in candidates[0].items()}
    return candidates[0]
