"""Every word of an answer is read or makes it unreadable; golds that cannot be read are errors."""

import math
import zlib

import pytest
from math_golds import GOLDS, accepted_with_a_word, published

from evals import EvalsError, check_golds, math_reward, math_score
from evals.math.final_answers import Gold, extract
from evals.math.grader import check_gold, compare, grade
from evals.math.problems import question

PHRASES = ("is equal to 3.", "is therefore equal to $3$", "is given as 3", "comes out to 3.")


def test_every_published_gold_is_read():
    assert len(GOLDS) == 1_148
    for gold, _ in published():
        check_gold(gold)


def test_no_published_gold_of_a_tenth_is_what_a_word_makes_of_it():
    """tests/gates has all of them."""
    tenth = [(gold, raw) for gold, raw in published() if zlib.crc32(raw.encode()) % 10 == 0]
    assert len(tenth) > 100
    assert accepted_with_a_word(tenth) == []


@pytest.mark.parametrize("after", [" dozen", " squared", "/x", "^2", " or more", " [x]", " (mod)"])
def test_what_follows_a_formula_is_read_with_it(after):
    assert not grade(Gold("3"), f"The answer is $3${after}.").correct
    assert extract("The answer is $3$ apples. So it is.").text == r"3\text{ apples}"


@pytest.mark.parametrize("end", PHRASES)
def test_an_answer_is_found_after_phrases(end):
    assert math_score("", f"So the answer {end}", "3") == 1.0
    assert math_score("", f"So the answer {end}", "4") == 0.0


def test_an_unreadable_answer_says_what_was_not_read():
    assert compare(Gold("3"), "3 blargs")[:2] == (False, "unreadable: blargs")
    assert compare(Gold("3"), "3 dozen")[:2] == (False, "value")


@pytest.mark.parametrize(
    "gold",
    [{}, {"a": 1}, b"3", [None], [], True, math.inf, r"\frac{1", "(", "3 blargs", " ", "9" * 300],
)
def test_a_gold_that_cannot_be_read_is_an_error_in_a_benchmark(gold):
    rows = [{"id": 1, "problem": "?", "answer": "3"}, {"id": 2, "problem": "?", "answer": gold}]
    with pytest.raises(EvalsError, match="amc23, row 2: "):
        [question("amc23", row, number) for number, row in enumerate(rows, 1)]
    with pytest.warns(UserWarning, match="row 1 of the batch: the right answer .*1 of 2 rows"):
        assert math_reward([r"\boxed{3}"] * 2, answer=["3", gold]) == [1.0, 0.0]
    with pytest.warns(UserWarning, match="the right answer"):
        assert math_score("", r"\boxed{3}", gold) == 0.0
    (fault,) = check_golds([{"answer": "3"}, {"answer": gold}])
    assert fault[0] == 1
    assert "right answer" in fault[1]


UNREAD = [r"\max\{a,b\}", r"\sum_{k=1}^{n} k", r"\int_0^1 x dx", r"\gcd(a,b)", r"17 \bmod 5"]
UNREAD += [r"\overline{AB}", r"0.31\ldots", "a" * 5_000, ["3 blargs"]]
RESPELLED = {
    UNREAD[0]: r"\max \left\{ a, b\right\}",
    UNREAD[2]: r"\displaystyle\int_{0}^{1} x\,dx",
    UNREAD[6]: "0.31...",
}


@pytest.mark.filterwarnings("ignore:the right answer")
def test_a_gold_that_cannot_be_read_equals_its_own_text_in_rewards():
    texts = [gold[0] if isinstance(gold, list) else gold for gold in UNREAD]
    for gold, text in zip(UNREAD, texts, strict=True):
        assert math_score("", rf"\boxed{{{text}}}", gold) == 1.0
        assert math_score("", rf"\boxed{{{text}+1}}", gold) == 0.0
        assert math_score("", "no answer", gold) == 0.0
    for text, other in RESPELLED.items():
        assert math_score("", rf"So $\boxed{{{other}}}$.", text) == 1.0
    with pytest.warns(UserWarning, match="row 0 of the batch: .*9 of 10 rows") as caught:
        rewards = math_reward([r"\boxed{3}"] * 10, answer=[*UNREAD, "3"])
    assert len(caught) == 1
    assert rewards == [0.0] * 9 + [1.0]
    assert [place for place, _ in check_golds([*UNREAD, "3", None])] == [*range(9), 10]


def test_a_row_without_a_gold_has_no_reward():
    assert math_reward([r"\boxed{3}"] * 3, answer=[None, "", math.nan]) == [None] * 3


def test_a_list_of_golds_asks_for_all_of_them():
    assert math_reward([r"\boxed{2}"] * 2, final_answer=[["2"], ["2", "3"]]) == [1.0, 0.0]
    assert math_reward([r"\boxed{3, 2}"], final_answer=[["2", "3"]]) == [1.0]
    with pytest.warns(UserWarning, match="right answer is None"):
        assert math_score("", r"\boxed{None}", None) == 0.0
    row = {"id": 1, "question": "?", "final_answer": ["2", "3"]}
    gold = question("olympiadbench", row, 1).problem
    assert grade(gold, r"\boxed{3 \text{ and } 2}").correct
