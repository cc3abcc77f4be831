"""What templates write comes back; of the nano model's form, anything else is None."""

import pytest

from code_verifier import Proposal, Task
from selfplay.tasks import azr, nano
from selfplay.tasks.nano import NUM_INPUTS
from selfplay.tasks.template import AZR, NANO

PROGRAM = "def f(a):\n    b = a + 1\n    return b"
OTHER = "def f(x):\n    return x[::-1]"


def task(kind, n=NUM_INPUTS):
    if kind != "code_f":
        return Task(kind, PROGRAM, "3", "4", id="k")
    inputs, outputs = (tuple(str(i + add) for i in range(n)) for add in (0, 1))
    return Task(
        kind, PROGRAM, inputs=inputs, outputs=outputs, message="add one", visible=n // 2, id="k"
    )


@pytest.mark.parametrize("thought", ["", "b=4;?1;", "First <b>, then c.\n"])
@pytest.mark.parametrize("kind", ["code_o", "code_i", "code_f"])
@pytest.mark.parametrize(("template", "own"), [(NANO, nano), (AZR, azr)], ids=["nano", "azr"])
def test_what_a_template_writes_it_reads_back(template, own, kind, thought):
    mine = task(kind, own.NUM_INPUTS)
    gold = {"code_o": mine.output, "code_i": mine.input, "code_f": mine.program}[kind]
    assert template.parse_answer(mine, template.answer_text(mine, thought)) == gold
    reference = Task("code_o", PROGRAM, "99", "100")
    found = template.parse_proposal(kind, [reference], template.proposal_text(mine, thought))
    assert found == Proposal(kind, mine.program, mine.input, mine.inputs, mine.message)


@pytest.mark.parametrize("kind", ["code_o", "code_i"])
def test_nano_prompts_show_the_reference_and_plans_are_not_read(kind):
    prompt = NANO.propose_prompt(kind, [task(kind)])
    assert prompt == f"<|propose_{kind[-1]}|>{PROGRAM}<|input|>3<|plan|>"
    found = NANO.parse_proposal(kind, [task(kind)], f"2 add if<|program|>{OTHER}<|input|>[1, 2]")
    assert found == Proposal(kind, OTHER, "[1, 2]")


def test_nano_code_f_proposal_takes_the_references_program():
    reference = task("code_o")
    assert NANO.propose_prompt("code_f", [reference]) == f"<|propose_f|>{PROGRAM}<|plan|>"
    inputs = [str(i) for i in range(NUM_INPUTS)]
    found = NANO.parse_proposal(
        "code_f", [reference], "<|input|>".join(["2", *inputs]) + "<|message|>add one"
    )
    assert found == Proposal("code_f", PROGRAM, inputs=tuple(inputs), message="add one")


def test_nano_solver_sees_neither_the_answer_nor_hidden_examples():
    o, i, f = (NANO.solve_prompt(task(k)) for k in ("code_o", "code_i", "code_f"))
    assert o == f"<|solve_o|>{PROGRAM}<|input|>3<|think|>"
    assert i == f"<|solve_i|>{PROGRAM}<|output|>4<|think|>"
    shown = "".join(f"<|input|>{n}<|output|>{n + 1}" for n in range(NUM_INPUTS // 2))
    assert f == f"<|solve_f|>add one{shown}<|think|>"


def test_nano_ill_formed_answers_are_none():
    for text in (
        *("", "4", "<|answer|>", "<|answer|>  \n", "<|answer|>4<|answer|>4"),
        *("<|input|>3<|answer|>4", "<|answer|>4<|think|>", "<|answer|>4<|pad|>"),
    ):
        assert NANO.parse_answer(task("code_o"), text) is None, text


@pytest.mark.parametrize("kind", ["code_o", "code_i", "code_f"])
def test_nano_ill_formed_proposals_are_none(kind):
    one = f"2<|program|>{PROGRAM}<|input|>1"
    six, add = "<|input|>".join("p123456"), "<|message|>add"
    for text in (
        *("", PROGRAM, f"{PROGRAM}<|input|>1", f"{one}<|input|>2", f"{one}<|output|>2"),
        *(f"2<|program|>{PROGRAM}<|output|>1", one.replace("2<", "2<|plan|>add<", 1)),
        *(f"2<|program|>{PROGRAM}{one[1:]}", add, "<|input|>".join("p12345") + add),
        *(f"{six}<|input|>7{add}", six, f"{six}{add}<|message|>one", f"{six}{add}<|input|>7"),
        *(six.replace("1", "1<|output|>2") + add, six.replace("p", "p<|plan|>") + add),
    ):
        assert NANO.parse_proposal(kind, [task("code_o")], text) is None, text
