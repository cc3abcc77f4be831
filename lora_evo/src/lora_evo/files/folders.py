"""Adapter directories found in a folder, known by what they hold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lora_evo.errors import LoraEvoError
from lora_evo.files.directory import CONFIG_FILE, content_hash


def adapter_folders(roots: Iterable[Path]) -> list[Path]:
    """Every adapter directory at or below the roots, sorted, each once; hidden ones left out."""
    found: dict[Path, Path] = {}
    for root in roots:
        if not root.is_dir():
            raise LoraEvoError(f"{root} is not a folder; expected an adapter or a folder of them")
        for file in sorted(root.rglob(CONFIG_FILE)):
            folder = file.parent
            if not any(part.startswith(".") for part in folder.relative_to(root).parts):
                found.setdefault(folder.resolve(), folder)
    return sorted(found.values())


def by_content(folders: Iterable[Path], wanted: set[str]) -> tuple[dict[str, Path], list[str]]:
    """Folders that hold the wanted contents, and why any folder could not be read.

    Stops as soon as all are found.
    """
    found: dict[str, Path] = {}
    unreadable: list[str] = []
    for folder in folders:
        if wanted <= found.keys():
            break
        try:
            found.setdefault(content_hash(folder), folder)
        except LoraEvoError as error:
            unreadable.append(str(error))
    return {content: found[content] for content in wanted & found.keys()}, unreadable
