"""PEFT adapter directories: opened for streaming, loaded whole, saved, hashed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from lora_evo.adapter import Adapter, Slot, check_finite, check_shapes, check_slot
from lora_evo.atomic import directory_in_place_of
from lora_evo.config import AdapterConfig
from lora_evo.content import combine, slot_digest
from lora_evo.errors import FileDamage, LoraEvoError
from lora_evo.tensor_file import PICKLE_WAY_OUT, TensorFile, TensorWriter

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_KEY = re.compile(r"base_model\.model\.(?P<path>.+)\.lora_(?P<half>[AB])\.weight")

PathLike = str | os.PathLike[str]
Layout = list[tuple[str, torch.dtype, tuple[int, ...]]]


@dataclass(frozen=True)
class AdapterReader:
    """An opened adapter directory: layout checked, values read slot by slot."""

    directory: Path
    config: AdapterConfig
    paths: tuple[str, ...]
    file: TensorFile

    def layout(self) -> Layout:
        """Names, dtypes and shapes of all tensors, without reading them."""
        with _naming(self.directory):
            return [
                (name, self.file.dtype(name), self.file.infos[name].shape)
                for path in self.paths
                for name in (tensor_name(path, "A"), tensor_name(path, "B"))
            ]

    def slot(self, path: str) -> Slot:
        """Read, check and return the slot at `path`."""
        with _naming(self.directory):
            slot = Slot(
                A=self.file.read(tensor_name(path, "A")),
                B=self.file.read(tensor_name(path, "B")),
                scale=self.config.scale(path),
            )
            check_slot(self.config, path, slot)
            check_finite(path, slot)
        return slot


@contextmanager
def open_adapter(directory: PathLike) -> Iterator[AdapterReader]:
    """Open a PEFT LoRA directory; every fault of its layout raises `LoraEvoError` naming it."""
    folder = Path(directory)
    if not folder.is_dir():
        raise LoraEvoError(f"{folder} is not a folder; expected a PEFT adapter directory")
    if not (folder / CONFIG_FILE).is_file():
        raise LoraEvoError(f"{folder} has no {CONFIG_FILE}; expected a PEFT adapter directory")
    with _naming(folder):
        try:
            text = (folder / CONFIG_FILE).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise FileDamage(f"{CONFIG_FILE} is not UTF-8 text: {error}") from error
        config = AdapterConfig.from_json(text)
        if not (folder / WEIGHTS_FILE).is_file():
            if (folder / "adapter_model.bin").is_file():
                raise FileDamage(f"the weights are a pickle (adapter_model.bin); {PICKLE_WAY_OUT}")
            raise FileDamage(f"there is no {WEIGHTS_FILE} beside {CONFIG_FILE}")
        file = TensorFile(folder / WEIGHTS_FILE)
    with file:
        with _naming(folder):
            paths = _paths(config, file)
        yield AdapterReader(folder, config, paths, file)


def load_adapter(directory: PathLike) -> Adapter:
    """Read a PEFT LoRA directory whole; the base model is not needed."""
    with open_adapter(directory) as reader:
        return Adapter(reader.config, {path: reader.slot(path) for path in reader.paths})


def save_adapter(adapter: Adapter, directory: PathLike, *, overwrite: bool = False) -> None:
    """Write a PEFT LoRA directory atomically; refuses an existing one unless `overwrite`.

    With `overwrite`, other files of the directory (such as lineage.json) stay.
    """
    for path, slot in adapter.slots.items():
        check_finite(path, slot)
    with directory_in_place_of(Path(directory), overwrite=overwrite) as draft:
        (draft / CONFIG_FILE).write_text(adapter.config.to_json(), encoding="utf-8")
        with slot_writer(draft, layout_of(adapter.slots)) as writer:
            for path, slot in adapter.slots.items():
                write_slot(writer, path, slot)


def content_hash(directory: PathLike) -> str:
    """Hash of an adapter directory's configuration and weights (not of its lineage).

    Independent of the order of tensors in the file and of target modules in the configuration.
    """
    with open_adapter(directory) as reader:
        digests = {path: slot_digest(reader.slot(path)) for path in reader.paths}
        return combine(reader.config, digests)


def slot_writer(folder: Path, layout: Layout) -> TensorWriter:
    """A writer for the weights file of `folder`; slots may then come in any order."""
    return TensorWriter(folder / WEIGHTS_FILE, layout)


def layout_of(slots: Mapping[str, Slot]) -> Layout:
    """Names, dtypes and shapes of the tensors that hold these slots."""
    return [
        (tensor_name(path, half), factor.dtype, tuple(factor.shape))
        for path, slot in slots.items()
        for half, factor in (("A", slot.A), ("B", slot.B))
    ]


def write_slot(writer: TensorWriter, path: str, slot: Slot) -> None:
    """Write both halves of one slot."""
    writer.write(tensor_name(path, "A"), slot.A)
    writer.write(tensor_name(path, "B"), slot.B)


def tensor_name(path: str, half: str) -> str:
    """The name PEFT gives to lora_A or lora_B of the module at `path`."""
    return f"{_PREFIX}{path}.lora_{half}.weight"


def _paths(config: AdapterConfig, file: TensorFile) -> tuple[str, ...]:
    """Module paths in sorted order, from tensor names that must pair up."""
    halves: dict[str, set[str]] = {}
    for name in file.infos:
        match = _KEY.fullmatch(name)
        if match is None:
            raise LoraEvoError(_unknown(name))
        halves.setdefault(match["path"], set()).add(match["half"])
    if not halves:
        raise LoraEvoError(f"{WEIGHTS_FILE} holds no LoRA tensors")
    for path, found in halves.items():
        if len(found) == 1:
            (half,) = found
            other = "B" if half == "A" else "A"
            raise LoraEvoError(f"half a pair: {path} has lora_{half} but no lora_{other}")
        a, b = (file.infos[tensor_name(path, half)].shape for half in "AB")
        check_shapes(config, path, a, b)
    return tuple(sorted(halves))


def _unknown(name: str) -> str:
    reasons = {
        "lora_magnitude_vector": "it belongs to DoRA; fold the adapter into the base model",
        "lora_embedding_": "it belongs to an embedding layer; leave embeddings out of "
        "target_modules (only linear layers can be evolved)",
        "modules_to_save": "it is a whole trained module; train without modules_to_save",
        "base_layer": "it is a weight of the base model; save with save_embedding_layers=False",
        "embed_tokens.weight": "it is a weight of the base model; save with "
        "save_embedding_layers=False",
        "lm_head.weight": "it is a weight of the base model; save with save_embedding_layers=False",
        ".bias": "it is a bias; train with bias='none'",
    }
    for part, reason in reasons.items():
        if part in name:
            return f"unexpected tensor {name}: {reason}"
    return (
        f"unknown tensor {name}: expected only names like "
        f"{_PREFIX}<module>.lora_A.weight and .lora_B.weight"
    )


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Put the adapter's folder in front of refusals raised inside."""
    try:
        yield
    except LoraEvoError as error:
        raise type(error)(f"{folder}: {error}") from error
