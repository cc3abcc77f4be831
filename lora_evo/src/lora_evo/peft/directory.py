"""PEFT adapter directories: found, checked, hashed and written, without torch."""

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open

from lora_evo.errors import LoraEvoError
from lora_evo.peft.config import IN_ORDER, MERGE, AdapterConfig, check_pair, older

WEIGHTS_FILE = "adapter_model.safetensors"
NUMBER_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Number types that can be read and written: torch's names by safetensors' names."""
_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
CONFIG_FILE = "adapter_config.json"
_SAVE_AGAIN = "save the adapter with PEFT's save_pretrained"
_T = TypeVar("_T")
PathLike = str | os.PathLike[str]
_PREFIX = "base_model.model."
_KEY = re.compile(r"base_model\.model\.(?P<path>.+)\.lora_(?P<half>[AB])\.weight")
_DEFAULT = re.compile(r"(?<=\.lora_[AB])\.default(?=\.weight$)")
"""PEFT's name of an adapter, which a plain `state_dict` holds and PEFT takes."""
_READERS = tuple(f".{name}_proj.lora_A.weight" for name in "qkv")
"""Ends of the tensors whose columns are the width of the model."""
_LAYER = re.compile(r"(?:.*?\.\d+\.)?")
_WRAPPER = re.compile(
    r"(?<=\.)_(?:orig_mod|fsdp_wrapped_module|checkpoint_wrapped_module|forward_module)\."
    r"|(?<=^base_model\.model\.)(?:(?:module|base_model\.model)\.)+"
    r"(?=(?:model|language_model|transformer|gpt_neox|backbone|lm_head)\.)"
)
"""Parts of tensor names that torch.compile, FSDP, checkpointing and data parallelism add."""


@dataclass(frozen=True)
class StoredTensor:
    """Place, type and shape of a stored tensor; its values are not read."""

    file: Path
    dtype: str
    """As safetensors names it: F32, BF16, ..."""
    shape: tuple[int, ...]
    start: int
    """Offset of its bytes in the file."""
    stamp: tuple[int, ...]
    """`file_stamp` of the file when the header was read."""
    every: int = 1
    """Number of experts that share a stored B; each has every n-th column ..."""
    first: int = 0
    """... from this column on."""

    @property
    def whole(self) -> "StoredTensor":
        """The stored tensor: this one, or the B that several experts share."""
        shape = (*self.shape[:-1], self.shape[-1] * self.every)
        return replace(self, shape=shape, every=1, first=0)

    def check_unchanged(self) -> None:
        """Raise `LoraEvoError` if the file has changed since its header was read."""
        if file_stamp(self.file) != self.stamp:
            raise LoraEvoError(f"{self.file.name} was changed while it was read; try again")


def file_stamp(file: Path) -> tuple[int, ...]:
    """Return inode, size and time of a file, which change when it is replaced."""
    stat = file.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def write_tensors(
    path: Path, layout: Mapping[str, tuple[str, Sequence[int]]], payloads: Iterable[tuple[str, Any]]
) -> None:
    """Write a safetensors file; payloads: names and bytes of tensors, in any order."""
    # Wide types first, then by name: every tensor is aligned to its element size.
    ordered = sorted(layout.items(), key=lambda item: (-_SIZES[item[1][0]], item[0]))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in ordered:
        start, end = end, end + math.prod(shape) * _SIZES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, payload in payloads:
            file.seek(8 + len(text) + header[name]["data_offsets"][0])
            file.write(payload)


