"""Adapters in memory: a configuration and a pair of factors for each module; loaded and saved."""

import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeAlias

import torch
from safetensors.torch import load_file, save_file

from lora_evo.errors import LoraEvoError, pip_install
from lora_evo.files import appearing
from lora_evo.peft.card import CARD_FILE, model_card
from lora_evo.peft.config import AdapterConfig, check_pair, older
from lora_evo.peft.directory import (
    CONFIG_FILE,
    NUMBER_TYPES,
    WEIGHTS_FILE,
    AdapterFiles,
    PathLike,
    StoredTensor,
    adapter_files,
    combine,
    naming,
    tensor_names,
    write_tensors,
)
from lora_evo.peft.lineage import LINEAGE_FILE, Lineage, read_lineage
from lora_evo.peft.names import as_in

_EXPERT = re.compile(r"\.experts\.\d+\.")
"""In the name of a module of one expert."""
_NAMES = {getattr(torch, word): name for name, word in NUMBER_TYPES.items()}
Layout: TypeAlias = dict[str, list[tuple[str, tuple[int, ...]]]]
"""Type (safetensors' name) and shape of A and of B, by module path."""


@dataclass(frozen=True, eq=False, repr=False)
class Slot:
    """The factors of one linear layer; its update is `scale * B @ A` [out, in].

    - A: [r, in].
    - B: [out, r].
    """

    A: torch.Tensor
    B: torch.Tensor
    scale: float

    @property
    def rank(self) -> int:
        return int(self.A.shape[0])

    def __repr__(self) -> str:
        shape = f"{self.B.shape[0]} x {self.A.shape[1]}"
        return f"Slot({shape}, rank {self.rank}, scale {self.scale:g}, {self.A.dtype})"


