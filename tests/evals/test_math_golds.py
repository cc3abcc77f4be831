"""Golds are brought into one form once; a wrong row is an error of one line."""

import pytest

from evals import EvalsError
from evals.math.benchmark import DESCRIPTIONS, questions
from evals.math.golds import Gold, canonical_gold
from evals.math.grader import compare


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


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        ("1e-05", "0.00001"),
        ("-1./3", r"-\frac{1}{3}"),
        (".35", "0.35"),
        (r"\exp{a*t}", "e^{at}"),
        ("np.arcsin(10/13)", r"\sin^{-1}(10/13)"),
        (r"$f(x)=a x$, where $a$ is whole", "f(x) = ax"),
        ("62.5%", r"62.5\%"),
        ("7.6 Z", "7.6Z"),
        (r"$\quad(2+\sqrt{2}, 1+\sqrt{2})$", r"(2+\sqrt2, \sqrt2+1)"),
        (r"x_{0} \cos (\omega t)+$ $\dot{x}_{0} / \omega", r"\dot{x}_0/\omega + x_0\cos\omega t"),
    ],
)
def test_a_gold_as_it_is_written_is_read(raw: object, answer: str) -> None:
    assert compare(canonical_gold(raw), answer)[0]


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


ROWS: dict[str, list[dict[str, object]]] = {
    "aime24": [{"id": 1, "problem": "How many?", "answer": "007"}],
    "aime25": [{"id": "I-1", "problem": "How many?", "answer": "7"}],
    "amc23": [{"id": 3, "problem": "How many?", "answer": 7.0}],
    "math500": [{"unique_id": "test/a/1.json", "problem": "How many?", "answer": "7", "level": 3}],
    "minerva_math": [{"idx": 0, "problem": "How many?", "solution": r"so \boxed{7}."}],
    "gsm8k": [{"question": "How many?", "answer": "3 + 4 = 7\n#### 7"}],
    "olympiadbench": [{"id": 9, "question": "How many?", "final_answer": ["$7$"], "unit": None}],
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_every_benchmark_is_read_from_its_columns(name: str) -> None:
    (question,) = questions(name, ROWS[name])
    assert question.problem.text == "7"
    assert question.problem.measured == (name == "minerva_math")
    assert question.fields == {"question": "How many?"}
    assert question.level == (3 if name == "math500" else 0)
    assert question.id == {"aime24": "1", "aime25": "I-1", "amc23": "3", "olympiadbench": "9"}.get(
        name, "test/a/1.json" if name == "math500" else "0"
    )


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("gsm8k", [{"answer": "#### 7"}], "row 1: no problem or question"),
        ("gsm8k", [{"question": "?", "answer": "seven"}], "ends in #### 18"),
        ("amc23", [{"problem": "?", "answer": 7.0}], "no id"),
        ("amc23", ROWS["amc23"] * 2, "id '3' came before"),
        ("minerva_math", [{"idx": 0, "problem": "?", "solution": "7"}], "boxed"),
        ("olympiadbench", [{"id": 1, "question": "?", "final_answer": []}], "list with one text"),
    ],
)
def test_a_wrong_row_is_an_error_of_one_line(name: str, rows: list[object], message: str) -> None:
    with pytest.raises(EvalsError, match=message.replace("(", r"\(")) as caught:
        questions(name, rows)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