def stored_tensors(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a safetensors file by name. Raises `LoraEvoError` for other files."""
    if not path.is_file():
        raise LoraEvoError(f"there is no {path.name} next to {CONFIG_FILE}; {_SAVE_AGAIN}")
    stamp = file_stamp(path)
    with path.open("rb") as file:
        try:
            with safe_open(path, framework="np"):  # checks the file
                header = json.loads(file.read(size := int.from_bytes(file.read(8), "little")))
        except (SafetensorError, OSError, ValueError) as error:
            raise LoraEvoError(
                f"{path.name} is not a whole safetensors file ({error}), but truncated, a pickle "
                "or a Git LFS pointer; copy it again, or type `git lfs pull`"
            ) from error
    header.pop("__metadata__", None)
    return {
        name: StoredTensor(
            path, entry["dtype"], tuple(entry["shape"]), 8 + size + entry["data_offsets"][0], stamp
        )
        for name, entry in header.items()
    }


@dataclass(frozen=True)
class AdapterFiles:
    """An adapter directory with checked names, shapes and types; values are not read."""

    directory: Path
    config: AdapterConfig
    paths: tuple[str, ...]
    tensors: Mapping[str, StoredTensor]


def adapter_files(directory: PathLike) -> AdapterFiles:
    """Read configuration and header of a PEFT LoRA directory. Raises `LoraEvoError`."""
    folder = Path(directory)
    if not (folder / CONFIG_FILE).is_file():
        raise LoraEvoError(f"{folder} {no_adapter(folder)}")
    with naming(folder):
        try:
            text = (folder / CONFIG_FILE).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise LoraEvoError(f"{CONFIG_FILE} is not UTF-8 text: {error}") from error
        config = AdapterConfig.from_json(text)
        stored = stored_tensors(folder / WEIGHTS_FILE).items()
        tensors = _cut(config, {_DEFAULT.sub("", name): tensor for name, tensor in stored})
        return AdapterFiles(folder, config, _checked_paths(config, tensors), tensors)


def no_adapter(folder: Path) -> str:
    """Return why a path is not an adapter directory, and which one may be meant."""
    if not folder.is_dir():
        return (
            "is not a folder; expected a PEFT adapter directory (of one on the hub, type: hf "
            "download NAME --local-dir FOLDER, and name that FOLDER)"
        )
    inside = ", ".join(str(file.parent) for file in sorted(folder.glob(f"*/{CONFIG_FILE}")))
    expected = f"name one of its adapters: {inside}" if inside else "expected a PEFT adapter"
    return f"has no {CONFIG_FILE}; {expected}"


@contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Prefix errors raised inside with the adapter's folder."""
    try:
        yield
    except LoraEvoError as error:
        raise LoraEvoError(f"{folder}: {error}") from error
    except OSError as error:
        error.filename = error.filename or str(folder)  # a failed read names no file
        raise


def tensor_names(path: str) -> tuple[str, str]:
    """Return PEFT's tensor names of A and B of the module at `path`."""
    return f"{_PREFIX}{path}.lora_A.weight", f"{_PREFIX}{path}.lora_B.weight"


def content_hash(directory: PathLike) -> str:
    """Return the hash of an adapter directory's configuration and weights (not of its lineage).

    It does not depend on the order of tensors in the file and of target modules.
    """
    import numpy as np

    adapter = adapter_files(directory)
    with naming(adapter.directory):
        values = memoryview((adapter.directory / WEIGHTS_FILE).read_bytes())
        next(iter(adapter.tensors.values())).check_unchanged()
    digests = {}
    for path in adapter.paths:
        digest = hashlib.sha256()
        for name in tensor_names(path):
            stored = adapter.tensors[name]
            # torch's type names, so that a slot in memory has the same digest.
            digest.update(f"torch.{NUMBER_TYPES[stored.dtype]}{list(stored.shape)}".encode())
            whole, size = stored.whole, _SIZES[stored.dtype]
            end = whole.start + math.prod(whole.shape) * size
            data = np.frombuffer(values[whole.start : end], f"V{size}")
            columns = data.reshape(whole.shape)[..., stored.first :: stored.every]
            digest.update(np.ascontiguousarray(columns).view(np.uint8).data)
        digests[path] = digest.hexdigest()
    return combine(adapter.config, digests)


def combine(config: AdapterConfig, digests: Mapping[str, str]) -> str:
    """Return the content hash of an adapter from its configuration and its slots' digests."""
    digest = hashlib.sha256(config.fingerprint())
    for path in sorted(digests):
        digest.update(f"\n{path} {digests[path]}".encode())
    return "sha256:" + digest.hexdigest()


def adapter_folders(roots: Iterable[Path]) -> list[Path]:
    """Return all adapter directories at or below the roots, sorted, without hidden ones.

    Links are followed; a folder that also is there without one has that name.
    """
    folders: dict[str, Path] = {}  # those seen, by their real paths
    waiting = list(roots)
    for root in waiting:  # links in the folders come last
        if not root.is_dir():
            raise LoraEvoError(f"{root} {no_adapter(root)}, or a folder of them")
        for place, names, _ in os.walk(root):
            names[:] = sorted(name for name in names if not name.startswith("."))
            if folders.setdefault(os.path.realpath(place), Path(place)) != Path(place):
                names.clear()
            waiting += [path for name in names if (path := Path(place, name)).is_symlink()]
    return sorted(folder for folder in folders.values() if (folder / CONFIG_FILE).is_file())


def readable(
    folders: Iterable[Path], read: Callable[[Path], _T], unreadable: Callable[[str], None] | None
) -> Iterator[tuple[Path, _T]]:
    """Yield folders with their contents; unreadable: called with the reason of an error, or None
    to raise it."""
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


def shortest_unique_names(folders: Sequence[Path]) -> list[str]:
    """Return the last parts that make paths unique. Raises `LoraEvoError` for one given twice."""
    parts = [folder.resolve().parts for folder in folders]
    for place, path in enumerate(parts):
        if path in parts[:place]:
            raise LoraEvoError(f"{folders[place]} is given twice; name every adapter once")
    candidates = (["/".join(path[-depth:]) for path in parts] for depth in count(1))
    return next(names for names in candidates if len(set(names)) == len(names))


def _cut(config: AdapterConfig, tensors: Mapping[str, StoredTensor]) -> Mapping[str, StoredTensor]:
    """Return tensors with those of bare parameters (PEFT's target_parameters) split by expert.

    Of E experts of rank r, expert e has A[e r : (e + 1) r] and B[:, e :: E]. PEFT wraps a module
    once for each of its parameters, with the model's first one innermost:
    `experts.base_layer.lora_A`.
    """
    modules: dict[str, list[str]] = {}
    for name in tensors if config.rest.get("target_parameters") else ():
        match = _KEY.fullmatch(name)
        if match and tensors.keys() >= set(tensor_names(match["path"])) and match["half"] == "A":
            modules.setdefault(match["path"].replace(".base_layer", ""), []).append(match["path"])
    cut = dict(tensors)
    for module, wrappers in modules.items():
        if wrappers == [module] and config.adapts(module):
            continue
        keys = config.parameters_of(module, len(wrappers))
        for key, wrapper in zip(keys, sorted(wrappers, key=len, reverse=True), strict=True):
            a, b = (cut.pop(name) for name in tensor_names(wrapper))
            rank = config.rank(f"{key}.0")
            count, remainder = divmod(a.shape[0], rank)
            if len(a.shape) != 2 or remainder or b.shape != (b.shape[0], rank * count):
                raise LoraEvoError(
                    f"the pair of {key} is {list(a.shape)} and {list(b.shape)}; expected "
                    f"[{rank} E, in] and [out, {rank} E] for E experts of rank {rank}"
                )
            step = rank * a.shape[1] * _SIZES.get(a.dtype, 0)
            for e in range(count):
                name_a, name_b = tensor_names(f"{key}.{e}")
                cut[name_a] = replace(a, shape=(rank, a.shape[1]), start=a.start + e * step)
                cut[name_b] = replace(b, shape=(b.shape[0], rank), every=count, first=e)
        _check_layout(config, cut, module, keys)
    return cut


def _check_layout(
    config: AdapterConfig, tensors: Mapping[str, StoredTensor], module: str, keys: Sequence[str]
) -> None:
    """Raise `LoraEvoError` for experts in the layout of PEFT up to 0.18, the transpose of today's.

    There gate_up_proj maps 2I to H and down_proj H to I, with H the width of the model and I that
    of an expert. Now, and in both for weights that are stored transposed (gpt-oss), it is H to 2I
    and I to H. The shapes of both, or of one and of attention, decide; else PEFT's version does.
    """
    sides = []
    for key in keys:
        a, b = (tensors[name].shape for name in tensor_names(f"{key}.0"))
        sides.append((b[0], a[1]) if key.endswith(".down_proj") else (a[1], b[0]))
    layer = _PREFIX + _LAYER.match(module)[0]  # type: ignore[index]
    widths = {
        stored.shape[-1]
        for name, stored in tensors.items()
        if name.startswith(layer) and name.endswith(_READERS)
    }
    now, before = (len({*ends, *widths}) == 1 for ends in zip(*sides, strict=True))
    version = config.rest.get("peft_version")
    if now == before or not all(key.rpartition(".")[2] in IN_ORDER for key in keys):
        before = older(version, 0, 19)
    if before:
        raise LoraEvoError(
            f"the experts {keys[0]} are as PEFT up to 0.18 saves them, the transpose of what newer "
            f"versions do (peft_version is {version!r}); in that PEFT {MERGE}"
        )


def _checked_paths(config: AdapterConfig, tensors: Mapping[str, StoredTensor]) -> tuple[str, ...]:
    """Return the sorted module paths of these factors. Raises `LoraEvoError` for other tensors."""
    halves: dict[str, str] = {}
    for name, tensor in tensors.items():
        match, plain = _KEY.fullmatch(name), _KEY.fullmatch(_WRAPPER.sub("", name))
        # A model may have modules of such names itself: then no target matches the plain name.
        wrapped = match and plain and plain[0] != name and config.adapts(plain["path"])
        if match is None or wrapped:
            raise LoraEvoError(
                f"unexpected tensor {name}: only factors of linear layers can be read, called "
                f"{_PREFIX}<module>.lora_A.weight and .lora_B.weight as the model without wrappers "
                f"has them; {_SAVE_AGAIN}, {MERGE}"
            )
        if 0 in tensor.shape or tensor.dtype not in NUMBER_TYPES:
            raise LoraEvoError(
                f"{name} is {list(tensor.shape)} of {tensor.dtype}; expected values of one of "
                f"{', '.join(NUMBER_TYPES)}: gather shards (ZeRO-3), and save it unquantised"
            )
        halves[match["path"]] = halves.get(match["path"], "") + match["half"]
    if not halves:
        raise LoraEvoError(f"{WEIGHTS_FILE} holds no LoRA tensors; {_SAVE_AGAIN}")
    for path, present in halves.items():
        if len(present) == 1:
            raise LoraEvoError(f"half a pair: {path} has lora_{present} alone; {_SAVE_AGAIN}")
        a, b = tensor_names(path)
        check_pair(config, path, tensors[a].shape, tensors[b].shape)
    return tuple(sorted(halves))