@dataclass(frozen=True, eq=False, repr=False)
class Adapter:
    """A PEFT configuration with its slots. Raises `LoraEvoError` if they do not fit together.

    - slots: by module path without PEFT's prefix: `model.layers.0.self_attn.q_proj`.
    """

    config: AdapterConfig
    slots: Mapping[str, Slot]

    def __repr__(self) -> str:
        base, ranks = self.config.base_model_name_or_path, {s.rank for s in self.slots.values()}
        rank = " to ".join(map(str, sorted({min(ranks), max(ranks)})))
        return f"Adapter(rank {rank}, {len(self.slots)} modules, base {base!r})"

    def __post_init__(self) -> None:
        if not self.slots:
            raise LoraEvoError("the adapter has no slots: it would change no module")
        for path, slot in self.slots.items():
            check_pair(self.config, path, tuple(slot.A.shape), tuple(slot.B.shape))
            for name, dtype in (("A", slot.A.dtype), ("B", slot.B.dtype)):
                if dtype not in _NAMES:
                    raise LoraEvoError(
                        f"lora_{name} of {path} is {dtype}; expected one of {list(_NAMES)}"
                    )
            expected = self.config.scale(path)
            if not math.isclose(slot.scale, expected, rel_tol=1e-6):
                raise LoraEvoError(
                    f"the slot {path} has scale {slot.scale}; expected config.scale(path), which "
                    f"is {expected}"
                )

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self.slots))

    def slot(self, path: str) -> Slot:
        """Return the slot at `path`, after a check for NaN and infinity."""
        check_finite(path, self.slots[path])
        return self.slots[path]

    def renamed(self, names: Mapping[str, str]) -> "Adapter":
        """Return this adapter with new module names by old ones."""
        slots = {names[path]: slot for path, slot in self.slots.items()}
        same = slots.keys() == self.slots.keys()
        return self if same else Adapter(self.config.renamed(names), slots)

    @classmethod
    def from_peft(cls, model: Any, name: str = "default") -> "Adapter":
        """Return the adapter `name` of a live `peft.PeftModel`, or a transformers model with one.

        Either may be compiled. Needs peft. Raises `LoraEvoError`.
        """
        from peft import PeftModel, get_peft_model_state_dict

        model = getattr(model, "_orig_mod", model)
        names = list(getattr(model, "peft_config", ()))
        if name not in names:
            raise LoraEvoError(
                f"the model has no PEFT adapter {name!r}; it has: {', '.join(names) or 'none'}"
            )
        with TemporaryDirectory() as folder:
            home, options = Path(folder), {"save_embedding_layers": False}
            if isinstance(model, PeftModel):
                model.save_pretrained(folder, selected_adapters=[name], **options)
                home = Path(folder, "" if name == "default" else name)
                tensors = load_file(home / WEIGHTS_FILE)
            else:
                model.peft_config[name].save_pretrained(folder)
                state = get_peft_model_state_dict(model, adapter_name=name, **options)
                tensors = {f"base_model.model.{n}": t.contiguous() for n, t in state.items()}
            plain = {n.replace("._orig_mod.", "."): t for n, t in tensors.items()}
            save_file(plain, home / WEIGHTS_FILE)
            fields = json.loads((home / CONFIG_FILE).read_text(encoding="utf-8"))
            for field in ("rank_pattern", "alpha_pattern"):  # PEFT's file loses their order
                fields[field] = dict(getattr(model.peft_config[name], field) or {})
            (home / CONFIG_FILE).write_text(json.dumps(fields), encoding="utf-8")
            return load_adapter(home)

    def to_peft(self, model: Any, name: str = "default", *, is_trainable: bool = False) -> Any:
        """Return a `peft.PeftModel` with this adapter as `name`.

        `model` is the base model, which becomes part of the result, or a PeftModel, to which the
        adapter is added. Factors keep their dtype, or get PEFT's if they are trainable. Needs peft.
        Raises `LoraEvoError` if the name is taken or the model lacks a module.
        """
        from peft import PeftModel, __version__

        experts = self.config.wrappers(self.slots)
        if experts and older(__version__, 0, 19):
            raise LoraEvoError(f"experts need peft 0.19 or newer: {pip_install('peft>=0.19')}")
        if name in getattr(model, "peft_config", ()):
            raise LoraEvoError(
                f"the model has a PEFT adapter {name!r} already; call model.delete_adapter first"
            )
        wrapped = isinstance(model, PeftModel)
        base = model.get_base_model() if wrapped else model
        modules = {self.config.parameter(path) or path for path in self.slots} - experts.keys()
        modules |= {key.rpartition(".")[0] for key in experts}
        if missing := sorted(modules - {path for path, _ in base.named_modules()}):
            raise LoraEvoError(
                f"the model has no module {missing[0]} ({len(missing)} of {len(self.slots)} are "
                "missing); expected the adapter's own base model"
            )
        with TemporaryDirectory() as folder:
            home = Path(folder, "adapter")
            save_adapter(self, home)
            if wrapped:
                model.load_adapter(home, name, is_trainable=is_trainable)
            else:
                model = PeftModel.from_pretrained(model, home, name, is_trainable=is_trainable)
        for path, slot in self.slots.items() if not is_trainable else ():
            key = self.config.parameter(path)
            layer = model.get_base_model().get_submodule(experts[key] if key else path)
            for factor, weight in ((slot.A, layer.lora_A), (slot.B, layer.lora_B)):
                param = weight[name].weight
                values = param if key else factor.detach()  # a key's are those of all its experts
                param.data = values.to(param.device, factor.dtype, copy=True)
        return model


@dataclass(frozen=True)
class AdapterReader(AdapterFiles):
    """An adapter directory that is read slot by slot."""

    def slot(self, path: str) -> Slot:
        with naming(self.directory):
            factors = []
            for stored in map(self.tensors.__getitem__, tensor_names(path)):
                whole = (_read if stored.every == 1 else _shared)(stored.whole)
                factors.append(whole[..., stored.first :: stored.every].contiguous())
                stored.check_unchanged()
            slot = Slot(factors[0], factors[1], self.config.scale(path))
            check_finite(path, slot)
        return slot

    def renamed(self, names: Mapping[str, str]) -> Self:
        if set(names.values()) == set(self.paths):
            return self
        tensors = {
            new: self.tensors[old]
            for path in self.paths
            for old, new in zip(tensor_names(path), tensor_names(names[path]), strict=True)
        }
        config, paths = self.config.renamed(names), tuple(sorted(names.values()))
        return replace(self, config=config, paths=paths, tensors=tensors)


def _read(stored: StoredTensor) -> torch.Tensor:
    factor = torch.empty(stored.shape, dtype=getattr(torch, NUMBER_TYPES[stored.dtype]))
    with stored.file.open("rb") as file:
        file.seek(stored.start)
        file.readinto(_bytes_of(factor))
    return factor


