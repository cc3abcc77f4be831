"""Weights split over several safetensors files, read as if they were one.

The layout of large checkpoints: `adapter_model-00001-of-00003.safetensors`, ..., and
`adapter_model.safetensors.index.json`, whose `weight_map` says in which file each tensor lies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from lora_evo.errors import FileDamage
from lora_evo.files.tensor_file import PICKLE_WAY_OUT, TensorFile, TensorInfo

WEIGHTS_FILE = "adapter_model.safetensors"
INDEX_FILE = "adapter_model.safetensors.index.json"


class TensorShards:
    """Open shards; `infos`, `dtype` and `read` are those of one file (`TensorFile`)."""

    def __init__(self, index: Path) -> None:
        places = _weight_map(index)
        with ExitStack() as stack:
            files: dict[str, TensorFile] = {}
            for shard in sorted(set(places.values())):
                file = index.parent / shard
                if not file.is_file():
                    raise FileDamage(f"{index.name} names {shard}, which is not there; copy it too")
                files[shard] = stack.enter_context(TensorFile(file))
            self._files = {name: files[shard] for name, shard in places.items()}
            for shard, opened in files.items():
                _check_shard(index.name, shard, opened, places)
            self.infos: Mapping[str, TensorInfo] = {
                name: file.infos[name] for name, file in self._files.items()
            }
            self._stack = stack.pop_all()

    def dtype(self, name: str) -> torch.dtype:
        """The element type of the tensor called `name`."""
        return self._files[name].dtype(name)

    def read(self, name: str) -> torch.Tensor:
        """The tensor called `name`, in memory of its own; may be called from several threads."""
        return self._files[name].read(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


def open_weights(folder: Path) -> TensorFile | TensorShards:
    """The weights of an adapter directory: one file (which comes first, as in PEFT), or shards.

    Raises `FileDamage` when there are none, or only a pickle.
    """
    if (folder / WEIGHTS_FILE).is_file():
        return TensorFile(folder / WEIGHTS_FILE)
    if (folder / INDEX_FILE).is_file():
        return TensorShards(folder / INDEX_FILE)
    if (folder / "adapter_model.bin").is_file():
        raise FileDamage(f"the weights are a pickle (adapter_model.bin); {PICKLE_WAY_OUT}")
    if any(folder.glob("adapter_model-*-of-*.safetensors")):
        raise FileDamage(f"there are shards of the weights but no {INDEX_FILE}; copy it too")
    raise FileDamage(f"there is no {WEIGHTS_FILE} beside adapter_config.json")


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
                f"{index.name} puts {name} into {shard!r}; expected the name of a file beside it"
            )
    return places


def _check_shard(index: str, shard: str, file: TensorFile, places: Mapping[str, str]) -> None:
    listed = {name for name, place in places.items() if place == shard}
    missing, unlisted = sorted(listed - file.infos.keys()), sorted(file.infos.keys() - listed)
    if missing:
        raise FileDamage(f"{index} says that {missing[0]} is in {shard}, but it is not")
    if unlisted:
        raise FileDamage(f"{shard} holds {unlisted[0]}, which {index} does not place there")
