"""safetensors files read and written one tensor at a time, without torch.

A checkpoint may lie in several files (shards): `adapter_model-00001-of-00003.safetensors`, ...,
with an index whose `weight_map` says in which file each tensor lies.
"""

import json
import math
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from lora_evo.errors import FileDamage

WEIGHTS_FILE = "adapter_model.safetensors"
INDEX_FILE = "adapter_model.safetensors.index.json"
ITEM_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""The stored types that can be read and written, with their sizes in bytes."""

_PICKLE_ADVICE = (
    "pickles can run code when opened: load it with PEFT where you trust it and call "
    "save_pretrained, which writes adapter_model.safetensors"
)


@dataclass(frozen=True)
class TensorInfo:
    """Type, shape and place of a tensor in its file."""

    dtype: str
    """As safetensors names it: F32, BF16, ..."""
    shape: tuple[int, ...]
    start: int = 0
    """In bytes, from the file's beginning."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * ITEM_SIZES[self.dtype]


class TensorFile:
    """An open safetensors file. Raises `FileDamage` when it is not a whole one."""

    def __init__(self, path: Path) -> None:
        _check_container(path)
        self._file = path.open("rb")
        length = int.from_bytes(self._file.read(8), "little")
        header = json.loads(self._file.read(length))
        self.infos: Mapping[str, TensorInfo] = {
            name: TensorInfo(
                entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0]
            )
            for name, entry in header.items()
            if name != "__metadata__"
        }

    def read_into(self, name: str, buffer: memoryview) -> None:
        """Read the bytes of a tensor into `buffer`, which has its size."""
        info = self.infos[name]
        self._file.seek(info.start)
        got = self._file.readinto(buffer)
        if got != info.size:
            raise FileDamage(f"{name} ends after {got} of {info.size} bytes: the file is truncated")

    def close(self) -> None:
        """Close the file; nothing can be read any more."""
        self._file.close()


class TensorWriter:
    """Writes a safetensors file whose layout is known first; tensors may come in any order."""

    def __init__(self, path: Path, layout: Mapping[str, TensorInfo]) -> None:
        # Wide types first, then by name: every tensor is aligned to its own element size.
        ordered = sorted(layout.items(), key=lambda item: (-ITEM_SIZES[item[1].dtype], item[0]))
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        self._starts: dict[str, int] = {}
        offset = 0
        for name, info in ordered:
            header[name] = {
                "dtype": info.dtype,
                "shape": list(info.shape),
                "data_offsets": [offset, offset + info.size],
            }
            self._starts[name] = offset
            offset += info.size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._base = 8 + len(text)
        self._file = path.open("wb")
        self._file.write(len(text).to_bytes(8, "little") + text)

    def write(self, name: str, payload: memoryview) -> None:
        """Write the bytes of one tensor in their place."""
        self._file.seek(self._base + self._starts[name])
        self._file.write(payload)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_weights(folder: Path, stack: ExitStack) -> Mapping[str, TensorFile]:
    """Return the open file of every tensor of an adapter directory; `stack` closes them.

    One file of weights comes first, as in PEFT, then shards. Raises `FileDamage` when there are
    none, or only a pickle.
    """
    if (folder / WEIGHTS_FILE).is_file():
        file = stack.enter_context(closing(TensorFile(folder / WEIGHTS_FILE)))
        return dict.fromkeys(file.infos, file)
    if (folder / INDEX_FILE).is_file():
        return _open_shards(folder, stack)
    if (folder / "adapter_model.bin").is_file():
        raise FileDamage(f"the weights are a pickle (adapter_model.bin); {_PICKLE_ADVICE}")
    if any(folder.glob("adapter_model-*-of-*.safetensors")):
        raise FileDamage(f"there are shards of the weights but no {INDEX_FILE}; copy it too")
    raise FileDamage(f"there is no {WEIGHTS_FILE} next to adapter_config.json")


def _open_shards(folder: Path, stack: ExitStack) -> Mapping[str, TensorFile]:
    places = _weight_map(folder / INDEX_FILE)
    files: dict[str, TensorFile] = {}
    for shard in sorted(set(places.values())):
        if not (folder / shard).is_file():
            raise FileDamage(f"{INDEX_FILE} names {shard}, which is not there; copy it too")
        file = files[shard] = stack.enter_context(closing(TensorFile(folder / shard)))
        listed = {name for name, place in places.items() if place == shard}
        odd = sorted(listed ^ file.infos.keys())
        if odd:
            raise FileDamage(f"{INDEX_FILE} and {shard} disagree on whether {odd[0]} is in it")
    return {name: files[shard] for name, shard in places.items()}


def _weight_map(index: Path) -> dict[str, str]:
    try:
        raw: Any = json.loads(index.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileDamage(f"{index.name} is not JSON: {error}") from error
    places = raw.get("weight_map") if isinstance(raw, dict) else None
    if not isinstance(places, dict) or not places:
        raise FileDamage(f"{index.name} has no weight_map, an object from tensor to file")
    for name, shard in places.items():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise FileDamage(
                f"{index.name} puts {name} into {shard!r}; expected the name of a file next to it"
            )
    return places


def _check_container(path: Path) -> None:
    """Refuse what is not a whole safetensors file, saying what it seems to be instead."""
    with path.open("rb") as file:
        head = file.read(16)
    if head[:4] == b"PK\x03\x04" or head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04"):
        raise FileDamage(f"{path.name} is a pickle under another name; {_PICKLE_ADVICE}")
    if head.startswith(b"version https://"):
        raise FileDamage(f"{path.name} is a Git LFS pointer; run `git lfs pull` to get the weights")
    try:
        with safe_open(path, framework="np"):
            pass
    except (SafetensorError, OSError, ValueError) as error:
        raise FileDamage(
            f"{path.name} is not a whole safetensors file ({error}); it is truncated or corrupt: "
            "copy or save it again"
        ) from error
