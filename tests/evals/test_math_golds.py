"""Golds are brought into one form once; wrong rows are told in one line."""

import pytest

from evals import EvalsError
from evals.math.golds import Gold, canonical_gold
from evals.math.problems import SCHEMAS, load_math


@pytest.mark.parametrize(
    ("raw", "text", "rule"),
    [
        ("025", "25", "leading zeros"),
        (27.0, "27", "float of a whole number"),
        ("4.5e33", r"4.5 \cdot 10^{33}", "e-notation"),
        ("1e-05", r"1 \cdot 10^{-5}", "e-notation"),
        ("np.arcsin(10/13)", r"\arcsin(10/13)", "numpy function"),
        ("-1./3", "-1/3", "point without decimals"),
        (".35", "0.35", "point without a whole number"),
        (r"\exp{a*t}", r"\exp(a*t)", "braces of a function"),
        ("2,125", "2125", "thousands separators"),
        (r"11,\! 111,\! 100", "11111100", "thousands separators"),
        (r"\$18.90", "18.90", "currency sign"),
        (r"$\frac{1}{2}$", r"\frac{1}{2}", "mathematics signs"),
        (r"$t(0,4]$", "(0,4]", "letter before an interval"),
        (r"$f(x)=a x$, where $a$ is whole", "f(x)=a x", "side remark"),
        ("62.5%", r"62.5\%", "percent sign"),
        ("+2", "2", "plus sign"),
        (r"$(0,1)$.", "(0,1)", "full stop"),
    ],
)
def test_a_rule_changes_the_text_and_is_named(raw: object, text: str, rule: str) -> None:
    gold = canonical_gold(raw)
    assert gold.text == text
    assert rule in gold.rules


@pytest.mark.parametrize("raw", ["(312,123,231)", "41352,42351", "1,3,5", r"\frac{3}{4}", "12"])
def test_plain_golds_stay(raw: str) -> None:
    assert canonical_gold(raw) == Gold(raw)


def test_words_letters_and_units_have_kinds() -> None:
    assert canonical_gold(r"\text{east}") == Gold("east", "text", rules=("words",))
    assert canonical_gold(r"\text{(C)}").kind == "choice"
    assert canonical_gold(r"15\mbox{ cm}^2").unit == "cm"
    assert canonical_gold("45", unit="minute").unit == "min"
    assert canonical_gold("8", "What percentage of them sing?").unit == "percent"
    assert canonical_gold("90", "He ran an hour. How many minutes is that?").unit == "min"
    assert canonical_gold("90", "How many minutes? How many hours? In all?").unit == ""
    assert canonical_gold("2e27", "Give it in centimeters.").unit == "cm"
    assert canonical_gold("1.6", r"How wide is it (in $\mathrm{cm}$ )?").unit == "cm"
    assert canonical_gold("1.6", r"Answer in $\mathrm{cm}^2$.").unit == ""
    assert canonical_gold("1.6", r"Answer in $\mathrm{~kJ} / \mathrm{mole}$.").unit == "kj"
    assert canonical_gold("1.6", "What is it in degrees Celsius?").unit == "celsius"
    assert canonical_gold("8", "A tax of 5 percent is paid. What is left?").unit == ""


ROWS: dict[str, list[dict[str, object]]] = {
    "aime24": [{"id": 1, "problem": "How many?", "answer": "007"}],
    "aime25": [{"id": "I-1", "problem": "How many?", "answer": "7"}],
    "amc23": [{"id": 3, "problem": "How many?", "answer": 7.0}],
    "math500": [{"unique_id": "test/a/1.json", "problem": "How many?", "answer": "7", "level": 3}],
    "minerva_math": [{"idx": 0, "problem": "How many?", "solution": r"so \boxed{7}."}],
    "gsm8k": [{"question": "How many?", "answer": "3 + 4 = 7\n#### 7"}],
    "olympiadbench": [{"id": 9, "question": "How many?", "final_answer": ["$7$"], "unit": None}],
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_loads(name: str) -> None:
    (problem,) = load_math(name, ROWS[name])
    assert problem.gold.text == "7"
    assert problem.question == "How many?"
    assert problem.level == (3 if name == "math500" else None)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("math50", [], "did you mean 'math500'"),
        ("gsm8k", [], "no rows"),
        ("gsm8k", [{"answer": "#### 7"}], "row 1: no question"),
        ("gsm8k", [{"question": "?", "answer": "seven"}], "ends in #### 18"),
        ("amc23", [{"problem": "?", "answer": 7.0}], "no id"),
        ("amc23", ROWS["amc23"] * 2, "id '3' stands in row 1 too"),
        ("minerva_math", [{"idx": 0, "problem": "?", "solution": "7"}], "boxed"),
        ("olympiadbench", [{"id": 1, "question": "?", "final_answer": []}], "list with one text"),
        ("olympiadbench", [["id"]], "found list, expected an object"),
    ],
)
def test_wrong_rows_are_told_in_one_line(name: str, rows: list[object], message: str) -> None:
    with pytest.raises(EvalsError, match=message.replace("(", r"\(")) as caught:
        load_math(name, rows)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
