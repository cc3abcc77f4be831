"""PEFT adapter directories: opened and checked, hashed, found in folders; without torch."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

from lora_evo.errors import FileDamage, LoraEvoError
from lora_evo.files.config import AdapterConfig, check_pair
from lora_evo.files.tensor_file import ITEM_SIZES, WEIGHTS_FILE, TensorFile, open_weights

CONFIG_FILE = "adapter_config.json"
_T = TypeVar("_T")

PathLike = str | os.PathLike[str]
Progress = Callable[[int, int], None]
"""Called with the number of modules done and that of all modules."""

_PREFIX = "base_model.model."
_KEY = re.compile(r"base_model\.model\.(?P<path>.+)\.lora_(?P<half>[AB])\.weight")
_OF_BASE = "it is a weight of the base model; save with save_embedding_layers=False"
_REASONS = {
    "lora_embedding_": "it adapts an embedding; only linear layers can be read",
    "lora_magnitude_vector": "it belongs to DoRA; fold the adapter into the base model",
    "modules_to_save": "it is a whole trained module; train without modules_to_save",
    "token_adapter": "it holds trained embedding rows; train without trainable_token_indices",
    "base_layer": _OF_BASE,
    "embed_tokens.weight": _OF_BASE,
    "lm_head.weight": _OF_BASE,
    ".bias": "it is a bias; train with bias='none'",
}
_STORED = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class AdapterFiles:
    """An opened adapter directory: names, shapes and types are checked, values are not read."""

    directory: Path
    config: AdapterConfig
    paths: tuple[str, ...]
    """Module paths in sorted order."""
    files: Mapping[str, TensorFile]
    """The open file of every tensor."""


@contextmanager
def open_files(directory: PathLike) -> Iterator[AdapterFiles]:
    """Open a PEFT LoRA directory; what cannot be used raises `LoraEvoError` naming the fault."""
    folder = Path(directory)
    if not (folder / CONFIG_FILE).is_file():
        what = f"has no {CONFIG_FILE}" if folder.is_dir() else "is not a folder"
        raise LoraEvoError(f"{folder} {what}; expected a PEFT adapter directory")
    with ExitStack() as stack:
        with naming(folder):
            try:
                text = (folder / CONFIG_FILE).read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise FileDamage(f"{CONFIG_FILE} is not UTF-8 text: {error}") from error
            config = AdapterConfig.from_json(text)
            files = open_weights(folder, stack)
            paths = _checked_paths(config, files)
        yield AdapterFiles(folder, config, paths, files)


@contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Put the adapter's folder in front of the errors raised inside."""
    try:
        yield
    except LoraEvoError as error:
        raise type(error)(f"{folder}: {error}") from error


def tensor_names(path: str) -> tuple[str, str]:
    """Return the names that PEFT gives to A and B of the module at `path`."""
    return f"{_PREFIX}{path}.lora_A.weight", f"{_PREFIX}{path}.lora_B.weight"


def content_hash(directory: PathLike) -> str:
    """Return the hash of an adapter directory's configuration and weights (not of its lineage).

    It does not depend on the order of tensors in the file and of target modules.
    """
    digests = {}
    with open_files(directory) as adapter:
        for path in adapter.paths:
            digest = hashlib.sha256()
            for name in tensor_names(path):
                file = adapter.files[name]
                info, payload = file.infos[name], bytearray(file.infos[name].size)
                with naming(adapter.directory):
                    file.read_into(name, memoryview(payload))
                # The words are torch's, so that a slot in memory has the same digest.
                digest.update(f"torch.{_STORED[info.dtype]}{list(info.shape)}".encode())
                digest.update(payload)
            digests[path] = digest.hexdigest()
        return combine(adapter.config, digests)


def combine(config: AdapterConfig, digests: Mapping[str, str]) -> str:
    """Return the content hash of an adapter from its configuration and its slots' digests."""
    digest = hashlib.sha256(config.fingerprint())
    for path in sorted(digests):
        digest.update(f"\n{path} {digests[path]}".encode())
    return "sha256:" + digest.hexdigest()