_shared = lru_cache(maxsize=4)(_read)
"""Reads a B once for all experts that share it."""


def layout_of(parents: Sequence[AdapterReader], config: AdapterConfig) -> Layout:
    """Return the layout of a child with the ranks of `config`."""
    layout: Layout = {}
    first_of = {path: parent for parent in reversed(parents) for path in parent.paths}
    for path, parent in first_of.items():
        rank, (a, b) = config.rank(path), map(parent.tensors.__getitem__, tensor_names(path))
        layout[path] = [(a.dtype, (rank, a.shape[1])), (b.dtype, (b.shape[0], rank))]
    return layout


SlotSource: TypeAlias = Adapter | AdapterReader


def open_adapter(directory: PathLike) -> AdapterReader:
    """Return the reader of a PEFT LoRA directory. Raises `LoraEvoError` for what cannot be used."""
    return AdapterReader(**vars(adapter_files(directory)))


def load_adapter(directory: PathLike) -> Adapter:
    """Read a whole PEFT LoRA directory. Raises `LoraEvoError` for one that cannot be used.

    Example:

        >>> load_adapter("members/t0").config.r
        8
    """
    reader = open_adapter(directory)
    return Adapter(reader.config, {path: reader.slot(path) for path in reader.paths})


def save_adapter(
    adapter: Adapter,
    directory: PathLike,
    *,
    overwrite: bool = False,
    lineage: Lineage | None = None,
    results: Mapping[str, float] | None = None,
) -> None:
    """Write a PEFT LoRA directory atomically, with a model card that lists `results`.

    Refuses an existing directory unless `overwrite`, which keeps its other files, such as
    lineage.json.

    Example:

        >>> child = mutate(load_adapter("members/t0"), "svd_structured", seed=1)
        >>> save_adapter(child, "members/t2")
    """
    for path, slot in adapter.slots.items():
        check_finite(path, slot)
    layout: Layout = {
        path: [(_NAMES[factor.dtype], tuple(factor.shape)) for factor in (slot.A, slot.B)]
        for path, slot in adapter.slots.items()
    }
    with appearing(Path(directory), overwrite=overwrite) as draft:
        write_adapter(draft, adapter.config, layout, adapter.slots.items())
        if lineage is not None:
            (draft / LINEAGE_FILE).write_text(lineage.to_json(), encoding="utf-8")
        card = model_card(adapter.config, lineage or read_lineage(directory), results)
        (draft / CARD_FILE).write_text(card, encoding="utf-8")


def write_adapter(
    folder: Path, config: AdapterConfig, layout: Layout, slots: Iterable[tuple[str, Slot]]
) -> None:
    """Write configuration and weights into a new folder; slots: in any order."""
    folder.mkdir()
    (folder / CONFIG_FILE).write_text(config.to_json(), encoding="utf-8")
    wrappers, experts = config.wrappers(layout), Counter(map(config.parameter, layout))
    stored: dict[str, tuple[str, tuple[int, ...]]] = {}
    for path, pair in layout.items():
        if key := config.parameter(path):
            (dtype, (rank, inputs)), (dtype_b, (outputs, _)) = pair
            rank *= experts[key]
            pair = [(dtype, (rank, inputs)), (dtype_b, (outputs, rank))]
        stored |= zip(tensor_names(wrappers[key] if key else path), pair, strict=True)

    def payloads() -> Iterator[tuple[str, memoryview]]:
        waiting: dict[str, dict[int, Slot]] = defaultdict(dict)
        for path, slot in slots:
            names, pair = tensor_names(path), (slot.A, slot.B)
            if key := config.parameter(path):
                waiting[key][int(path.rpartition(".")[2])] = slot
                if len(waiting[key]) < experts[key]:
                    continue
                if max(waiting[key]) >= experts[key]:
                    raise LoraEvoError(f"there is no slot for some of the experts of {key}")
                group = [expert for _, expert in sorted(waiting.pop(key).items())]
                ups = torch.stack([expert.B for expert in group], dim=2)  # [out, r, experts]
                pair = torch.cat([expert.A for expert in group]), ups.flatten(1)
                names = tensor_names(wrappers[key])
            yield from zip(names, map(_bytes_of, pair), strict=True)

    write_tensors(folder / WEIGHTS_FILE, stored, payloads())


