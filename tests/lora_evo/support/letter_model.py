"""A random Qwen2 of two layers whose tokens are letters."""

import tokenizers
import transformers
from small_models import small_model


def letter_tokenizer(letters, special=(), start=False, **settings):
    """One token per letter; start: the first special token goes before every text.

    settings: of the tokenizer of transformers.
    """
    vocabulary = {token: number for number, token in enumerate([*special, *letters])}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(list(special))
    if start:
        inner.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{special[0]} $A", special_tokens=[(special[0], 0)]
        )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **settings)


def save_letter_model(folder, tokenizer):
    """Save a model, the same at every call, with its tokenizer, and return it."""
    model = small_model(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24, head_dim=8,
        max_position_embeddings=64, eos_token_id=None, pad_token_id=None, initializer_range=0.3,
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model
