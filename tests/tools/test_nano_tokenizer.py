"""The nano model's tokenizer, which loses nothing."""

import re
from random import Random
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from nano_corpus import ROLES, example
from nano_tokenizer import VOCABULARY, train_tokenizer
from selfplay.tasks.held_out import DATA
from selfplay.tasks.nano import END, SPECIAL_TOKENS

WEIGHTS = DATA / "nano"
DIGIT = re.compile(r"\d")
IDIOMS = ("[0]", "[-1]", "[1:]", "[:-1]", "[::-1]")
"""Subscripts that may be one token though they hold a digit; no longer number ever is."""


@pytest.fixture(scope="module")
def texts(labelled):
    rng = Random("texts")
    drawn = [example(role, row, rng.choice(labelled), rng) for row in labelled for role in ROLES]
    return [e.prompt + e.completion for e in drawn]


@pytest.fixture(scope="module")
def tokenizer(texts):
    return train_tokenizer(texts)


@pytest.fixture(scope="module")
def shipped():
    return AutoTokenizer.from_pretrained(WEIGHTS)


@pytest.fixture(params=["tokenizer", "shipped"])
def either(request):
    """A newly trained tokenizer, and that of the shipped model."""
    return request.getfixturevalue(request.param)


def test_the_vocabulary_has_its_size_and_the_special_tokens_come_first(either):
    assert len(either) == VOCABULARY
    assert either.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == list(range(len(SPECIAL_TOKENS)))
    assert either.eos_token == END


def test_digits_stand_alone_and_programs_get_short(either, texts):
    for text in ("1234567890", "[12, 345]", "a1b22", "x = 99\n", "-10", "b=12;", *texts[:50]):
        pieces = either.convert_ids_to_tokens(either.encode(text))
        assert all(len(p) == 1 or p in IDIOMS or not DIGIT.search(p) for p in pieces)
    assert sum(len(either.encode(t)) for t in texts) < 0.6 * sum(map(len, texts))


def lossless(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    decoded = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    assert decoded == text


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
PIECES = "return |\n    | + |len(|def f(|):|, | in |for|if|[::-1]|a|b|12|'e'| |  |add|adder|max "
PIECES += "|é|e\u0301|ﬁ|你|🙂"
CODE = st.lists(st.sampled_from((*PIECES.split("|"), *SPECIAL_TOKENS)), max_size=20).map("".join)


@settings(max_examples=150)
@given(text=TEXTS | CODE)
def test_what_is_encoded_is_decoded(tokenizer, shipped, text):
    lossless(tokenizer, text)
    lossless(shipped, normalize("NFC", text))