def adapter_folders(roots: Iterable[Path]) -> list[Path]:
    """Return every adapter directory at or below the roots, sorted, without hidden ones."""
    found: dict[Path, Path] = {}
    for root in roots:
        if not root.is_dir():
            raise LoraEvoError(f"{root} is not a folder; expected an adapter or a folder of them")
        for file in sorted(root.rglob(CONFIG_FILE)):
            folder = file.parent
            if not any(part.startswith(".") for part in folder.relative_to(root).parts):
                found.setdefault(folder.resolve(), folder)
    return sorted(found.values())


def readable(
    folders: Iterable[Path], read: Callable[[Path], _T], unreadable: Callable[[str], None] | None
) -> Iterator[tuple[Path, _T]]:
    """Read folders one by one; `unreadable` gets the reason of one that cannot be (None: raise)."""
    for folder in folders:
        try:
            value = read(folder)
        except (LoraEvoError, OSError) as error:
            if unreadable is None:
                raise
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"{error.filename or folder}: {error.strerror or error}"
            unreadable(reason)
        else:
            yield folder, value


def folders_by_content(
    roots: Iterable[Path], wanted: set[str]
) -> tuple[dict[str, Path], list[str]]:
    """Find adapter folders below the roots by their content hashes, until all are found.

    Also returns why any folder could not be read.
    """
    found: dict[str, Path] = {}
    unreadable: list[str] = []
    if wanted:
        for folder, content in readable(adapter_folders(roots), content_hash, unreadable.append):
            found.setdefault(content, folder)
            if wanted <= found.keys():
                break
    return {content: found[content] for content in wanted & found.keys()}, unreadable


def shortest_unique_names(folders: Sequence[Path]) -> list[str]:
    """Return the last parts of the paths, as many as it takes to tell all of them apart.

    Raises `LoraEvoError` when one folder is given twice.
    """
    parts = [folder.resolve().parts for folder in folders]
    for place, path in enumerate(parts):
        if path in parts[:place]:
            raise LoraEvoError(f"{folders[place]} is given twice; name every adapter once")
    candidates = (["/".join(path[-depth:]) for path in parts] for depth in count(1))
    return next(names for names in candidates if len(set(names)) == len(names))


def module_type(path: str) -> str:
    """Return the last word of a module's path: `q_proj` of `model.layers.0.self_attn.q_proj`.

    Numbers at the end are places in a list and left out: `to_out` of `attn.to_out.0`.
    """
    words = path.split(".")
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    return words[-1]


def _checked_paths(config: AdapterConfig, files: Mapping[str, TensorFile]) -> tuple[str, ...]:
    """Return the sorted paths of the modules whose factors these are; refuse any other tensor."""
    halves: dict[str, str] = {}
    for name, file in files.items():
        match = _KEY.fullmatch(name)
        if match is None:
            reason = next((why for part, why in _REASONS.items() if part in name), None)
            raise LoraEvoError(
                f"unexpected tensor {name}: {reason}"
                if reason
                else f"unknown tensor {name}: expected only names like "
                f"{_PREFIX}<module>.lora_A.weight and .lora_B.weight"
            )
        stored = file.infos[name].dtype
        if stored not in ITEM_SIZES:
            raise LoraEvoError(
                f"{name} is stored as {stored}; expected one of {', '.join(ITEM_SIZES)}: "
                "save the adapter unquantised"
            )
        halves[match["path"]] = halves.get(match["path"], "") + match["half"]
    if not halves:
        raise LoraEvoError(f"{WEIGHTS_FILE} holds no LoRA tensors")
    for path, present in halves.items():
        if len(present) == 1:
            other = "B" if present == "A" else "A"
            raise LoraEvoError(f"half a pair: {path} has lora_{present} but no lora_{other}")
        a, b = tensor_names(path)
        check_pair(config, path, files[a].infos[a].shape, files[b].infos[b].shape)
    return tuple(sorted(halves))
