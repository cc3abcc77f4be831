"""Adapter directories in a folder: found, told apart by name, known by what they hold."""

from collections.abc import Iterable, Sequence
from itertools import count
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


def folders_by_content(
    roots: Iterable[Path], wanted: set[str]
) -> tuple[dict[str, Path], list[str]]:
    """Adapter folders below the roots that hold the wanted contents, by content hash.

    Also says why any folder could not be read. Stops as soon as all are found.
    """
    found: dict[str, Path] = {}
    unreadable: list[str] = []
    for folder in adapter_folders(roots):
        if wanted <= found.keys():
            break
        try:
            found.setdefault(content_hash(folder), folder)
        except LoraEvoError as error:
            unreadable.append(str(error))
    return {content: found[content] for content in wanted & found.keys()}, unreadable


def shortest_unique_names(folders: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as it takes to tell all of them apart.

    Raises `LoraEvoError` when one folder is given twice.
    """
    parts = [folder.resolve().parts for folder in folders]
    for place, path in enumerate(parts):
        if path in parts[:place]:
            raise LoraEvoError(f"{folders[place]} is given twice; name every adapter once")
    candidates = (["/".join(path[-depth:]) for path in parts] for depth in count(1))
    return next(names for names in candidates if len(set(names)) == len(names))
