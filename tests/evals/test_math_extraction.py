"""Where the final answer of a response is found, and what is ill-formed."""

import time

import pytest

from evals.math.extraction import extract


@pytest.mark.parametrize(
    ("response", "text", "rule"),
    [
        (r"So \boxed{7}.", "7", "box"),
        (r"\fbox{7}", "7", "box"),
        (r"$\boxed 7$", "7", "box"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}", "box"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}", "box"),
        (r"first \boxed{8}. But \boxed{7}", "7", "box"),
        (r"$x=\boxed{1}$ or $x=\boxed{-2}$", "1, -2", "boxes"),
        (r"\boxed{3}, \boxed{4} and \boxed{5}", "3, 4, 5", "boxes"),
        (r"<think>\boxed{1}</think> so 2 <answer>\boxed{2}</answer>", "2", "answer tag"),
        ("<answer>7</answer> and <answer>8</answer>", "8", "answer tag"),
        ("<answer>7", "7", "answer tag"),
        ("<answer>The total is 64.</answer>", "64", "answer tag"),
        ("reasoning\n#### 1,200 \n", "1,200", "####"),
        ("Final Answer: The final answer is $3x$. I hope it is correct.", "3x", "phrase"),
        ("The answer is 18. That is all.", "18", "phrase"),
        ("**Answer:** 18", "18", "phrase"),
        ("The answer is:\n\n$$x+1$$", "x+1", "phrase"),
        (r"\frac{9}{256}", r"\frac{9}{256}", "whole text"),
        ("Evelyn", "Evelyn", "whole text"),
        ("It costs 4.\nIn all she pays $5 + 3 = $8 every day.", "$8", "last number"),
        (r"We find that the root is \(x = 9\).", "x = 9", "last formula"),
        ("She is 45 miles from home after 4 hours of driving.", "45", "last number"),
        ("The values are **69** and **84**.", "69, 84", "bold"),
        ("He pays $91, saving $9.\n\nLet me know if this helps!", "$91", "last number"),
        ("So $f(x) = 2x$ for all $x$.", "f(x) = 2x", "last formula"),
        ("It takes a total of three bolts.", "three", "number in words"),
        ("The answer is 18.<|im_end|>\\n<|im_start|>user", "18", "phrase"),
        ('{"answer": 113, "unit": "min"}', "113", "field"),
        ("If Ann has 2 fewer than Bo, she has 25 - 2 = 23.", "23", "last number"),
        ("It will take 7 buses to carry 350 people.", "7", "last number"),
        ("A: 28.\n\nQ: How many?\nA: 5", "28", "phrase"),
        ("He is 9. This is because 3 of the 12 years count twice.", "9", "last number"),
        (r"In base 5: $\boxed{204}_5$", "204_{5}", "box"),
        (r"So $a=\boxed{6}$ and $b=\boxed{5}$.", "a = 6, b = 5", "boxes"),
        ("There are 3 roots: 1, 2 and 5.", "3: 1, 2 and 5", "last formula"),
        ("We get 4343 in base 6.", "4343 in base 6", "last number"),
        ("The minimum is 1 and the maximum is 5.", "1, 5", "last number"),
        ("All $x$ with $0 < x < 9$ except $x = 4$.", r"0 < x < 9, x \neq 4", "last formula"),
        ("We get d(6) = 1/3 and d(16) = 1.", "d(6) = 1/3, d(16) = 1", "last formula"),
        ("There are 8 rows of 5 stars.", "8", "last number"),
        ("265 is the value of $m+n$.", "265", "last number"),
        ("The roots are 1, 4 and 6, whose sum is 11.", "11", "last formula"),
        ("The answer would be 3 if it were so; it is not, so it is 4.", "4", "last formula"),
        ("9 * 7 = <<9*7=63>>63 pretzels.", "9 * 7 = 63 pretzels", "whole text"),
    ],
)
def test_the_answer_is_found(response: str, text: str, rule: str) -> None:
    found = extract(response)
    assert (found.text, found.rule) == (text, rule)


@pytest.mark.parametrize(
    ("response", "rule"),
    [
        ("", "empty"),
        (" \n", "empty"),
        (r"<think>it is \boxed{5}", "only thoughts"),
        (r"<think>it is \boxed{5}</think>  ", "only thoughts"),
        (r"\boxed{5} and then \boxed{6", "unterminated box"),
        (r"\boxed{5} and then \boxed{}", "empty box"),
        ("<answer> </answer>", "empty answer tag"),
        ("####", "nothing after ####"),
        ("Let me count them. In the first case x = 106, in which", "no answer"),
        ("I could not find it.\nSorry about that, it was too hard for me to see it.", "no answer"),
    ],
)
def test_there_is_no_answer(response: str, rule: str) -> None:
    found = extract(response)
    assert (found.text, found.rule) == (None, rule)


@pytest.mark.parametrize(
    "response",
    [
        "a" * 50_000_000 + r"\boxed{5}",
        "\\boxed{" * 20_000,
        "\\boxed{5}" * 20_000,
        "$" * 100_000,
        "the answer is " * 20_000,
        "1 " * 50_000,
        "\\[ " * 20_000,
        "(" * 100_000 + "=" * 100_000,
        " " * 1_000_000,
        "and, " * 100_000 + r"\boxed{5}",
        "5 after 3 to carry " * 5_000,
        "\nQ: the answer is 5" * 20_000,
        "<<" * 5_000 + ">" * 5_000,
        "a = 5, " * 20_000,
        "the least 3 and the largest 5 except i.e. " * 2_000,
        "{" * 10_000 + "\\choose" * 5_000,
    ],
)
def test_long_responses_take_linear_time(response: str) -> None:
    begin = time.process_time()
    extract(response)
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    "response",
    [
        "They meet 18 miles from A and 27 miles from B.",
        "He has 4 red chickens and 6 white chickens.",
    ],
)
def test_two_amounts_beside_each_other_are_no_answer(response: str) -> None:
    assert extract(response).rule == "words"


def test_an_answer_in_words_is_no_number() -> None:
    said = "After 6.25 turns, so she ends up facing east."
    assert extract(said).text == "6.25"
    assert extract(said, words=True).text == "she ends up facing east"
