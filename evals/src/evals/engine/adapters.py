"""Saved adapters of a base model: named, loaded, and checked against the base."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from evals.engine.base_model import BaseModel, same_base
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


def members_of(run: Path) -> tuple[dict[str, Path], str]:
    """The living members of a selfplay run by name, and the base model that they name.

    Raises EvalsError for a folder that is no run, and for members of different bases.
    """
    folders = [path.parent for path in (run / "members").glob("*/adapter_config.json")]
    gone = _replaced(run)
    folders = [f for f in folders if not f.name.startswith(".") and f.name not in gone]
    if not folders:
        raise EvalsError(
            f"{run} holds no members/*/adapter_config.json; expected the directory of a run that "
            "`selfplay train` made"
        )
    folders.sort(key=lambda f: (f.name[0], int(f.name[1:]) if f.name[1:].isdigit() else 0, f.name))
    try:
        bases = {load_adapter(folder).config.base_model_name_or_path for folder in folders}
    except LoraEvoError as error:
        raise EvalsError(str(error)) from error
    (base, *others) = sorted(str(name) for name in bases)
    if others:
        raise EvalsError(f"the members of {run} name different base models: {base}, {others[0]}")
    return {folder.name: folder for folder in folders}, base


def _replaced(run: Path) -> set[str]:
    """Members that gave way to a child, by the record of the run's league; none without one."""
    record = run / "league" / "events.jsonl"
    names = set()
    for line in record.read_text(encoding="utf-8").splitlines() if record.is_file() else ():
        try:
            event = json.loads(line)
        except ValueError:  # the last line of a run that was killed
            break
        if isinstance(event, dict) and event.get("event") == "member_replaced":
            names.add(str(event.get("member")))
    return names


@dataclass(frozen=True)
class SavedAdapters:
    """Adapters as they were saved, all fitting one base."""

    adapters: dict[str, Adapter]
    hashes: dict[str, str]
    """Content hash of each."""
    linears: dict[str, torch.nn.Linear]
    """The layers of the base, by path, that any of them has factors for."""


def load_saved(
    base: BaseModel, folders: Mapping[str, str | os.PathLike[str]], any_base: bool
) -> SavedAdapters:
    """Load adapters and check them against the base, whose weights are not looked at.

    any_base: accept an adapter whose configuration names another base model. Raises EvalsError when
    one is damaged or belongs to another base.
    """
    found = SavedAdapters({}, {}, {})
    for name, folder in ((name, Path(place)) for name, place in folders.items()):
        try:
            found.adapters[name] = load_adapter(folder)
            found.hashes[name] = content_hash(folder)
        except LoraEvoError as error:
            raise EvalsError(str(error)) from error
        found.linears.update(_fitting(base, found.adapters[name], folder, any_base))
    return found


def is_zero(adapter: Adapter) -> bool:
    """Whether the adapter's update is 0 in every module, so that it says what the base says."""
    return not any(bool(slot.B.any()) and bool(slot.A.any()) for slot in adapter.slots.values())


def _fitting(
    base: BaseModel, adapter: Adapter, folder: Path, any_base: bool
) -> dict[str, torch.nn.Linear]:
    """The layers of the base that an adapter has factors for, all of the right shape."""
    named = adapter.config.base_model_name_or_path
    if named and not any_base and not same_base(named, base.name):
        raise EvalsError(
            f"{folder} is an adapter of the base model {named!r}, not of {base.name!r}; "
            "name the right --model, or accept it with --any-base"
        )
    linears = {path: m for path, m in base.model.named_modules() if isinstance(m, torch.nn.Linear)}
    for path, slot in adapter.slots.items():
        if path not in linears:
            raise EvalsError(
                f"{folder} is of another base model: {base.name} has no linear module {path}"
            )
        found = (slot.A.shape[1], slot.B.shape[0])
        expected = (linears[path].in_features, linears[path].out_features)
        if found != expected:
            raise EvalsError(
                f"{folder} is of another base model: its factors of {path} map {found[0]} to "
                f"{found[1]} features, {base.name} has {expected[0]} to {expected[1]} there"
            )
    _check_whole(base, adapter, folder, linears)
    return {path: linears[path] for path in adapter.slots}


def _check_whole(
    base: BaseModel, adapter: Adapter, folder: Path, linears: Mapping[str, torch.nn.Linear]
) -> None:
    """There are factors for every layer that the configuration targets."""
    config = adapter.config
    if config.target_modules == "all-linear" or config.rest.get("layers_to_transform"):
        return  # what they leave out cannot be told from what is lost
    targets = {path for path in linears if config.targets(path)}
    odd = sorted(targets ^ adapter.slots.keys())
    if odd:
        raise EvalsError(
            f"{folder} is of another base model, or damaged: it has factors for "
            f"{len(adapter.slots)} modules, its configuration targets {len(targets)} of "
            f"{base.name}; they differ in {odd[0]}"
        )
