"""What counts as the right answer: labelled responses, and the traps that each rule is for."""

import time

import pytest
from math_golds import ROWS

from evals import EvalsError, math_reward, math_score
from evals.math.answers import Gold, canonical_gold
from evals.math.grader import compare, grade

AGREEMENT = 0.985


def verdict(gold: object, answer: str, measured: bool = False) -> bool:
    return compare(canonical_gold(gold, measured=measured), answer)[0]


def test_no_wrong_answer_passes_and_few_right_ones_are_refused() -> None:
    accepted, refused = [], []
    for row in ROWS:
        measured = row["benchmark"] == "minerva_math"
        gold = canonical_gold(row["gold"], row.get("question", ""), measured=measured)
        found = grade(gold, row["response"])
        if found.correct != row["correct"]:
            (accepted if found.correct else refused).append((row["gold"], found))
    assert len(ROWS) > 5_600
    assert accepted == []
    assert len(refused) <= (1 - AGREEMENT) * len(ROWS), refused


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("0.0000001", "0.0000004"),
        ("52_8", "52"),
        (r"10\%", "1000"),
        ("10", "0.1"),
        (r"\frac{3}{4}", "4:3"),
        ("3,5,7", "357"),
        ("1", "0.9999"),
        (r"\text{east}", "east or west"),
        (r"(-\infty, 0) \cup\{1\}", "0"),
        ("0", "x^2 - 1 = 0"),
        ("1", r"\frac{0}{0}"),
        (r"\frac{37}{4} m", r"\frac{37}{4m}"),
        (r"5.4 \text{ cents}", r"\$5.4"),
        (r"90^\circ", r"90 \text{ radians}"),
        ("10", "a = 3, b = 10, a + b = 13"),
        ("85", r"\frac{340}{4} = 82.5"),
        (r"15\mbox{ cm}^2", r"150 \text{ mm}^2"),
        (r"\begin{pmatrix} -2 & 0 \\ 0 & 2 \end{pmatrix}", "-2I"),
        ("(0,1), (1,0)", r"x=0, y=1 \text{ or } x=0, y=1"),
        ("27.39", "27.386"),
        ("3,4", r"p \approx 4, q \approx 3"),
        ("(3,4]", r"x > 3 \text{ or } x \leq 4"),
        ("5", r"\pm\pm 5"),
        ("18", r"\text{not } 18"),
        ("0.11", r"0.1\overline{x}"),
        ("5", r"\ln_2 32"),
        ("1", r"7 \bmod 2"),
        ("2", r"\sqrt[1.5]{8}"),
        ("0", r"\lfloor i \rfloor"),
        (r"(-\infty,2)\cup(2,\infty)", r"\mathbb{R}\setminus\{2, x\}"),
        (r"(-\infty,2)\cup(2,\infty)", r"\mathbb{R}\setminus\{2, 1/0\}"),
        (r"\pi", r"\pi \approx 3.14 x"),
        (r"100 \text{ cm}^2", r"0.01 \text{ m}^x"),
        ("18", "more than 18"),
        ("2", "2 or 3 hours"),
        ("C", "B"),
        ("B, C", "B"),
    ],
)
def test_what_lenient_graders_let_pass_is_wrong(gold: str, answer: str) -> None:
    assert not verdict(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("4.5e33", "4.5 x 10^33 erg"),
        ("7", r"\textbf{(E)}\ 7"),
        ("204", "204."),
        ("18", r"\text{She pays } 18 \text{ dollars}"),
        ("32348", r"32{,}348"),
        ("57", "fifty-seven"),
        ("25000000", "25 million"),
        (r"\frac{4}{3}", "1 1/3"),
        (r"\frac{4}{3}", r"1\frac13 \text{ miles}"),
        (r"\sqrt{2}", r"x = \sqrt{2} \approx 1.41"),
        ("18", r"18\ \mathrm{cm^2/sec}"),
        (r"\frac{1}{6}", r"0.1\overline{6}"),
        ("90^\\circ", "90°"),
        (r"2i\sqrt{3}", r"2\sqrt{3}i"),
        ("y^{\\prime}+y=0", "y' = -y"),
        ("y'+ry-rx(t)=0", "y'(t) = r x(t) - r y(t)"),
        (r"x^{2}+y^{2}=4", "2x^2+2y^2=8"),
        ("(3,4]", r"3 < x \leq 4"),
        ("(3,4]", r"x > 3 \text{ and } x \leq 4"),
        ("12", r"\frac{24}{2} = 12"),
        ("204", r"m+n = 4+200 = 204"),
        (r"I e^{-\frac{t}{R C}}", "I e^{-t/RC}"),
        ("c e^{-2t}", "A e^{-2t}"),
        (r"(0,9) \cup (9,36)", r"(0,36) \setminus \{9\}"),
        (r"(0,9) \cup (9,36)", r"0 < a < 36, a \neq 9"),
        (
            r"\begin{pmatrix} 1/3 \\ 2/3 \end{pmatrix}",
            r"\frac{1}{3}\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
        ),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "[[1,2],[3,4]]"),
        ("40_9", "40₉"),
        ("40_9", r"40 \text{ base } 9"),
        (r"5.4 \text{ cents}", r"\$0.054"),
        (r"15\mbox{ cm}^2", r"1500 \text{ mm}^2"),
        ("113", r"\textbf{(113) }"),
        ("1,2,3", "(x,y,z) = (1,2,3)"),
        ("(16/49, 48/49, 24/49)", r"\frac{8}{49}(2, 6, 3)"),
        (r"1 \pm \sqrt{19}", r"1+\sqrt{19} \text{ and } 1-\sqrt{19}"),
        ("1,2", r"\max = 2, \min = 1"),
        (r"\text{Evelyn}", "Evelyn had the greatest speed"),
        (r"\text{(C)}", "(C) circle"),
        (r"\lfloor 7/2 \rfloor", "3"),
        ("3", r"\lfloor \pi \rfloor"),
        ("4", r"\sqrt[1.5]{8}"),
        ("12", r"\text{1 2}"),
        (r"-\sqrt[3]{\pi}", r"\sqrt[3]{-\pi}"),
        ("10", r"\binom{5}{2}"),
    ],
)
def test_what_strict_graders_refuse_is_right(gold: str, answer: str) -> None:
    assert verdict(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("1.75", r"\Delta m \approx 1.747\ \text{mag}", True),
        ("27.39", "27.384", False),
        ("27.39", "27.4", False),
        ("27.39", "-27.386", False),
        ("3.3e12", r"3.275\times 10^{11}", False),
        ("27.39", r"1.23456\cdot 10^{99}", False),
        ("27.39", r"27.386\%", False),
        (r"27.39 \text{ m}", r"27.386 \text{ km}", False),
        ("7e37", r"7.1\times 10^{37}", False),
        ("32", "31.9", False),
        (r"\frac{1}{3}", "0.333", False),
    ],
)
def test_more_digits_than_a_measured_gold_must_round_to_it(
    gold: str, answer: str, right: bool
) -> None:
    assert verdict(gold, answer, measured=True) is right


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("9^{9^9}", "guard: exponent"),
        ("2^{10^9}", "guard: exponent"),
        ("2^{99999}", "guard: exponent"),
        ("1e99999", "guard: exponent"),
        ("99999!", "guard: factorial"),
        ("9" * 300, "guard: digits"),
        ("2000!" * 20, "guard: digits"),
        ("(" * 100 + ")" * 100, "guard: nesting"),
        (r"\sqrt" * 500 + "2", "guard: nesting"),
        ("2^" * 500 + "2", "guard: nesting"),
        ("1+" * 3000 + "1", "guard: length"),
        (r"\pm1," * 60 + "1", "guard: length"),
    ],
)
def test_guards_refuse_what_would_take_long(answer: str, reason: str) -> None:
    assert compare(Gold("5"), answer)[:2] == (False, reason)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x", "(x+1)^{99}" * 200),
        ("x", "+".join(f"\\frac{{x}}{{{n}}}" for n in range(1001, 1300))),
        ("n!", "(n!)!" * 200),
        ("x", "x," * 2_000),
        ("1,2,3,4", ",".join(map(str, range(60)))),
        ("x", "-" * 4_000 + "x"),
        ("x", "sin " * 1_000 + "x"),
        ("x", "{" * 40 + "x" + "}" * 40),
        ("x+y+z+w=0", "+".join(f"{k}x y z w" for k in range(300)) + "=1"),
        ("1", "".join(f"\\text{{a}}{k}" for k in range(500))),
        ("1", "5 " * 2_000),
        ("1", r"10^{900} \approx 10^{901}"),
        ("1", "one and " * 500),
        ("1", "million " * 500),
        ("1", "1,234" * 800),
        ("1", "(A" * 30 + r"\text{ " * 500),
        ("y'=x", "x(t)" * 1_000 + "y'=0"),
        ("C_1+C_2+C_3+C_4", "+".join(f"A_{k}" for k in range(4)) + "+0x" * 500),
    ],
)
def test_hostile_answers_take_little_time(gold: str, answer: str) -> None:
    begin = time.process_time()
    compare(Gold(gold), answer[:4_096])
    assert time.process_time() - begin < 5  # takes 0.1


