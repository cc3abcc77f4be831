"""A tiny random Qwen2 whose byte-level tokenizer knows the nano markers, and adapters on it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from letter_model import letter_tokenizer
from small_models import small_model
from tokenizers import pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lora_evo import Adapter, AdapterConfig, Slot, save_adapter
from lora_evo.model import Engine, open_engine

SPECIAL = ("<|pad|>", "<|end|>", "<|solve_o|>", "<|input|>", "<|think|>", "<|answer|>")
TARGETS = ("q_proj", "v_proj", "down_proj")
Maker = Callable[..., Path]


def tokenizer_of_bytes() -> PreTrainedTokenizerFast:
    return letter_tokenizer(
        sorted(pre_tokenizers.ByteLevel.alphabet()),
        SPECIAL,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[1],
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )


def write_adapter(
    folder: Path, seed: int, hidden: int = 32, layers: int = 2, base: str | None = None
) -> Path:
    """Save a random adapter of rank 4 on three modules of every layer."""
    generator = torch.Generator().manual_seed(seed)
    config = AdapterConfig.new(
        r=4, lora_alpha=8, target_modules=TARGETS, base_model_name_or_path=base
    )
    shapes = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.v_proj": (hidden, hidden // 2),
        "mlp.down_proj": (2 * hidden, hidden),
    }
    slots = {}
    for layer in range(layers):
        for name, (inputs, outputs) in shapes.items():
            path = f"model.layers.{layer}.{name}"
            a = torch.randn(4, inputs, generator=generator) * 0.3
            b = torch.randn(outputs, 4, generator=generator) * 0.3
            slots[path] = Slot(a, b, config.scale(path))
    save_adapter(Adapter(config, slots), folder)
    return folder


@pytest.fixture(scope="session")
def make_adapter() -> Maker:
    return write_adapter


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model (float32) whose logits differ enough to have a clear arg max."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = tokenizer_of_bytes()
    model = small_model(
        vocab_size=len(tokenizer),
        intermediate_size=64,
        initializer_range=0.3,
        tie_word_embeddings=False,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def adapter_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("adapters")
    return {name: write_adapter(folder / name, seed) for name, seed in (("one", 1), ("two", 2))}


@pytest.fixture(scope="session")
def engine(model_folder: Path, adapter_folders: dict[str, Path]) -> Engine:
    torch.set_num_threads(1)
    return open_engine("hf", str(model_folder), adapter_folders, device="cpu")