def adapter_hash(adapter: Adapter) -> str:
    """Return the content hash of an adapter: the `content_hash` of its saved directory."""
    return combine(adapter.config, {path: slot_digest(s) for path, s in adapter.slots.items()})


def slot_digest(slot: Slot) -> str:
    """Return the SHA-256 of both factors of a slot: dtype, shape and bytes."""
    digest = hashlib.sha256()
    for factor in (slot.A, slot.B):
        digest.update(f"{factor.dtype}{list(factor.shape)}".encode())
        digest.update(_bytes_of(factor))
    return digest.hexdigest()


def check_finite(path: str, slot: Slot) -> None:
    """Raise `LoraEvoError`, naming the tensor, for NaN and infinity."""
    for name, factor in (("A", slot.A), ("B", slot.B)):
        values = factor.detach()
        narrow = torch.float32 if values.dtype == torch.float16 else None
        # A finite sum is enough. If it is not finite, it may also be large: check all values.
        is_finite = math.isfinite(values.sum(dtype=narrow))
        if bad := 0 if is_finite else int((~torch.isfinite(values)).sum()):
            raise LoraEvoError(
                f"lora_{name} of {path} holds {bad} NaN or infinite value(s); "
                "go back to a checkpoint from before training diverged"
            )


def check_comparable(
    named: Mapping[str, SlotSource], *, any_base: bool = False, any_modules: bool = False
) -> list[tuple[SlotSource, dict[str, str]]]:
    """Return adapters with the module names of the first, and their new names by old ones.

    named: adapters by their titles in errors. Raises `LoraEvoError` for other modules or base
    models than the first's. any_base: base models may differ; any_modules: modules may differ.
    """
    for field in () if any_base else ("base_model_name_or_path", "revision"):
        bases = [(title, source.config.to_dict().get(field)) for title, source in named.items()]
        (first, expected), *pairs = [pair for pair in bases if pair[1]] or [("", None)]
        for title, base in pairs:
            if base != expected:
                raise LoraEvoError(
                    f"{first} has {field} {expected!r}, {title} has {base!r}: choose adapters of "
                    f"one base, or, if both mean one, make {field} in adapter_config.json equal"
                )
    _check_experts(named)
    paths: list[str] = []
    sources: list[tuple[SlotSource, dict[str, str]]] = []
    for source in named.values():
        names = as_in(source.paths, paths or source.paths)
        sources.append((source.renamed(names), names))
        paths += names.values()
    (first, (one, _)), *tail = zip(named, sources, strict=True)
    for title, (other, _) in () if any_modules else tail:
        if odd := sorted(set(one.paths) ^ set(other.paths)):
            raise LoraEvoError(
                f"{first} and {title} have different modules: {odd[0]} and {len(odd) - 1} more are "
                "only in one; expected equal ones, or use merge, for which a missing module is 0"
            )
    return sources


def _check_experts(named: Mapping[str, SlotSource]) -> None:
    """Raise `LoraEvoError` if some adapters name experts as transformers 4 does, some as 5 does.

    There each expert is a module, and Mixtral's are in block_sparse_moe; here all are parameters,
    in mlp.
    """

    def titles(holds: Callable[[AdapterConfig, str], object]) -> list[str]:
        sources = named.items()
        return [title for title, s in sources if any(holds(s.config, path) for path in s.paths)]

    parameters = titles(lambda config, path: config.parameter(path))
    modules = titles(lambda config, path: not config.parameter(path) and _EXPERT.search(path))
    blocks = titles(lambda config, path: ".block_sparse_moe." in path)
    plain = titles(lambda config, path: ".mlp." in path)
    for old, new in ((modules, parameters), (blocks, sorted({*plain} - {*blocks}))):
        if old and new:
            raise LoraEvoError(
                f"{old[0]} names experts as transformers 4 does, {new[0]} as transformers 5: load "
                f"{old[0]} in PEFT with transformers 5, save it (save_pretrained), and take that"
            )


def _bytes_of(factor: torch.Tensor) -> memoryview:
    flat = factor.detach().cpu().contiguous().reshape(-1)
    payload: memoryview = flat.view(torch.uint8).numpy().data
    return payload
