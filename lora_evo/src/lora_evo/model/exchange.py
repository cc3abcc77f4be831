"""Adapters between PEFT directories and a stack: named, loaded, checked, put on and copied out."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch

from lora_evo import Adapter, AdapterConfig, Slot, load_adapter
from lora_evo.errors import LoraEvoError
from lora_evo.model.base_model import BaseModel, linear_shapes, same_base
from lora_evo.model.stacked_lora import StackedAdapters, put_on

Shapes: TypeAlias = Mapping[str, tuple[int, int]]
"""(inputs, outputs) of a base's linear layers by path."""
_BASE_NAME = "base"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")


def name_adapters(specs: Sequence[str]) -> dict[str, Path]:
    """Return names and folders from `NAME=DIR` or `DIR` (then the folder's name).

    Raises LoraEvoError for a folder that is not there, and for a name that is used twice, is
    `base`, or could not be the name of a folder.
    """
    named: dict[str, Path] = {}
    for spec in specs:
        name, sign, rest = spec.partition("=")
        folder = Path(rest) if sign and not Path(spec).is_dir() else Path(spec)
        if folder == Path(spec):
            name = folder.resolve().name
        if not folder.is_dir():
            raise LoraEvoError(f"there is no adapter folder {folder}; expected a PEFT adapter")
        if not _NAME.fullmatch(name) or name == _BASE_NAME:
            raise LoraEvoError(
                f"{name!r} cannot be an adapter's name (letters, digits, . _ @ -, and not "
                f"{_BASE_NAME!r}); name it with --adapter NAME={folder}"
            )
        if name in named:
            raise LoraEvoError(f"two adapters are called {name!r}; name one with NAME={folder}")
        named[name] = folder
    return named


def members_of(run: Path) -> tuple[dict[str, Path], str]:
    """Return the living members of a selfplay run by name, and the base model that they name.

    Raises LoraEvoError for a folder that is no run, and for members of different bases.
    """
    folders = [path.parent for path in (run / "members").glob("*/adapter_config.json")]
    gone = _replaced(run)
    folders = [f for f in folders if not f.name.startswith(".") and f.name not in gone]
    if not folders:
        raise LoraEvoError(
            f"{run} holds no members/*/adapter_config.json; expected the directory of a run that "
            "`selfplay train` made"
        )
    folders.sort(key=lambda f: (f.name[0], int(f.name[1:]) if f.name[1:].isdigit() else 0, f.name))
    bases = {load_adapter(folder).config.base_model_name_or_path for folder in folders}
    (base, *others) = sorted(str(name) for name in bases)
    if others:
        raise LoraEvoError(f"the members of {run} name different base models: {base}, {others[0]}")
    return {folder.name: folder for folder in folders}, base


def _replaced(run: Path) -> set[str]:
    """Return the members that a child has replaced, by the log of the run's league."""
    record = run / "league" / "events.jsonl"
    names = set()
    for line in record.read_text(encoding="utf-8").splitlines() if record.is_file() else ():
        try:
            event = json.loads(line)
        except ValueError:  # the last line of a run that was killed
            break
        if event.get("event") == "member_replaced":
            names.add(str(event.get("member")))
    return names


def check_fits(base: BaseModel, adapter: Adapter, folder: str, any_base: bool) -> None:
    """The adapter names this base and has factors of the right shape for all that it targets."""
    config = adapter.config
    named = config.base_model_name_or_path
    if named and not any_base and not same_base(named, base.name):
        raise LoraEvoError(
            f"{folder} is an adapter of the base model {named!r}, not of {base.name!r}; "
            "name the right --model, or accept it with --any-base"
        )
    shapes = linear_shapes(base.model)
    check_shapes(folder, adapter, shapes, base.name)
    if config.target_modules == "all-linear" or config.rest.get("layers_to_transform"):
        return  # what they leave out looks like what is lost
    targets = {path for path in shapes if config.targets(path)}
    odd = sorted(targets ^ adapter.slots.keys())
    if odd:
        raise LoraEvoError(
            f"{folder} is of another base model, or damaged: it has factors for "
            f"{len(adapter.slots)} modules, its configuration targets {len(targets)} of "
            f"{base.name}; they differ in {odd[0]}"
        )


