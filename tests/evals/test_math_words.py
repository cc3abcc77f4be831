"""Every word of an answer is read or makes it unreadable; golds that cannot be read are errors."""

import math
import zlib
from typing import Any

import pytest
from math_golds import GOLDS, accepted_with_a_word, published

from evals import EvalsError, check_golds, math_reward, math_score
from evals.math.answers import Gold, canonical_gold, extract
from evals.math.grader import check_gold, compare, grade
from evals.math.problems import questions

PHRASES = ("is equal to 3.", "is therefore equal to $3$", "is given as 3", "comes out to 3.")
RESPONSES = (r"So \boxed{%s}.", "The answer is %s.", "#### %s", "<answer>%s</answer>")


def test_every_published_gold_is_read() -> None:
    assert len(GOLDS) == 1_148
    for gold, _ in published():
        check_gold(gold)


def test_no_published_gold_of_a_fifth_is_what_a_word_makes_of_it() -> None:
    """tests/gates has all of them."""
    fifth = [(gold, raw) for gold, raw in published() if zlib.crc32(raw.encode()) % 5 == 0]
    assert len(fifth) > 200
    assert accepted_with_a_word(fifth) == []


THREE = [
    "negative 3", "minus 3", "Negative three", "half of 3", "twice 3", "3 dozen", "three dozen",
    "3 cubed", "3 squared", "3!", "3%", "10 mod 7", "3 mod 2", "the reciprocal of 3",
    "the square of 3", "not 3", "at least 3", "more than 3", "up to 3", "about 3", "nearly 3",
    "between 3 and 5", "3 or 4", "3 or more", "3 and more", "third", "the third", "3rd",
    "one third", "3 thirds", "3 halves", "two thirds", "three quarters", "3x", "3 y", "3/x",
    "3x^2", "n=3k", "x=3y", "3e", "3 i", "3:1", "3 in 5", "3 blargs", "3 less than x",
    "3 thousand", "3 hundredths", "x<3", "3 if x is doubled", "3 (doubled)", "neither 3 nor 4",
    "3 and a half", "double 3", "square root of 3", "log of 3", "3'", "3 plus 1",
    "3 apples less", "3 to 5", "\\not= 3", "3's square",
]  # fmt: skip


@pytest.mark.parametrize("answer", THREE)
def test_what_is_not_three(answer: str) -> None:
    assert not compare(Gold("3"), answer)[0]
    for response in RESPONSES:
        assert not grade(Gold("3"), response % answer).correct, response


