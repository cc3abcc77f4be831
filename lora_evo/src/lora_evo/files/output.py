"""Where a child may be written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lora_evo.errors import LoraEvoError
from lora_evo.files.atomic import refuse_existing


def check_output(out: Path, parents: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse an output that exists (unless `overwrite`), is a parent, or lies inside one.

    A child inside its parent would be taken for part of it, and be lost with it.
    """
    place = out.resolve()
    for parent in parents:
        if place == parent.resolve():
            raise LoraEvoError(f"{out} is a parent of this child; write the child somewhere else")
        if parent.resolve() in place.parents:
            raise LoraEvoError(
                f"{out} lies inside the parent {parent}; write the child beside it instead"
            )
    refuse_existing(out, overwrite=overwrite)
