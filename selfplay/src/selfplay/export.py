"""Members and the nano base as directories that PEFT, transformers and vLLM load by themselves."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from evals.atomic import appearing
from evals.engine.base_model import load_base_model, resolve
from lora_evo import LoraEvoError, load_adapter, save_adapter
from selfplay.errors import SelfplayError
from selfplay.run.directory import open_config


def export_nano(out: Path) -> None:
    """Write the built-in base model into a new directory: configuration, weights, tokenizer."""
    with _new_directory(out) as draft:
        shutil.copytree(resolve("nano"), draft, dirs_exist_ok=True)


def export_member(run: Path, member: str, out: Path, *, base: str | None, merge: bool) -> str:
    """Write a member of a run into a new directory and return the base that it names.

    Without `merge`: a PEFT adapter whose base model is `base`, or the run's (for nano the installed
    package's directory), so that PEFT finds it. With it: the base plus the member's update
    scale * B A, a plain model with its tokenizer, in the run's number type.
    """
    config = open_config(run)
    named = base or resolve(config.base)
    home = run / "members" / member
    try:
        adapter = load_adapter(home)
    except (LoraEvoError, OSError) as error:
        known = sorted(p.name for p in (run / "members").glob("*") if p.name[0] != ".")
        raise SelfplayError(
            f"{run} has no member {member!r} to export ({error}); it has {', '.join(known)}"
        ) from error
    with _new_directory(out) as draft:
        if not merge:
            save_adapter(
                replace(adapter, config=replace(adapter.config, base_model_name_or_path=named)),
                draft,
                overwrite=True,
            )
            return named
        loaded = load_base_model(named, torch.device("cpu"), config.dtype)
        model, tokenizer = loaded.model, loaded.tokenizer
        with torch.no_grad():
            for path, slot in adapter.slots.items():
                weight = model.get_submodule(path).weight
                update = slot.scale * (slot.B.float() @ slot.A.float())
                weight.copy_((weight.float() + update).to(weight.dtype))
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
    return named


@contextmanager
def _new_directory(out: Path) -> Iterator[Path]:
    """Yield a draft that takes the name `out` when the block ends well."""
    if out.exists():
        raise SelfplayError(f"{out} exists; choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with appearing(out) as draft:
        draft.mkdir()
        yield draft