@pytest.mark.parametrize("after", [" dozen", " squared", "/x", "^2", " or more", " [x]", " (mod)"])
def test_what_follows_a_formula_is_read_with_it(after: str) -> None:
    assert not grade(Gold("3"), f"The answer is $3${after}.").correct
    assert extract("The answer is $3$ apples. So it is.").text == r"3\text{ apples}"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("24", r"24 \approx 3.14"),
        ("24", "24 minutes = 7 hours"),
        ("1", "one half"),
        ("5", "x=5y"),
        ("0", "not 0"),
        ("(3,5)", "y=3, x=5"),
        ("(3,5)", "(y,x)=(3,5)"),
        ("(3,5)", "minus (3,5)"),
        ("(3,5)", "(3,5) dozen"),
        ("100, 200", "100200"),
        ("100200", "100, 200"),
        ("1234", "1, 234"),
        ("x=5", "negative x=5"),
        (r"x \in [-2,7]", r"half of x \in [-2,7]"),
        (r"k \geq 2", r"twice k \geq 2"),
        ("x+1", "negative x+1"),
        ("B", "(B) or (C)"),
        ("B", "not B"),
        (r"\text{Evelyn}", r"\text{Evelyn}\pi"),
        (r"\text{(B)}", r"\text{(B)}x"),
        (r"\text{(B)}", "(B) minus 1"),
        (r"\text{east}", "north or east"),
        (r"\text{Evelyn}", "Evelyn has not won"),
        (r"15\mbox{ cm}^2", r"15\mbox{ cm}^2 squared"),
        (r"5.4 \text{ cents}", r"5.4 \text{ cents}^2"),
        ("1,2,\\ldots,n", "1,2,n"),
        (r"12.5\%", "1.25"),
        (r"\emptyset", r"\{\emptyset\}"),
        (r"\{\emptyset\}", r"\emptyset"),
        (r"\{1,2\}", r"\{\{1,2\}\}"),
        (r"\{1,2\}", r"\{\{1\},\{2\}\}"),
        ("2, 3", "2, 2, 3"),
        ("2, 3", "2, 3, 6/2"),
        ("2, 2, 3", "2, 3"),
        ("2", "2, 2"),
        ("(1,2)", "P(2,1)"),
        ("(1,2)", "f(1,2)"),
        ("70", r"{4 \choose 8}"),
        (r"{29 \over 4}", r"{4 \over 29}"),
        ("16:19", r"19\colon 16"),
        ("red", r"\text{blue}"),
        (r"\mathbb{R}", r"\mathbb{C}"),
        (r"\mathbb{R}", r"[0,\infty)"),
        (r"\infty", r"\text{negative infinity}"),
        (r"\text{no solution}", "one solution"),
        (r"\text{no solution}", "0"),
        ("3", "none"),
        (r"x \neq 2", "x = 2"),
        (r"x \neq 2", "2"),
        (r"x \neq 2", r"x \neq 3"),
        (r"x \neq a", r"x \neq b"),
        (r"(-\infty,2)\cup(2,3)\cup(3,\infty)", r"x \neq 2 \text{ or } x \neq 3"),
        ("500000", "half a thousand"),
        ("200", "two of a hundred"),
        ("(a,b)=(2,7)", "b=2, a=7"),
        ("(a,b)=(2,7)", "(b,c)=(2,7)"),
        ("x=2, y=3", "(3,2)"),
        ("x=2, y=3", "3, 2"),
        ("x=2, y=3", "[2,3]"),
        (r"5\text{ m}", r"5\text{ cm}"),
        (r"5\text{ m}", r"5\text{ m}^2"),
        (r"5\text{ m}^2", r"5\text{ m}"),
        (r"5\text{ m}", "5n"),
        (r"5\text{ s}", r"5\text{ min}"),
        ("5m", "5"),
        (r"5\text{ J}", r"5\text{ N}"),
        (r"5\text{ kW}", r"5\text{ W}"),
        (r"3\text{ L}", r"3\text{ mL}"),
        (r"5\text{ m/s}", r"5\text{ m}"),
        (r"5\text{ m/s}", r"5\text{ km/h}"),
        ("x=1, x=2", "x=1, x=2, x=2"),
        ("2s+1", "3"),
        (r"5^\circ\text{C}", r"5^\circ\text{F}"),
        (r"98^\circ F", r"98^\circ C"),
    ],
)
def test_what_is_another_answer(gold: str, answer: str) -> None:
    assert not compare(canonical_gold(gold), answer)[0]