def test_long_and_strange_responses() -> None:
    responses = [
        "",
        "\ud800 \\boxed{5}",
        "x" * 5_000_000 + "\\boxed{5}",
        "<think>5",
        "\\boxed{\ud800}",
    ]
    verdicts = [grade(Gold("5"), text) for text in responses]
    assert [v.correct for v in verdicts] == [False, True, True, False, False]
    assert [v.reason for v in verdicts[:4]] == ["empty", "same text", "same text", "only thoughts"]
    assert verdicts[1].extracted == "5"
    assert len(grade(Gold("5"), f"\\boxed{{{'5' * 9_000}}}").extracted or "") == 2_000


def test_the_reward_of_a_batch_and_the_score_of_one() -> None:
    chat = [{"role": "assistant", "content": "So #### 18"}]
    completions = [r"It is \boxed{\frac{1}{2}}.", chat, r"\boxed{3}", "no answer", "x"]
    answers = ["0.5", "9 * 2 = 18\n#### 18", 4, "1", None]
    rewards = [1.0, 1.0, 0.0, 0.0, None]
    assert math_reward(completions, prompts=[""] * 5, answer=answers) == rewards
    assert math_score("math", r"so \boxed{x+1}", r"Thus we get $\boxed{1+x}$.") == 1.0
    with pytest.raises(EvalsError, match="none of the columns"):
        math_reward(completions, gold=answers)