def check_shapes(who: str, adapter: Adapter, shapes: Shapes, base: str) -> None:
    """Raise LoraEvoError for factors that fit no linear layer of the base."""
    for path, slot in adapter.slots.items():
        if path not in shapes:
            raise LoraEvoError(
                f"{who} is of another base model: {base} has no linear module {path}"
            )
        found = (slot.A.shape[1], slot.B.shape[0])
        if found != shapes[path]:
            raise LoraEvoError(
                f"{who} is of another base model: its factors of {path} map {found[0]} to "
                f"{found[1]} features, {base} has {shapes[path][0]} to {shapes[path][1]} there"
            )


@torch.no_grad()
def stack_saved(model: Any, saved: Mapping[str, Adapter]) -> StackedAdapters:
    """Put saved adapters on the layers of a model that any of them has factors for, in place.

    Ranks, scales and modules may differ: shorter factors are filled up with zeros, and an adapter
    leaves alone what it has no factors for.
    """
    paths = dict.fromkeys(path for adapter in saved.values() for path in adapter.slots)
    linears = {path: model.get_submodule(path) for path in paths}
    r = max((slot.rank for a in saved.values() for slot in a.slots.values()), default=1)
    adapters = put_on(model, linears, list(saved), r, float(r))
    for member, adapter in enumerate(saved.values()):
        fill_member(adapters, member, adapter)
    return adapters


@torch.no_grad()
def fill_member(adapters: StackedAdapters, member: int, adapter: Adapter) -> None:
    """Copy an adapter, whose rank and modules may be less than the stack's, into a place."""
    for path, layer in adapters.layers.items():
        layer.lora_A[member].zero_()
        layer.lora_B[member].zero_()
        if path in adapter.slots:
            slot = adapter.slots[path]
            layer.lora_A[member][: slot.rank].copy_(slot.A)
            layer.lora_B[member][:, : slot.rank].copy_(slot.B)
            layer.scales[member] = slot.scale


def export_adapter(adapters: StackedAdapters, member: int, base_model: str | None) -> Adapter:
    """Copy a member out, on the CPU; `base_model` is the name PEFT will look the base up by."""
    config = AdapterConfig.new(
        r=adapters.r,
        lora_alpha=adapters.lora_alpha,
        target_modules=sorted({path.rpartition(".")[2] for path in adapters.layers}),
        base_model_name_or_path=base_model,
    )
    slots = {
        path: Slot(
            layer.lora_A[member].detach().to("cpu", copy=True),
            layer.lora_B[member].detach().to("cpu", copy=True),
            layer.scales[member],
        )
        for path, layer in adapters.layers.items()
    }
    return Adapter(config, slots)


@torch.no_grad()
def import_adapter(adapters: StackedAdapters, member: int, adapter: Adapter) -> None:
    """Copy an adapter of the same base, modules and rank into a member's place.

    The stack keeps its own scale; where the adapter's differs, the quotient goes into B, so that
    the update scale * B A stays the same. Raises LoraEvoError, and changes nothing, on a misfit.
    """
    ours, theirs = set(adapters.layers), set(adapter.slots)
    if ours != theirs:
        odd = sorted(ours ^ theirs)
        raise LoraEvoError(
            f"the adapter covers {len(theirs)} modules, the stack {len(ours)}; they differ in "
            f"{odd[0]}" + (f" and {len(odd) - 1} more" if len(odd) > 1 else "")
        )
    for path, layer in adapters.layers.items():
        slot = adapter.slots[path]
        for name, found, here in (("A", slot.A, layer.lora_A[0]), ("B", slot.B, layer.lora_B[0])):
            if found.shape != here.shape:
                raise LoraEvoError(
                    f"lora_{name} of {path} is {list(found.shape)}, expected {list(here.shape)}: "
                    "another rank or another base model"
                )
    for path, layer in adapters.layers.items():
        slot = adapter.slots[path]
        layer.lora_A[member].copy_(slot.A)
        factor = slot.scale / layer.scales[member]
        layer.lora_B[member].copy_(slot.B if factor == 1.0 else slot.B.float() * factor)


@torch.no_grad()
def merge_adapter(model: Any, adapter: Adapter) -> None:
    """Add the update scale * B A of an adapter to the dense weights of a model, in place."""
    for path, slot in adapter.slots.items():
        weight = model.get_submodule(path).weight
        update = slot.scale * (slot.B.float() @ slot.A.float())
        weight.copy_((weight.float() + update).to(weight.dtype))