RIGHT = {
    "0.5": "half|a half|one half|one-half|1/2",
    "5.5": "5 and a half|five and a half|five and one half|5 1/2",
    "120": "a hundred and twenty|one hundred twenty|ten dozen",
    "-3": "negative 3|minus three|negative three|-3|x = negative 3|The answer is minus 3",
    "5": "5cm|5 cm|5~\\text{cm}|5 km/h|5 m/s^2|5 apples left|five (5)|x=5|There are five boys",
    r"\frac{3}{4}": "three quarters|three-quarters|three fourths of a cup",
    r"12.5\%": r"12.5|12.5\%|0.125|12.5 percent|12.5 per cent",
    "B": r"(B)|\text{(B)}|\textbf{(B)}|\mathbf{B}|B.|Option B|\text{B}|\boldsymbol{B}",
    r"\textbf{(B)}": "B|(B)|(B) a circle",
    r"\emptyset": r"\varnothing|\{\}|\{ \}|\{\,\}|∅|\text{the empty set}",
    r"\{\}": r"\emptyset",
    r"1,2,\ldots,n": r"1,2,\dots,n|1, 2, ..., n|1,2,\cdots,n",
    "18": "18\\ |18\\,|18 \\quad|\\$18|18 eggs",
    "100, 200": r"200, 100|100 \text{ and } 200",
    "1,234": "1234|1{,}234|1\\,234|1\u2009234|1\u202f234|1,\\!234",
    "(3,5)": "x=3, y=5|y=5, x=3|(x,y)=(3,5)|(y,x)=(5,3)",
    r"(3, \frac{\pi}{2})": r"\theta = \pi/2, r = 3",
    r"\frac{14}{3}": r"14/3 \approx 4.67|14/3 (approximately 4.667)|4\frac{2}{3}",
    "2:3": "2 : 3",
    "New York": r"\text{New York}",
    r"(-\\infty,-5)": r"(-\infty,-5)",
    "7.25": r"{29 \over 4}|29 \over 4",
    r"{29 \over 4}": "29/4",
    "70": r"{8 \choose 4}|8 \choose 4",
    "(1,2)": r"P(1,2)|P_1(1,2)|A'(1,2)|\text{P}(1,2)|P = (1,2)",
    "P(1,2)": "(1,2)",
    "16:19": r"16\colon 19",
    "red": r"\text{red}|red|\textbf{red}",
    "up": r"\text{up}|up",
    r"\mathbb{R}": r"(-\infty,\infty)|(-\infty,+\infty)|\text{all real numbers}|x \in \mathbb{R}|ℝ",
    r"(-\infty,\infty)": r"\mathbb{R}|\text{all reals}|all real numbers",
    r"\infty": r"\text{infinity}|infinity|+\infty|\text{positive infinity}",
    r"\text{infinity}": r"\infty|infinity",
    r"-\infty": r"\text{negative infinity}|-\text{infinity}|negative infinity",
    r"\text{no solution}": r"no solutions|none|\emptyset|\text{no real roots}|\{\}|No solution.",
    r"\varnothing": r"\text{no solution}|none|\text{There is no solution}",
    r"x \neq 2": r"(-\infty,2)\cup(2,\infty)|\mathbb{R}\setminus\{2\}|x \ne 2",
    r"(-\infty,2)\cup(2,\infty)": r"x \neq 2|\{x : x \neq 2\}",
    r"(-\infty,2)\cup(2,3)\cup(3,\infty)": r"x \neq 2, 3|x \neq 2 \text{ and } x \neq 3",
    "500000": "half a million|one half of a million|0.5 million",
    "1500000": "one and a half million|1.5 million",
    "6": "half a dozen",
    "750000": "three quarters of a million",
    "(a,b)=(2,7)": "b=7, a=2|a=2, b=7|(2,7)|(b,a)=(7,2)",
    "x=2, y=3": "(2,3)|(x,y)=(2,3)|y=3, x=2|2, 3",
    r"5\text{ m}": r"5|5\text{ meters}|500\text{ cm}|5m|5\,\mathrm{m}|5~\text{m}",
    r"5\text{ g}": r"5|5\text{ grams}|0.005\text{ kg}",
    r"90\text{ s}": r"90|90\text{ seconds}|1.5\text{ min}",
    r"2\text{ h}": r"2|2\text{ hours}|120\text{ minutes}|2 h",
    r"5\text{ L}": r"5|5\text{ liters}|5 L",
    r"5\mathrm{J}": r"5|5\text{ joules}|0.005\text{ kJ}",
    r"\frac{1}{2}\text{ N}": r"0.5|\frac12\text{ newtons}",
    r"2\sqrt{3}\text{ m}^2": r"2\sqrt{3}|\sqrt{12}\text{ square meters}|20000\sqrt{3}\text{ cm}^2",
    r"5\text{ m/s}": r"5|18\text{ km/h}|5 meters per second",
    r"3\text{ L}": r"3000\text{ mL}|3\text{ liters}|3000\text{ cm}^3",
    r"340\text{ hours}": r"340\text{ h}|340 h|340",
    r"5^\circ\text{C}": r"5|5^\circ|5^\circ C|5\text{ degrees Celsius}|5°C",
    r"98^\circ F": r"98|98^\circ|98^\circ\text{F}|98\text{ degrees Fahrenheit}",
    "106": r"106 \pmod{1000}|106 (mod 1000)",
}


