"""Weights split over several safetensors files, read as if they were one.

The layout of large checkpoints: `adapter_model-00001-of-00003.safetensors`, ..., and
`adapter_model.safetensors.index.json`, whose `weight_map` says in which file each tensor lies.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from lora_evo.errors import FileDamage
from lora_evo.files.tensor_file import PICKLE_WAY_OUT, TensorFile

WEIGHTS_FILE = "adapter_model.safetensors"
INDEX_FILE = "adapter_model.safetensors.index.json"


def open_weights(folder: Path, stack: ExitStack) -> Mapping[str, TensorFile]:
    """The open file of every tensor of an adapter directory, closed with `stack`.

    One file of weights comes first, as in PEFT, then shards. Raises `FileDamage` when there are
    none, or only a pickle.
    """
    if (folder / WEIGHTS_FILE).is_file():
        file = _opened(folder / WEIGHTS_FILE, stack)
        return dict.fromkeys(file.infos, file)
    if (folder / INDEX_FILE).is_file():
        return _open_shards(folder, stack)
    if (folder / "adapter_model.bin").is_file():
        raise FileDamage(f"the weights are a pickle (adapter_model.bin); {PICKLE_WAY_OUT}")
    if any(folder.glob("adapter_model-*-of-*.safetensors")):
        raise FileDamage(f"there are shards of the weights but no {INDEX_FILE}; copy it too")
    raise FileDamage(f"there is no {WEIGHTS_FILE} beside adapter_config.json")


def _open_shards(folder: Path, stack: ExitStack) -> Mapping[str, TensorFile]:
    places = _weight_map(folder / INDEX_FILE)
    files: dict[str, TensorFile] = {}
    for shard in sorted(set(places.values())):
        if not (folder / shard).is_file():
            raise FileDamage(f"{INDEX_FILE} names {shard}, which is not there; copy it too")
        file = files[shard] = _opened(folder / shard, stack)
        listed = {name for name, place in places.items() if place == shard}
        for name in sorted(listed ^ file.infos.keys()):
            if name in listed:
                raise FileDamage(f"{INDEX_FILE} says that {name} is in {shard}, but it is not")
            raise FileDamage(f"{shard} holds {name}, which {INDEX_FILE} does not place there")
    return {name: files[shard] for name, shard in places.items()}


def _opened(path: Path, stack: ExitStack) -> TensorFile:
    return stack.enter_context(closing(TensorFile(path)))


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
