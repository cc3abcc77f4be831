"""PEFT adapter directories: opened for streaming, loaded whole, saved, hashed."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from lora_evo.errors import FileDamage, LoraEvoError
from lora_evo.files.adapter import Adapter, Slot, check_finite
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.files.atomic import directory_in_place_of
from lora_evo.files.content_hash import combine, slot_digest
from lora_evo.files.layout import Layout
from lora_evo.files.shards import WEIGHTS_FILE, open_weights
from lora_evo.files.tensor_file import TensorFile, TensorWriter
from lora_evo.files.tensor_names import layouts_in, tensor_names

CONFIG_FILE = "adapter_config.json"

PathLike = str | os.PathLike[str]
Progress = Callable[[int, int], None]
"""Told how many modules of how many are done."""
Tensors = list[tuple[str, torch.dtype, tuple[int, ...]]]


@dataclass(frozen=True)
class AdapterReader:
    """An opened adapter directory: layout checked, values read slot by slot."""

    directory: Path
    config: AdapterConfig
    layouts: Mapping[str, Layout]
    """Of every module, in sorted order of their paths."""
    files: Mapping[str, TensorFile]
    """The open file of every tensor."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Module paths in sorted order."""
        return tuple(self.layouts)

    def layout(self, config: AdapterConfig) -> Tensors:
        """Names, dtypes and shapes of all tensors, not read, at the ranks of `config`."""
        found = []
        with _naming(self.directory):
            for path, layout in self.layouts.items():
                for axis, name in enumerate(tensor_names(path, layout)):  # A [r, n], B [m, r]
                    shape = list(self.files[name].infos[name].shape)
                    shape[axis] = config.rank(path)
                    found.append((name, self.files[name].dtype(name), tuple(shape)))
        return found

    def slot(self, path: str) -> Slot:
        """Read, check and return the slot at `path`."""
        layout = self.layouts[path]
        with _naming(self.directory):
            a, b = (self.files[name].read(name) for name in tensor_names(path, layout))
            slot = Slot(a.flatten(1), b.flatten(1), self.config.scale(path), layout)
            check_finite(path, slot)
        return slot


@contextmanager
def open_adapter(directory: PathLike) -> Iterator[AdapterReader]:
    """Open a PEFT LoRA directory, its weights in one file or in shards.

    Every fault of its layout raises `LoraEvoError` naming it.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise LoraEvoError(f"{folder} is not a folder; expected a PEFT adapter directory")
    if not (folder / CONFIG_FILE).is_file():
        raise LoraEvoError(f"{folder} has no {CONFIG_FILE}; expected a PEFT adapter directory")
    with ExitStack() as stack:
        with _naming(folder):
            try:
                text = (folder / CONFIG_FILE).read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise FileDamage(f"{CONFIG_FILE} is not UTF-8 text: {error}") from error
            config = AdapterConfig.from_json(text)
            files = open_weights(folder, stack)
            shapes = {name: file.infos[name].shape for name, file in files.items()}
            layouts = layouts_in(config, shapes, WEIGHTS_FILE)
        yield AdapterReader(folder, config, layouts, files)


def load_adapter(directory: PathLike) -> Adapter:
    """Read a PEFT LoRA directory whole."""
    with open_adapter(directory) as reader:
        return Adapter(reader.config, {path: reader.slot(path) for path in reader.paths})


def save_adapter(adapter: Adapter, directory: PathLike, *, overwrite: bool = False) -> None:
    """Write a PEFT LoRA directory atomically; refuses an existing one unless `overwrite`.

    With `overwrite`, other files of the directory (such as lineage.json) stay.
    """
    for path, slot in adapter.slots.items():
        check_finite(path, slot)
    with directory_in_place_of(Path(directory), overwrite=overwrite) as draft:
        write_adapter(draft, adapter.config, layout_of(adapter.slots), adapter.slots.items())


def content_hash(directory: PathLike) -> str:
    """Hash of an adapter directory's configuration and weights (not of its lineage).

    Independent of the order of tensors in the file and of target modules in the configuration.
    """
    with open_adapter(directory) as reader:
        digests = {path: slot_digest(reader.slot(path)) for path in reader.paths}
        return combine(reader.config, digests)


def write_adapter(
    folder: Path, config: AdapterConfig, layout: Tensors, slots: Iterable[tuple[str, Slot]]
) -> None:
    """Write configuration and weights into `folder`; slots come one by one, in any order."""
    (folder / CONFIG_FILE).write_text(config.to_json(), encoding="utf-8")
    with closing(TensorWriter(folder / WEIGHTS_FILE, layout)) as writer:
        for path, slot in slots:
            for name, shape, factor in _stored(path, slot):
                writer.write(name, factor.reshape(shape))
        writer.finish()


def layout_of(slots: Mapping[str, Slot]) -> Tensors:
    """Names, dtypes and shapes of the tensors that hold these slots."""
    return [
        (name, factor.dtype, shape)
        for path, slot in slots.items()
        for name, shape, factor in _stored(path, slot)
    ]


def _stored(path: str, slot: Slot) -> Iterator[tuple[str, tuple[int, ...], torch.Tensor]]:
    """Name, shape in the file and flattened values of both factors."""
    shapes = slot.layout.stored(slot.A.shape, slot.B.shape)
    yield from zip(tensor_names(path, slot.layout), shapes, (slot.A, slot.B), strict=True)


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Put the adapter's folder in front of refusals raised inside."""
    try:
        yield
    except LoraEvoError as error:
        raise type(error)(f"{folder}: {error}") from error