@pytest.mark.parametrize(
    ("gold", "answer"),
    [(g, answer) for g, answers in RIGHT.items() for answer in answers.split("|")],
)
def test_what_is_right(gold: str, answer: str) -> None:
    read = canonical_gold(gold)
    check_gold(read)
    assert compare(read, answer)[0]
    assert grade(read, rf"So \boxed{{{answer}}}.").correct


@pytest.mark.parametrize("end", PHRASES)
def test_an_answer_is_found_after_phrases(end: str) -> None:
    assert math_score("", f"So the answer {end}", "3") == 1.0
    assert math_score("", f"So the answer {end}", "4") == 0.0


def test_an_unreadable_answer_says_what_was_not_read() -> None:
    assert compare(Gold("3"), "3 blargs")[:2] == (False, "unreadable: blargs")
    assert compare(Gold("3"), "3 dozen")[:2] == (False, "value")


def test_a_word_of_the_question_may_be_counted() -> None:
    question = "How many zorkels are there, twice a day?"
    assert compare(canonical_gold("3", question), "3 zorkels")[0]
    assert compare(canonical_gold("3", question), "3 zorkel")[0]
    assert not compare(canonical_gold("3", question), "twice 3")[0]
    assert not compare(canonical_gold("3"), "3 zorkels")[0]


def test_about_is_right_where_the_gold_is_rounded() -> None:
    assert compare(canonical_gold("5.3", measured=True), "about 5.3")[0]
    assert not compare(canonical_gold("5.3"), "about 5.3")[0]


@pytest.mark.parametrize(
    "gold",
    [{}, {"a": 1}, b"3", [None], [], True, math.inf, r"\frac{1", "(", "3 blargs", " ", "9" * 300],
)
def test_a_gold_that_cannot_be_read_is_an_error_in_a_benchmark(gold: Any) -> None:
    rows = [{"id": 1, "problem": "?", "answer": "3"}, {"id": 2, "problem": "?", "answer": gold}]
    with pytest.raises(EvalsError, match="amc23, row 2: "):
        questions("amc23", rows)
    with pytest.warns(UserWarning, match="row 1 of the batch: the right answer .*1 of 2 rows"):
        assert math_reward([r"\boxed{3}"] * 2, answer=["3", gold]) == [1.0, 0.0]
    with pytest.warns(UserWarning, match="the right answer"):
        assert math_score("", r"\boxed{3}", gold) == 0.0
    (fault,) = check_golds([{"answer": "3"}, {"answer": gold}])
    assert fault[0] == 1
    assert "right answer" in fault[1]


UNREAD = [r"\max\{a,b\}", r"\sum_{k=1}^{n} k", r"\int_0^1 x dx", r"\gcd(a,b)", r"17 \bmod 5"]
UNREAD += [r"\overline{AB}", r"0.333\ldots", "a" * 5_000, ["3 blargs"]]
RESPELLED = {
    UNREAD[0]: r"\max \left\{ a, b\right\}",
    UNREAD[2]: r"\displaystyle\int_{0}^{1} x\,dx",
    UNREAD[6]: "0.333...",
}


@pytest.mark.filterwarnings("ignore:the right answer")
def test_a_gold_that_cannot_be_read_equals_its_own_text_in_rewards() -> None:
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


def test_a_row_without_a_gold_has_no_reward() -> None:
    assert math_reward([r"\boxed{3}"] * 3, answer=[None, "", math.nan]) == [None] * 3


def test_a_list_of_golds_asks_for_all_of_them() -> None:
    assert math_reward([r"\boxed{2}"] * 2, final_answer=[["2"], ["2", "3"]]) == [1.0, 0.0]
    assert math_reward([r"\boxed{3, 2}"], final_answer=[["2", "3"]]) == [1.0]
    with pytest.warns(UserWarning, match="right answer is None"):
        assert math_score("", r"\boxed{None}", None) == 0.0
    row = {"id": 1, "question": "?", "final_answer": ["2", "3"]}
    (question,) = questions("olympiadbench", [row])
    assert grade(question.problem, r"\boxed{3 \text{ and } 2}").correct
