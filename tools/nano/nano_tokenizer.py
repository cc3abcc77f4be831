"""The tokenizer of the nano model: byte-level BPE that never merges across parts of a statement.

The vocabulary is learned by BPE within such parts. Digits, identifiers and string letters stand
alone; the idioms of the nano language (a line break with its indentation and keyword, an operator
with its spaces, `[::-1]`) may become one token each. Any other text encodes byte by byte.
"""

from collections import Counter
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from selfplay.tasks.nano import END, PAD, SPECIAL_TOKENS

VOCABULARY = 432
_WORDS = (
    *("add", "sub", "mul", "mod", "div", "max", "min", "first", "last", "len", "sum", "count"),
    *("reverse", "tail", "init", "sort", "append", "prepend", "each", "where", "upper", "double"),
    *("if", "for", "while", "call", "list", "str", "range"),
)
PARTS = "|".join(
    (
        r"\n *(?:return |if |elif |else:|for |while |def )?",
        r"def |return |elif |else:| in | if | for | else | and | or |not ",
        r"(?:len|sum|max|min|sorted|range)\(",
        r"\.(?:upper\(\)|lower\(\)|append\(|count\()",
        r"\[::-1\]|\[1:\]|\[:-1\]|\[0\]|\[-1\]",
        r"(?:" + "|".join(_WORDS) + r")\b ?",
        r" [-+*/%<>=!]+ ",
        r"\?[01];|[a-z]=|[\]'];",
        r", |\):|\]:|\d|.",
    )
)


def train_tokenizer(
    texts: Iterable[str], parts: str = PARTS, vocabulary: int = VOCABULARY
) -> PreTrainedTokenizerFast:
    """Learn the vocabulary from texts and return a tokenizer that transformers and vLLM load.

    parts: pattern of what may become one token; vocabulary: most tokens.
    """
    corpus = list(texts)
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(parts), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learner.train_from_iterator(corpus, trainer)
    return with_whole_parts(learner, corpus)


def with_whole_parts(learner: Tokenizer, texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer that gives a part its learned token if it has one, else its bytes.

    transformers loads the tokenizer of any Qwen2 model with Qwen's own pre-tokenizer, whatever
    tokenizer.json says. Added tokens come before any pre-tokenizer; so every learned part becomes
    one, and no merges are left to disagree about.
    """
    decode = decoders.ByteLevel().decode
    counts = Counter(
        decode([piece])
        for text in texts
        for piece, _ in learner.pre_tokenizer.pre_tokenize_str(_without_special(text))
    )
    candidates = [part for part, _ in counts.most_common() if len(part) > 1]
    learned = {
        decode([token]): index
        for token, index in learner.get_vocab().items()
        if token not in SPECIAL_TOKENS
    }
    parts = {part: learned[part] for part in candidates if part in learned}
    # What BPE passed through on its way to a part is never used again; other parts get its place.
    spare = sorted(i for text, i in learned.items() if len(text) > 1 and text not in parts)
    additions = [part for part in candidates if part not in learned]
    parts |= dict(zip(additions, spare, strict=False))
    taken = set(parts.values())
    vocabulary = {t: i for t, i in learner.get_vocab().items() if i not in taken} | parts
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.add_tokens(
        [AddedToken(t, normalized=False, single_word=t.isalpha()) for t in sorted(parts)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=PAD,
        eos_token=END,
        additional_special_tokens=[t for t in SPECIAL_TOKENS if t not in (PAD, END)],
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )


def _without_special(text: str) -> str:
    for token in SPECIAL_TOKENS:
        text = text.replace(token, "\x00")
    return text
