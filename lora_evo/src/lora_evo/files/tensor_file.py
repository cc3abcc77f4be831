"""safetensors files read and written one tensor at a time, so that memory stays small."""

import json
import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from lora_evo.errors import FileDamage, LoraEvoError

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies in its file and what it is."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    """In bytes, from the file's beginning."""
    size: int
    """In bytes."""


class TensorFile:
    """An open safetensors file; `read` may be called from several threads."""

    def __init__(self, path: Path) -> None:
        _check_container(path)
        self._file = path.open("rb")
        self._lock = threading.Lock()
        length = int.from_bytes(self._file.read(8), "little")
        header = json.loads(self._file.read(length))
        self.infos: Mapping[str, TensorInfo] = {
            name: TensorInfo(
                dtype=entry["dtype"],
                shape=tuple(entry["shape"]),
                start=8 + length + entry["data_offsets"][0],
                size=entry["data_offsets"][1] - entry["data_offsets"][0],
            )
            for name, entry in header.items()
            if name != "__metadata__"
        }

    def dtype(self, name: str) -> torch.dtype:
        """The element type of the tensor called `name`."""
        stored = self.infos[name].dtype
        if stored not in _DTYPES:
            raise LoraEvoError(
                f"{name} is stored as {stored}; expected one of {', '.join(_DTYPES)}: "
                "save the adapter unquantised"
            )
        return _DTYPES[stored]

    def read(self, name: str) -> torch.Tensor:
        """The tensor called `name`, in memory of its own (64-byte aligned by torch)."""
        info, dtype = self.infos[name], self.dtype(name)
        payload = torch.empty(info.size, dtype=torch.uint8)
        with self._lock:
            self._file.seek(info.start)
            got = self._file.readinto(payload.numpy().data)
        if got != info.size:
            raise FileDamage(f"{name} ends after {got} of {info.size} bytes: the file is truncated")
        return payload.view(dtype).reshape(info.shape)

    def close(self) -> None:
        """Close the file; nothing can be read any more."""
        self._file.close()


class TensorWriter:
    """Writes a safetensors file whose layout is known first; tensors may come in any order."""

    def __init__(
        self, path: Path, layout: Sequence[tuple[str, torch.dtype, tuple[int, ...]]]
    ) -> None:
        # Wide types first, then by name: every tensor is aligned to its own element size.
        ordered = sorted(layout, key=lambda item: (-item[1].itemsize, item[0]))
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        self._places: dict[str, tuple[int, torch.dtype, tuple[int, ...]]] = {}
        offset = 0
        for name, dtype, shape in ordered:
            size = math.prod(shape) * dtype.itemsize
            header[name] = {
                "dtype": _NAMES[dtype],
                "shape": list(shape),
                "data_offsets": [offset, offset + size],
            }
            self._places[name] = (offset, dtype, shape)
            offset += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._file = path.open("wb")
        self._file.write(len(text).to_bytes(8, "little") + text)
        self._base = 8 + len(text)

    def write(self, name: str, tensor: torch.Tensor) -> None:
        """Put one tensor in its place; it must have the dtype and shape of the layout."""
        offset, dtype, shape = self._places.pop(name)
        if tensor.dtype != dtype or tuple(tensor.shape) != shape:
            raise LoraEvoError(f"{name} is {tensor.dtype} {list(tensor.shape)}, not as laid out")
        payload = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        self._file.seek(self._base + offset)
        self._file.write(payload.data)

    def finish(self) -> None:
        """Bring the file to disk; every tensor of the layout must have been written."""
        if self._places:
            raise LoraEvoError(f"never written: {', '.join(sorted(self._places))}")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, whole or not."""
        self._file.close()


def _check_container(path: Path) -> None:
    """Refuse what is not a whole safetensors file, saying what it seems to be instead."""
    with path.open("rb") as file:
        head = file.read(16)
    if head[:4] == b"PK\x03\x04" or head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04"):
        raise FileDamage(f"{path.name} is a pickle under another name; {PICKLE_WAY_OUT}")
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


PICKLE_WAY_OUT = (
    "pickles can run code when opened: load it with PEFT where you trust it and call "
    "save_pretrained, which writes adapter_model.safetensors"
)
