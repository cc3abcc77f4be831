"""The right answers of rows, and where the marked final answer of a response is found."""

import time

import pytest

from evals import EvalsError, math_score
from evals.math import answers
from evals.math.answers import Gold, canonical_gold, extract
from evals.math.problems import questions


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("025", "25"),
        (27.0, "27"),
        ("+2", "2"),
        ("2,125", "2125"),
        (r"11,\! 111,\! 100", "11111100"),
        (r"\$18.90", "18.90"),
        (r"$\frac{1}{2}$", r"\frac{1}{2}"),
        ("np.arcsin(10/13)", r"\arcsin(10/13)"),
        (r"$t(0,4]$", "(0,4]"),
        (r"$(0,1)$.", "(0,1)"),
        ("(312,123,231)", "(312,123,231)"),
        ("41352,42351", "41352,42351"),
        ("1,3,5", "1,3,5"),
        ("4.5e33", "4.5e33"),
    ],
)
def test_the_text_of_a_row_is_brought_into_one_form(raw: object, text: str) -> None:
    assert canonical_gold(raw).text == text


def test_words_letters_and_units_have_kinds() -> None:
    assert canonical_gold(r"\text{east}") == Gold("east", "text")
    assert canonical_gold(r"\text{(C)}") == Gold("C", "choice")
    assert canonical_gold("45", unit="minute").unit == "min"
    assert canonical_gold("45", unit=r"$^\circ$").unit == "degree"
    assert canonical_gold(r"\$45").unit == "dollar"
    assert canonical_gold("8", "What percentage of them sing?").unit == "percent"
    assert canonical_gold("90", "He ran an hour. How many minutes is that?").unit == "min"
    assert canonical_gold("90", "How many minutes? How many hours? In all?").unit == ""
    assert canonical_gold("2e27", "Give it in centimeters.").unit == "cm"
    assert canonical_gold("1.6", r"How wide is it (in $\mathrm{cm}$ )?").unit == "cm"
    assert canonical_gold("1.6", r"Answer in $\mathrm{cm}^2$.").unit == ""
    assert canonical_gold("1.6", r"Answer in $\mathrm{~kJ} / \mathrm{mole}$.").unit == "kj"
    assert canonical_gold("1.6", "What is it in degrees Celsius?").unit == "celsius"
    assert canonical_gold("8", "A tax of 5 percent is paid. What is left?").unit == ""


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("gsm8k", [{"answer": "#### 7"}], "row 1: no problem or question"),
        ("gsm8k", [{"question": "?", "answer": "seven"}], "ends in #### 18"),
        ("amc23", [{"problem": "?", "answer": 7.0}], "no id"),
        ("minerva_math", [{"idx": 0, "problem": "?", "solution": "7"}], "boxed"),
        ("olympiadbench", [{"id": 1, "question": "?", "final_answer": []}], "list with one text"),
    ],
)
def test_a_wrong_row_is_an_error_of_one_line(name: str, rows: list[object], message: str) -> None:
    with pytest.raises(EvalsError, match=message.replace("(", r"\(")) as caught:
        questions(name, rows)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("response", "text", "rule"),
    [
        (r"So \boxed{7}.", "7", "box"),
        (r"\fbox{7}", "7", "box"),
        (r"$\boxed 7$", "7", "box"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}", "box"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}", "box"),
        (r"first \boxed{8}. But \boxed{7}", "7", "box"),
        (r"In base 5: $\boxed{204}_5$", "204_{5}", "box"),
        (r"\boxed{3}, \boxed{4}, \boxed{5}", "3 ,  4 ,  5", "boxes"),
        (r"$x=\boxed{1}$ or $x=\boxed{-2}$", "1  or x= -2", "boxes"),
        (r"\boxed{3} apples. So it is \boxed{4}", "4", "box"),
        (r"<think>\boxed{1}</think> so 2 <answer>\boxed{2}</answer>", "2", "answer tag"),
        ("<answer>7</answer> and <answer>8</answer>", "8", "answer tag"),
        ("<answer>7", "7", "answer tag"),
        ("<answer>The answer is 64 dollars.</answer>", "64 dollars", "answer tag"),
        ("reasoning\n#### 1,200 \n", "1,200", "####"),
        ("9 * 7 = <<9*7=63>>63\n#### 63", "63", "####"),
        ("Final Answer: The final answer is $3x$. I hope it is correct.", "3x", "phrase"),
        ("The answer is 18. That is all.", "18", "phrase"),
        ("The answer is 18, since 9 is half of it.", "18", "phrase"),
        ("The answer is 28. The answer is 30, so I hope.", "30", "phrase"),
        ("The answer is 5. Check: the answer is correct.", "5", "phrase"),
        ("The answer would be 3 if it were so. The answer is 4.", "4", "phrase"),
        ("**Answer:** 18", "18", "phrase"),
        ("The answer is <b>18</b>.", "18", "phrase"),
        ("The answer is:\n\n$$x+1$$", "x+1", "phrase"),
        ("### Final Answer\n21", "21", "phrase"),
        ("Answer: $x<2$ or $x>3$", "x<2 or x>3", "phrase"),
        ("A: 28.\n\nQ: How many?\nA: 5", "28", "phrase"),
        (r"\frac{9}{256}", r"\frac{9}{256}", "whole text"),
        ("$x = 9$", "x = 9", "whole text"),
        ("18 red apples", "18 red apples", "whole text"),
        ("Evelyn", "Evelyn", "whole text"),
    ],
)
def test_the_marked_answer_is_found(response: str, text: str, rule: str) -> None:
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
        (r"\boxed{5} is \boxedly right", "unterminated box"),
        ("<answer> </answer>", "empty answer tag"),
        ("####", "nothing after ####"),
        ("She is 45 miles from home after 4 hours of driving.", "no answer"),
        ("The answer would be 5 if x were 2.", "no answer"),
        ("So the pen costs $75.", "no answer"),
        (r"We find that the root is \(x = 9\).", "no answer"),
        ("It costs 4.\nIn all she pays $5 + 3 = $8 every day.", "no answer"),
        ("The values are **69** and **84**.", "no answer"),
        ("So $f(x) = 2x$ for all $x$, which is what was to be found.\n\nLet me know!", "no answer"),
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
        "a" * 5_000_000 + r"\boxed{5}",
        "\\boxed{" * 20_000,
        "\\boxed{5}" * 20_000,
        "\\boxed{5} " + "{ }" * 50 + "\\boxed{5}",
        "$" * 100_000,
        "the answer is " * 20_000,
        "1 " * 50_000,
        "\\[ " * 20_000,
        "(" * 100_000 + "=" * 100_000,
        " " * 1_000_000,
        "and, " * 100_000 + r"\boxed{5}",
        "\nQ: the answer is 5" * 20_000,
        "\nQ: 5" * 20_000,
        "<<" * 5_000 + ">" * 5_000,
        "answer to the " * 2_000,
        "*answer*" * 3_000,
        "." * 20_000 + "answer",
    ],
)
def test_long_responses_take_linear_time(response: str) -> None:
    begin = time.process_time()
    extract(response)
    assert time.process_time() - begin < 5  # most take 0.1


UNITS = [".\n", "* \n", "---\n", "```\n", "| | |\n", "\n", " ", "\t\u3000", "\\ ", "\\,", "\n## "]
UNITS += ["~", "\\quad", "$ ", "\\\u3000", "1", "_", "*", "\n%", "$5", "5 ", "\nQ: ", "<<", "-"]
UNITS += ["answer\n"]
BEFORE = ("", "The answer", "Answer: ", r"\boxed{5}", r"\boxed{", "#### 5", "\nQ", "$5", "A")
AFTER = ("", "x", "$", "}x", "\nQ: 5", " answer is 5")


@pytest.mark.parametrize("before", BEFORE)
def test_repetitions_take_linear_time(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "TAIL", 10**6)
    monkeypatch.setattr(answers, "MAX_BOX", 10**6)
    for number, unit in enumerate(UNITS):
        text = before + unit * (40_000 // len(unit)) + AFTER[number % len(AFTER)]
        begin = time.process_time()
        math_score("", text, "5")
        assert time.process_time() - begin < 2, (unit, text[-9:])  # takes 0.02, a square of it 10
