"""The right answers of rows, and where the marked final answer of a response is found."""

import time
from pathlib import Path

import pytest
from json_lines import read_rows

from evals import EvalsError, math_score
from evals.math import final_answers
from evals.math.final_answers import Gold, canonical_gold, extract
from evals.math.problems import question

RESPONSES = read_rows(Path(__file__).parent / "data" / "math_responses.jsonl")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("025", "25"), (27.0, "27"), ("+2", "2"), ("2,125", "2125"),
        (r"11,\! 111,\! 100", "11111100"), (r"\$18.90", "18.90"),
        (r"$\frac{1}{2}$", r"\frac{1}{2}"), ("np.arcsin(10/13)", r"\arcsin(10/13)"),
        (r"$t(0,4]$", "(0,4]"), (r"$(0,1)$.", "(0,1)"), ("(312,123,231)", "(312,123,231)"),
        ("-1,200", "-1200"), ("$1,200.50", "1200.50"), ("3,000 people", "3000 people"),
        ("1,200\\%", "1200\\%"), ("1,234 and 5", "1,234 and 5"), ("1,234 x", "1,234 x"),
        ("1,200 m/s", "1200 m/s"), (r"1,200\text{ m}^2", r"1200\text{ m}^2"),
        ("41352,42351", "41352,42351"), ("1,3,5", "1,3,5"), ("4.5e33", "4.5e33"),
    ],
)  # fmt: skip
def test_the_text_of_a_row_is_brought_into_one_form(raw, text):
    assert canonical_gold(raw).text == text


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        ("12 cm", (r"12\text{ cm}", "12", "0.12 m"), ("12 km", "12 m")),
        ("3 m/s", (r"3\ \mathrm{m/s}", "3"), ("3 m", "3 km/h")),
        ("7 pm", ("7", "19:00"), ("7 am",)),
        ("1,200 km", ("1200", "1200000 m"), ("1,200 cm",)),
        ("2 ab", ("2ba",), ("2",)),
        ("12cm", ("12cm",), ("12km",)),  # a product of two variables
    ],
)
def test_a_right_answer_may_have_a_unit_in_plain_spelling(gold, right, wrong):
    texts = [f"\\boxed{{{text}}}" for text in (*right, *wrong)]
    scores = [math_score("", text, gold) for text in texts]
    assert scores == [1.0] * len(right) + [0.0] * len(wrong)


def test_words_letters_and_units_have_kinds():
    assert canonical_gold(r"\text{east}") == Gold("east", "text")
    assert canonical_gold(r"\text{(C)}") == Gold("C", "choice")
    assert canonical_gold("45", unit="minute").unit == "min"
    assert canonical_gold(r"\$45").unit == "dollar"
    assert canonical_gold("8", "What percentage of them sing?").unit == "percent"
    assert canonical_gold("90", "He ran an hour. How many minutes is that?").unit == "min"
    assert canonical_gold("90", "How many minutes? How many hours? In all?").unit == ""
    assert canonical_gold("2e27", "Give it in centimeters.").unit == "cm"
    assert canonical_gold("1.6", r"How wide is it (in $\mathrm{cm}$ )?").unit == "cm"
    assert canonical_gold("1.6", r"Answer in $\mathrm{cm}^2$.").unit == "cm^2"
    assert canonical_gold("1.6", r"Answer in $\mathrm{~kJ} / \mathrm{mole}$.").unit == "kJ"
    assert canonical_gold("1.6", "What is it in degrees Celsius?").unit == "celsius"
    assert canonical_gold("8", "A tax of 5 percent is paid. What is left?").unit == ""


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("gsm8k", {"question": "?", "answer": "seven"}, "ends in #### 18"),
        ("minerva_math", {"idx": 0, "problem": "?", "solution": "7"}, "boxed"),
        ("olympiadbench", {"id": 1, "question": "?", "final_answer": []}, "list with one text"),
    ],
)
def test_a_wrong_row_is_an_error_of_one_line(name, row, message):
    with pytest.raises(EvalsError, match=message.replace("(", r"\(")) as caught:
        question(name, row, 1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("row", RESPONSES, ids=lambda row: row["rule"])
def test_the_marked_answer_is_found(row):
    extraction = extract(row["response"])
    assert (extraction.text, extraction.rule) == (row["text"], row["rule"])


UNITS = [".\n", "* \n", "---\n", "```\n", "| | |\n", "\n", " ", "\t\u3000", "\\ ", "\\,", "\n## "]
UNITS += ["~", "\\quad", "$ ", "\\\u3000", "1", "_", "*", "\n%", "$5", "5 ", "\nQ: ", "<<", "-"]
UNITS += ["answer\n", "\\boxed{", "\\boxed{5}", "\\[ ", "(", "and, ", "the answer is ", "*answer*"]
BEFORE = ("The answer", r"\boxed{", "#### 5", "\nQ", "$5")
AFTER = ("", "x", "$", "}x", "\nQ: 5", " answer is 5")


@pytest.mark.parametrize("before", BEFORE)
def test_repetitions_take_linear_time(before, monkeypatch):
    monkeypatch.setattr(final_answers, "TAIL", 10**6)
    monkeypatch.setattr(final_answers, "MAX_BOX", 10**6)
    for number, unit in enumerate(UNITS):
        text = before + unit * (25_000 // len(unit)) + AFTER[number % len(AFTER)]
        begin = time.process_time()
        math_score("", text, "5")
        assert time.process_time() - begin < 1, (unit, text[-9:])  # takes 0.01, a square of it 4
