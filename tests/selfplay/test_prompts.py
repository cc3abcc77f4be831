"""Prompt templates: what a model writes in the form comes back, anything else is None."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_verifier import Proposal, Task
from selfplay.prompts import azr, nano
from selfplay.prompts.template import TEMPLATES, template_named

PROGRAM = "def f(a):\n    b = a + 1\n    return b"
OTHER = "def f(x):\n    return x[::-1]"


def task(kind, template):
    if kind != "code_f":
        return Task(kind, PROGRAM, "3", "4", id="k")
    n = template.NUM_INPUTS
    return Task(
        kind,
        PROGRAM,
        inputs=tuple(f"{i}" for i in range(n)),
        outputs=tuple(f"{i + 1}" for i in range(n)),
        message="add one",
        visible=n // 2,
        id="k",
    )


def nano_solution(answer, thought="b=4;"):
    return f"{thought}<|answer|>{answer}"


def azr_text(body, thought="well, now"):
    return f"{thought}</think>\n<answer>{body}</answer>"


def fence(tag, content):
    return f"```{tag}\n{content}\n```"


def test_both_templates_have_their_name():
    assert template_named("nano") is nano
    assert template_named("azr") is azr
    assert set(TEMPLATES) == {"nano", "azr"}


# nano -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["code_o", "code_i"])
def test_nano_proposal_round_trip(kind):
    prompt = nano.propose_prompt(kind, [task(kind, nano)])
    assert prompt == f"<|propose_{kind[-1]}|>{PROGRAM}<|input|>3<|plan|>"
    for plan in ("", "2 add if", "?"):
        text = f"{plan}<|program|>{OTHER}<|input|>[1, 2]"
        found = nano.parse_proposal(kind, [task(kind, nano)], text)
        assert found == Proposal(kind, OTHER, "[1, 2]")


def test_nano_code_f_proposal_takes_the_references_program():
    reference = task("code_o", nano)
    assert nano.propose_prompt("code_f", [reference]) == f"<|propose_f|>{PROGRAM}<|plan|>"
    inputs = [str(i) for i in range(nano.NUM_INPUTS)]
    found = nano.parse_proposal(
        "code_f", [reference], "<|input|>".join(["2", *inputs]) + "<|message|>add one"
    )
    assert found == Proposal("code_f", PROGRAM, inputs=tuple(inputs), message="add one")


def test_nano_solver_sees_neither_the_answer_nor_hidden_examples():
    o, i, f = (nano.solve_prompt(task(k, nano)) for k in ("code_o", "code_i", "code_f"))
    assert o == f"<|solve_o|>{PROGRAM}<|input|>3<|think|>"
    assert i == f"<|solve_i|>{PROGRAM}<|output|>4<|think|>"
    shown = "".join(f"<|input|>{n}<|output|>{n + 1}" for n in range(nano.NUM_INPUTS // 2))
    assert f == f"<|solve_f|>add one{shown}<|think|>"


@pytest.mark.parametrize("answer", ["4", "'a b'", "[1, 2], 3", PROGRAM])
@pytest.mark.parametrize("thought", ["", "b=4;", "b=4;?1;"])
def test_nano_answer_round_trip(answer, thought):
    assert nano.parse_answer(nano_solution(answer, thought)) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "<|answer|>",
        "<|answer|>  \n",
        "<|answer|>4<|answer|>4",
        "<|input|>3<|answer|>4",
        "<|answer|>4<|think|>",
        "<|answer|>4<|pad|>",
    ],
)
def test_nano_ill_formed_answers_are_none(text):
    assert nano.parse_answer(text) is None


@pytest.mark.parametrize("kind", ["code_o", "code_i", "code_f"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        PROGRAM,
        f"{PROGRAM}<|input|>1",
        f"2<|program|>{PROGRAM}<|input|>1<|input|>2",
        f"2<|program|>{PROGRAM}<|output|>1",
        f"2<|program|>{PROGRAM}<|input|>1<|output|>2",
        f"2<|plan|>add<|program|>{PROGRAM}<|input|>1",
        f"2<|program|>{PROGRAM}<|program|>{PROGRAM}<|input|>1",
        "<|message|>add",
        "<|input|>".join("p12345") + "<|message|>add",
        "<|input|>".join("p1234567") + "<|message|>add",
        "<|input|>".join("p123456"),
        "<|input|>".join("p123456") + "<|message|>add<|message|>one",
        "<|input|>".join("p123456") + "<|message|>add<|input|>7",
        "<|input|>".join(["p", "1<|output|>2", *"23456"]) + "<|message|>add",
        "<|input|>".join(["p<|plan|>", *"123456"]) + "<|message|>add",
    ],
)
def test_nano_ill_formed_proposals_are_none(kind, text):
    assert nano.parse_proposal(kind, [task("code_o", nano)], text) is None


# azr ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["code_o", "code_i"])
def test_azr_proposal_round_trip(kind):
    references = [task(kind, azr), Task(kind, OTHER, "[5]", "[5]")]
    prompt = azr.propose_prompt(kind, references)
    assert prompt.endswith("Assistant: <think>")
    for shown in references:
        assert fence("python", shown.program) in prompt
        assert fence("input", shown.input) in prompt
    text = azr_text(f"Here:\n{fence('python', OTHER)}\n{fence('input', '[1, 2]')}\n")
    assert azr.parse_proposal(kind, references, text) == Proposal(kind, OTHER, "[1, 2]")


def test_azr_code_f_round_trip():
    reference = task("code_o", azr)
    assert fence("python", PROGRAM) in azr.propose_prompt("code_f", [reference])
    inputs = tuple(str(i) for i in range(azr.NUM_INPUTS))
    body = "\n".join([*(fence("input", i) for i in inputs), fence("message", "add one")])
    found = azr.parse_proposal("code_f", [reference], azr_text(body))
    assert found == Proposal("code_f", PROGRAM, inputs=inputs, message="add one")
    for wrong in (
        body + "\n" + fence("input", "11"),
        body + "\n" + fence("message", "again"),
        "\n".join(fence("input", i) for i in inputs),
        "\n".join([*(fence("input", i) for i in inputs[1:]), fence("message", "add one")]),
    ):
        assert azr.parse_proposal("code_f", [reference], azr_text(wrong)) is None


def test_azr_solver_sees_neither_the_answer_nor_hidden_examples():
    o, i, f = (azr.solve_prompt(task(k, azr)) for k in ("code_o", "code_i", "code_f"))
    assert fence("input", "3") in o
    assert "```output\n" not in o
    assert fence("output", "4") in i
    assert "```input\n" not in i
    half = azr.NUM_INPUTS // 2
    assert fence("input", str(half - 1)) in f
    assert fence("input", str(half)) not in f
    assert fence("message", "add one") in f
    assert PROGRAM not in f


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (azr_text(fence("output", "4")), "4"),
        (azr_text(f"It is {fence('output', '  4 ')} for sure."), "4"),
        (azr_text(fence("python", PROGRAM)), PROGRAM),
        (azr_text(fence("output", "3") + "\nno:\n" + fence("output", "4")), "4"),
        (azr_text(fence("output", "3")) + azr_text(fence("output", "4"), ""), "4"),
        (
            "a </think> b <answer>no fence</answer><answer>" + fence("output", "4") + "</answer>",
            "4",
        ),
        (azr_text(fence("output", "4"), thought=""), "4"),
    ],
)
def test_azr_the_last_fence_of_the_last_answer_counts(text, answer):
    assert azr.parse_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"<answer>{fence('output', '4')}</answer>",
        f"<answer>{fence('output', '4')}</answer></think>",
        f"thinking<answer>x</think>{fence('output', '4')}</answer>",
        f"thought</think>{fence('output', '4')}",
        f"thought</think><answer>{fence('output', '4')}",
        f"thought</think>{fence('output', '4')}</answer>",
        azr_text("4"),
        azr_text("```output\n4"),
        azr_text(fence("output", "  ")),
        azr_text(""),
        azr_text(fence("output", "4")) + "<answer>",
    ],
)
def test_azr_ill_formed_answers_are_none(text):
    assert azr.parse_answer(text) is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        fence("python", PROGRAM),
        fence("input", "3"),
        fence("python", PROGRAM) * 2 + fence("input", "3"),
        fence("python", PROGRAM) + "\n" + fence("input", "3") + "\n" + fence("input", "4"),
        PROGRAM,
    ],
)
def test_azr_ill_formed_proposals_are_none(body):
    assert azr.parse_proposal("code_o", [task("code_o", azr)], azr_text(body)) is None


def test_azr_a_nested_opening_tag_starts_the_answer_anew():
    text = f"t</think><answer>a <answer>{fence('output', '4')}</answer>"
    assert azr.parse_answer(text) == "4"


PIECES = st.lists(
    st.sampled_from(
        (
            *("</think>", "<think>", "<answer>", "</answer>", "```", "```output\n"),
            *("\n", "4", "é", "<|"),
            *nano.SPECIAL_TOKENS,
        )
    ),
    max_size=12,
).map("".join)


@given(PIECES)
def test_no_text_makes_a_parser_raise(text):
    for template in (nano, azr):
        answer = template.parse_answer(text)
        assert answer is None or answer.strip()
        for kind in ("code_o", "code_i", "code_f"):
            found = template.parse_proposal(kind, [task("code_o", template)], text)
            assert found is None or found.kind == kind
