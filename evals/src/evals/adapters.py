"""Adapters on a base model: named, checked against the base, attached, and checked again."""

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel

from evals.base_model import BaseModel, first_line, same_base
from evals.errors import EvalsError
from lora_evo import Adapter, LoraEvoError, content_hash, load_adapter

BASE = "base"
"""Name of the base model without an adapter, in tables and output folders."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")


def name_adapters(specs: Sequence[str]) -> dict[str, Path]:
    """Names and folders from `NAME=DIR` or `DIR` (then the folder's name).

    Raises EvalsError for a folder that is not there, and for a name that is used twice, is
    `base`, or could not be the name of a folder.
    """
    named: dict[str, Path] = {}
    for spec in specs:
        name, sign, rest = spec.partition("=")
        folder = Path(rest) if sign and not Path(spec).is_dir() else Path(spec)
        if folder == Path(spec):
            name = folder.resolve().name
        if not folder.is_dir():
            raise EvalsError(f"there is no adapter folder {folder}; expected a PEFT adapter")
        if not _NAME.fullmatch(name) or name == BASE:
            raise EvalsError(
                f"{name!r} cannot be an adapter's name (letters, digits, . _ @ -, and not "
                f"{BASE!r}); name it with --adapter NAME={folder}"
            )
        if name in named:
            raise EvalsError(f"two adapters are called {name!r}; name one with NAME={folder}")
        named[name] = folder
    return named


def attach(base: BaseModel, peft: Any, key: str, folder: Path, any_base: bool) -> tuple[Any, str]:
    """Put the adapter in `folder` on the base under PEFT's name `key`.

    peft: the PeftModel of the adapters before, or None. any_base: accept an adapter whose
    configuration names another base model. Returns the PeftModel and the adapter's content hash.
    Raises EvalsError when the adapter is damaged, belongs to another base, or did not take hold.
    """
    try:
        adapter = load_adapter(folder)
        digest = content_hash(folder)
    except LoraEvoError as error:
        raise EvalsError(str(error)) from error
    _check_base(base, adapter, folder, any_base)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of is checked below
            if peft is None:
                peft = PeftModel.from_pretrained(base.model, str(folder), adapter_name=key)
            else:
                peft.load_adapter(str(folder), adapter_name=key)
    except Exception as error:  # PEFT raises many kinds for a configuration it cannot use
        raise EvalsError(f"{folder}: PEFT cannot load it: {first_line(error)}") from error
    _check_attached(base, adapter, folder, key)
    peft.requires_grad_(False)
    peft.eval()
    return peft, digest


def _check_base(base: BaseModel, adapter: Adapter, folder: Path, any_base: bool) -> None:
    named = adapter.config.base_model_name_or_path
    if named and not any_base and not same_base(named, base.name):
        raise EvalsError(
            f"{folder} is an adapter of the base model {named!r}, not of {base.name!r}; "
            "name the right --model, or accept it with --any-base"
        )
    for path, slot in adapter.slots.items():
        linear = _linear(base.model, path)
        if linear is None:
            raise EvalsError(
                f"{folder} is of another base model: {base.name} has no linear module {path}"
            )
        found = (slot.A.shape[1], slot.B.shape[0])
        expected = (linear.in_features, linear.out_features)
        if found != expected:
            raise EvalsError(
                f"{folder} is of another base model: its factors of {path} map {found[0]} to "
                f"{found[1]} features, {base.name} has {expected[0]} to {expected[1]} there"
            )


def _linear(model: Any, path: str) -> Any:
    """The linear layer at `path`, also under an adapter; None when there is none."""
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return None
    module = getattr(module, "base_layer", module)
    return module if isinstance(module, torch.nn.Linear) else None


def _check_attached(base: BaseModel, adapter: Adapter, folder: Path, key: str) -> None:
    """Every factor of the file is on its module with its values, and no module got others.

    An adapter that silently does not take hold is evaluated as the base model.
    """
    attached = {
        path: module
        for path, module in base.model.named_modules()
        if key in getattr(module, "lora_A", ())
    }
    odd = sorted(attached.keys() ^ adapter.slots.keys())
    if odd:
        raise EvalsError(
            f"{folder} is of another base model, or damaged: it has factors for "
            f"{len(adapter.slots)} modules, its configuration targets {len(attached)} of "
            f"{base.name}; they differ in {odd[0]}"
        )
    for path, module in attached.items():
        slot = adapter.slots[path]
        for half, factor in (("lora_A", slot.A), ("lora_B", slot.B)):
            weight = getattr(module, half)[key].weight
            if not torch.equal(weight.detach().cpu(), factor.to(weight.dtype)):
                raise EvalsError(f"{folder}: {half} of {path} did not take hold in PEFT")
        if abs(module.scaling[key] - slot.scale) > 1e-6 * abs(slot.scale):
            raise EvalsError(
                f"{folder}: PEFT scales {path} by {module.scaling[key]}, the file says {slot.scale}"
            )
