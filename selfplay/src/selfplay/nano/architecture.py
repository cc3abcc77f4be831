"""The nano model: a Qwen2 of about a million parameters, and where the shipped weights live."""

from pathlib import Path

import torch
from transformers import (
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

WEIGHTS = Path(__file__).parent / "weights"
"""The directory of the shipped model: config, tokenizer, safetensors and card."""


def new_model(
    tokenizer: PreTrainedTokenizerFast, hidden_size: int, layers: int, seed: int
) -> Qwen2ForCausalLM:
    """Return a freshly initialised model; the same seed gives the same weights."""
    config = Qwen2Config(
        vocab_size=(len(tokenizer) + 15) // 16 * 16,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=hidden_size // 32,
        num_key_value_heads=max(1, hidden_size // 64),
        intermediate_size=hidden_size * 3,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config)


def load_nano(directory: Path = WEIGHTS) -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerFast]:
    """Return the nano model (float32, in evaluation mode) and its tokenizer."""
    model = Qwen2ForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(directory)
