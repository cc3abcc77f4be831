"""What counts as the right answer: labelled responses, and the traps that each rule is for."""

import time
import tomllib
from pathlib import Path

import pytest
from math_golds import ROWS

from evals import EvalsError, math_reward, math_score
from evals.math.final_answers import Gold, canonical_gold
from evals.math.grader import check_gold, compare, grade

AGREEMENT = 0.98
_TRAPS = Path(__file__).parent / "data" / "math_traps.toml"
TRAPS = tomllib.loads(_TRAPS.read_text(encoding="utf-8"))["traps"]


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_no_wrong_answer_passes_and_few_right_ones_are_refused(step):
    accepted, refused = [], []
    for row in ROWS[::step]:
        measured = row["benchmark"] == "minerva_math"
        gold = canonical_gold(row["gold"], row.get("question", ""), measured=measured)
        found = grade(gold, row["response"])
        if found.correct != row["correct"]:
            (accepted if found.correct else refused).append((row["gold"], found))
    assert len(ROWS) > 5_600
    assert accepted == []
    assert len(refused) <= (1 - AGREEMENT) * len(ROWS[::step]), refused


RESPONSES = (r"So \boxed{%s}.", "The answer is %s.", "#### %s", "<answer>%s</answer>")


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap["gold"])
def test_what_is_right_and_what_is_not(trap):
    gold = canonical_gold(trap["gold"], measured=trap.get("measured", False))
    for answer in trap.get("right", ()):
        check_gold(gold)
        assert compare(gold, answer).correct, answer
        assert grade(gold, rf"So \boxed{{{answer}}}.").correct, answer
        assert not trap.get("both") or compare(canonical_gold(answer), gold.text).correct, answer
    for answer in trap.get("wrong", ()):
        assert not compare(gold, answer).correct, answer
        assert not any(grade(gold, form % answer).correct for form in RESPONSES), answer
        assert not trap.get("both") or not compare(canonical_gold(answer), gold.text).correct


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("9^{9^9}", "guard: exponent"), ("1e99999", "guard: exponent"),
        ("99999!", "guard: factorial"), ("9" * 300, "guard: digits"),
        ("2000!" * 20, "guard: digits"), (r"\sqrt" * 500 + "2", "guard: nesting"),
        ("1+" * 3000 + "1", "guard: length"), (r"\pm1," * 60 + "1", "guard: length"),
    ],
)  # fmt: skip
def test_guards_refuse_what_would_take_long(answer, reason):
    assert compare(Gold("5"), answer)[:2] == (False, reason)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x", "(x+1)^{99}" * 200),
        ("x", "+".join(f"\\frac{{x}}{{{n}}}" for n in range(1001, 1300))), ("n!", "(n!)!" * 200),
        ("x", "x," * 2_000), ("1,2,3,4", ",".join(map(str, range(60)))), ("x", "-" * 4_000 + "x"),
        ("x+y+z+w=0", "+".join(f"{k}x y z w" for k in range(300)) + "=1"),
        ("1", "".join(f"\\text{{a}}{k}" for k in range(500))), ("1", "5 " * 2_000),
        ("1", r"10^{900} \approx 10^{901}"), ("1", "one and " * 500), ("1", "1,234" * 800),
        ("1", "(A" * 30 + r"\text{ " * 500), ("y'=x", "x(t)" * 1_000 + "y'=0"),
        ("C_1+C_2+C_3+C_4", "+".join(f"A_{k}" for k in range(4)) + "+0x" * 500),
    ],
)  # fmt: skip
def test_hostile_answers_take_little_time(gold, answer):
    begin = time.process_time()
    compare(Gold(gold), answer[:4_096])
    assert time.process_time() - begin < 5  # takes 0.1


def test_long_and_strange_responses():
    responses = [
        "", "\ud800 \\boxed{5}", "x" * 5_000_000 + "\\boxed{5}", "<think>5", "\\boxed{\ud800}",
    ]  # fmt: skip
    verdicts = [grade(Gold("5"), text) for text in responses]
    assert [v.correct for v in verdicts] == [False, True, True, False, False]
    assert [v.reason for v in verdicts[:4]] == ["empty", "same text", "same text", "only thoughts"]
    assert verdicts[1].extracted == "5"
    assert len(grade(Gold("5"), f"\\boxed{{{'5' * 9_000}}}").extracted or "") == 2_000


def test_the_reward_of_a_batch_and_the_score_of_one():
    chat = [{"role": "assistant", "content": "So #### 18"}]
    completions = [r"It is \boxed{\frac{1}{2}}.", chat, r"\boxed{3}", "no answer", "x"]
    answers = ["0.5", "9 * 2 = 18\n#### 18", 4, "1", None]
    rewards = [1.0, 1.0, 0.0, 0.0, None]
    assert math_reward(completions, prompts=[""] * 5, answer=answers) == rewards
    assert math_score("math", r"so \boxed{x+1}", r"Thus we get $\boxed{1+x}$.") == 1.0
    with pytest.raises(EvalsError, match="none of the columns"):
        math_reward(completions, gold=answers)


def test_a_question_names_the_unit_of_a_score():
    question = {"question": "What percent of them sing?"}
    assert math_score("gsm8k", r"\boxed{8\%}", "8", question) == 1.0
    assert math_score("gsm8k", r"\boxed{800\%}", "8", question) == 0.0
    assert math_score("How many meters is it?", r"\boxed{5\text{ km}}", "5") == 0.0
    answers = [r"\boxed{0.5\%}", r"\boxed{50\%}"]
    assert math_reward(answers, answer=[".5"] * 2, problem=[question["question"]] * 2) == [1.0, 0.0]


def test_an_exclamation_mark_ends_a_sentence_and_not_a_formula():
    assert math_score("", "So the answer is 42! Great.", "42") == 1.0
    assert math_score("", "So the answer is $5!$.", "5") == 0.0


@pytest.mark.filterwarnings("ignore:the right answer")
def test_a_noun_that_is_in_no_list_equals_itself():
    assert math_score("", r"\boxed{14/2\text{ zorps}}", r"7\text{ zorps}") == 1.0
    for answer in ("7", "7 blargs", "8 zorps", "7 half zorps"):
        assert math_score("", rf"\boxed{{{answer}}}", r"7\text{ zorps}") == 0.0


@pytest.mark.filterwarnings("ignore:the right answer")
@pytest.mark.parametrize(
    "huge",
    [
        r"\sqrt[1000000000]{2}", "3^{0.000000001}", "2^{10^{-400}}", r"(\frac{3}{7})^{1/99999999}",
        r"\sqrt[10^9]{\sqrt[10^9]{2}}", "(10^9)^{0.1234567891}", "((2^{1000})^{1000})^{1000}",
        "2^{-10^{10}}", r"\binom{10^9}{10^8}", "(10^6)!", r"x^{1/10^9}",
    ],
)  # fmt: skip
def test_operations_on_numbers_are_bounded_before_they_run(huge):
    begin = time.process_time()
    assert math_score("", rf"\boxed{{{huge}}}", "2") == 0.0
    assert math_score("", r"\boxed{2}", huge) == 0.0
    assert time.process_time() - begin < 2  # takes 0.001; the power itself half a minute
