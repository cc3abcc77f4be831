"""Small adapters, made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from lora_evo import Adapter, AdapterConfig, Slot, save_adapter

if find_spec("transformers"):
    from tiny_models import adapter_folders, engine, make_model, model_folder
    from tiny_models import make_adapter as make_saved_adapter
    from tiny_stack import tiny

    __all__ = [
        "adapter_folders", "engine", "make_model", "make_saved_adapter", "model_folder", "tiny",
    ]  # fmt: skip
else:  # what opens a base model needs the extra `model`
    collect_ignore = [
        file.name
        for file in Path(__file__).parent.glob("test_*.py")
        if "lora_evo.model" in file.read_text(encoding="utf-8")
    ]

MakeAdapter = Callable[..., Adapter]


def build_adapter(
    seed: int = 0,
    *,
    r: int = 4,
    alpha: float = 8,
    inputs: int = 24,
    outputs: int = 32,
    layers: int = 2,
    dtype: torch.dtype = torch.float32,
    zero: bool = False,
    base: str = "tiny",
    rank_pattern: dict[str, int] | None = None,
    alpha_pattern: dict[str, float] | None = None,
    use_rslora: bool = False,
) -> Adapter:
    """An adapter with LoRA's usual look: A at its initial scale, B small with decaying columns."""
    config = AdapterConfig.new(
        r=r,
        lora_alpha=alpha,
        target_modules=["q_proj", "v_proj"],
        base_model_name_or_path=base,
        rank_pattern=rank_pattern,
        alpha_pattern=alpha_pattern,
        use_rslora=use_rslora,
    )
    noise = torch.Generator().manual_seed(seed)
    slots = {}
    for layer in range(layers):
        for name in ("q_proj", "v_proj"):
            path = f"model.layers.{layer}.self_attn.{name}"
            rank = config.rank(path)
            a = (torch.rand(rank, inputs, generator=noise) * 2 - 1) / inputs**0.5
            b = 0.02 * torch.randn(outputs, rank, generator=noise) / torch.arange(1, rank + 1)
            if zero:
                b = torch.zeros(outputs, rank)
            slots[path] = Slot(a.to(dtype), b.to(dtype), config.scale(path))
    return Adapter(config, slots)


@pytest.fixture(scope="session")
def make_adapter() -> MakeAdapter:
    return build_adapter


@pytest.fixture
def home(tmp_path: Path, make_adapter: MakeAdapter, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two adapters, p1 and p2, to work in."""
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        save_adapter(make_adapter(seed), tmp_path / f"p{seed}")
    return tmp_path
