"""Templates: what they write comes back, and is read where it can mean one thing only.

All texts here are our own; the habits in them are those of published completions.
"""

from dataclasses import replace

import jinja2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from code_verifier import Proposal, Task
from selfplay.errors import ConfigError
from selfplay.tasks import azr, nano
from selfplay.tasks.azr import chat_frame
from selfplay.tasks.reading import Fence, fenced, fences
from selfplay.tasks.template import AZR, NANO

PROGRAM = "def f(a):\n    b = a + 1\n    return b"
OTHER = "def f(x):\n    return x[::-1]"
PAIR = "def f(x, y):\n    return x - y"
INPUTS = tuple(str(i) for i in range(azr.NUM_INPUTS))
OUTPUT = Task("code_o", PROGRAM, "3", "4")
INPUT = Task("code_i", PROGRAM, "3", "4")
FUNCTION = Task(
    "code_f", PROGRAM, None, None, INPUTS, tuple(str(i + 1) for i in range(10)), "add one", 5
)
TASKS = (OUTPUT, INPUT, FUNCTION)


def block(name, content):
    return f"```{name}\n{content}\n```"


def answer(body, thought="well, now"):
    return f"{thought}</think>\n<answer>{body}</answer>"


PROPOSED = f"{block('python', OTHER)}\n{block('input', '[1, 2]')}"


def proposal(text, kind="code_o"):
    return AZR.kind(kind).parse_proposal((OUTPUT,), text)


def test_a_proposer_sees_the_references_and_continues_the_thought():
    for kind in ("code_o", "code_i"):
        shown = [Task(kind, PROGRAM, "3", "4"), Task(kind, OTHER, "[5]", "[5]")]
        prompt = AZR.propose_prompt(kind, shown)
        assert prompt.endswith("Assistant: <think>")
        for task in shown:
            assert block("python", task.program) in prompt
            assert block("input", task.input) in prompt


def test_a_solver_sees_neither_the_answer_nor_hidden_examples():
    o, i, f = (AZR.solve_prompt(task) for task in TASKS)
    assert block("input", "3") in o
    assert "```output\n" not in o
    assert block("output", "4") in i
    assert "```input\n" not in i
    assert block("input", "4") in f
    assert block("input", "5") not in f
    assert block("message", "add one") in f
    assert PROGRAM not in f


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.kind)
def test_no_solver_is_answered_by_its_own_prompt(task):
    request = AZR.solve_prompt(task)
    for echo in (request, f"{request}</think>{request}", answer(request)):
        assert AZR.kind(task.kind).parse_answer(task, echo) is None


class Tokenizer:
    """As much of a tokenizer as a chat frame needs."""

    def __init__(self, write):
        self.chat_template = "there is one"
        self.write = write

    def apply_chat_template(self, turns, *, tokenize, add_generation_prompt, strftime_now):
        assert not tokenize
        assert add_generation_prompt
        return self.write(turns)


def turned(turns):
    return "".join(f"[{t['role']}] {t['content']}\n" for t in turns) + "[assistant] "


def test_the_chat_frame_asks_for_the_form_and_opens_the_thought():
    prompt = replace(AZR, frame=chat_frame(Tokenizer(turned), "m")).solve_prompt(OUTPUT)
    assert prompt.startswith("[user] ```python\n")
    assert "<answer> </answer>" in prompt
    assert prompt.endswith("[assistant] <think>")
    for end, wanted in (
        ("<think>\n", "<think>\n"),  # it is not opened twice
        ("<think>\n\n</think>\n\n", "<think>"),  # an empty thought, of models that may do without
        ("</think>", "<think>"),
    ):
        frame = chat_frame(Tokenizer(lambda turns, end=end: turned(turns) + end), "m")
        assert frame("x").endswith(f"[assistant] {wanted}")
        assert frame("x").count("think>") == 3, "two in the form that is asked for"


CHANGES = ("tojson", "e", "upper", "striptags", "truncate", "wordwrap", "replace('\\t', ' ')")


def rendered(change):
    """A tokenizer whose template puts the user's text through this filter of Jinja."""
    template = jinja2.Template(f"[user] {{{{ text | {change} }}}} [assistant] ")
    return Tokenizer(lambda turns: template.render(text=turns[0]["content"]))


def refuse(turns):
    raise ValueError("roles must alternate\nmore")


def test_a_chat_template_that_cannot_be_used_is_refused_at_once():
    for tokenizer, words in (
        (None, "the tokenizer of m has no chat template; use template=azr"),
        (Tokenizer(refuse), "the chat template of m refuses a prompt: roles must alternate; use"),
        (Tokenizer(lambda turns: "hello"), "the chat template of m leaves the user's text out"),
        *((rendered(how), "leaves the user's text out or changes it; use") for how in CHANGES),
    ):
        with pytest.raises(ConfigError, match=words):
            chat_frame(tokenizer, "m")


FOUR = block("output", "4")
OUTPUTS = [
    answer(FOUR),
    answer(f"It is {block('output', '  4 ')} for sure."),
    answer(FOUR).replace("\n", "\r\n"),
    # the last answer counts, and so does the last fence of its name in it
    answer(block("output", "3") + "\nno:\n" + FOUR),
    answer(block("output", "3")) + answer(FOUR, ""),
    f"t</think><answer>a <answer>{FOUR}</answer>",
    # the thought is not closed, closed late or twice; tags are missing, half there or spelt freely
    f"<answer>{FOUR}</answer>",
    f"no</think> wait </think><answer>{FOUR}</answer>",
    f"I could write <answer>3</answer></think>{FOUR}",
    f"so b = 4\n{block('Outputs', '4')}",
    f"thought</THINK>\n< Answer >{FOUR}</ answer>",
    # in an answer that is marked, what can only be the answer needs no fence of its name
    answer(block("python", "4")),
    answer("\n 4 \n"),
    answer(block("output", "Output: 4")),
    # fences as Markdown has them, and as models write them
    *(answer(text) for text in ("~~~output\n4\n~~~", "```output\n4```", "```output 4```")),
    answer("1. So:\n   ```output\n   4\n   ```\nDone."),
    answer(f"```\n{FOUR}\n```"),
    answer(f"```python\nx = 1\n{FOUR}"),
]
NO_OUTPUTS = [
    *("", "</think>", "so the output is 4", answer(""), answer("it is four")),
    *(answer(text) for text in ("```output\n4", "use ```x``` here", block("output", "  "))),
    *(answer(block("input", "4")), f"draft:\n{block('', '4')}", f"draft:\n{block('python', '4')}"),
]
PROGRAMS = [
    *(answer(block(name, PROGRAM)) for name in ("python", "", "PYTHON", "python title=a")),
    answer(f"\n{PROGRAM}\n"),
    f"Let me see.\n\n{block('Python3', PROGRAM)}\n\nThis adds one.",
    answer(block("python", block("ipython", PROGRAM))),
    answer(f"```python\n{block('python', PROGRAM)}"),
    answer(block("python", PROGRAM) + " and so on"),
]
NO_PROGRAMS = [
    answer(text) for text in ("", "add one", block("message", "add"), block("", "a + 1"))
]


def test_an_answer_is_read_where_it_can_mean_one_thing_only():
    for task, gold, texts in (
        *((OUTPUT, "4", OUTPUTS), (OUTPUT, None, NO_OUTPUTS)),
        *((FUNCTION, PROGRAM, PROGRAMS), (FUNCTION, None, NO_PROGRAMS)),
    ):
        read = {text: AZR.kind(task.kind).parse_answer(task, text) for text in texts}
        assert read == dict.fromkeys(texts, gold)


def test_an_input_is_brought_between_the_parentheses():
    for written, program, read in (
        *(("3", PROGRAM, "3"), ("input: 3", PROGRAM, "3"), ("# Input:\n3", PROGRAM, "3")),
        *(("f(3)", PROGRAM, "3"), ("f(3, y=[1])", PAIR, "3, y=[1]"), ("(3, 4)", PAIR, "3, 4")),
        *(("(3, 4)", PROGRAM, "(3, 4)"), ("(3, 4),", PAIR, "(3, 4),"), ("(3), (4)", PAIR, "3, 4")),
        *((text, PROGRAM, text) for text in ("input=3", "'a: b'", "g(3)", "3)", "3  # three")),
        ("(" * 500, PROGRAM, "(" * 500),
    ):
        task = Task("code_i", program, "3", "4")
        text = answer(block("input", written))
        assert AZR.kind("code_i").parse_answer(task, text) == read, written


DOCUMENTED = '''def f(a):
    """Adds.

    ```python
    f(1)
    ```
    """
    return a + 1'''


def test_fences_in_a_docstring_do_not_end_the_program():
    text = answer(block("python", DOCUMENTED))
    assert AZR.kind("code_f").parse_answer(FUNCTION, text) == DOCUMENTED


@example("a\n```\nb", "python")
@given(st.text(st.sampled_from("`~ab \n")), st.sampled_from(["python", "input", "message"]))
def test_what_is_fenced_comes_back(content, name):
    content = content.replace("~", "-")
    assert fences(f"before\n{fenced(name, content)}\nafter") == [Fence(name, content)]


READ = [
    answer(PROPOSED),
    answer(f"Here:\n{PROPOSED}\nHave fun.").replace("\n", "\r\n"),
    answer(PROPOSED.replace("```python", "```")),
    answer(f"```markdown\n{PROPOSED}\n```"),
    answer(PROPOSED.replace("[1, 2]", "f([1, 2])")),
    answer(PROPOSED + "\n" + block("output", "[2, 1]")),
    answer(block("python", PROGRAM)) + answer(PROPOSED),
    *(f"I think of a list.{end}\n{PROPOSED}" for end in ("", "</think>")),
    f"A draft:\n{PROPOSED}\nThat is good, so:\n{PROPOSED}",
]
UNREAD = [
    *("", PROGRAM, block("python", OTHER), block("input", "3")),
    # a second program or input: it is not clear which was meant
    *(f"{block('python', PROGRAM)}\n{PROPOSED}", f"{PROPOSED}\n{block('input', '[4]')}"),
    # a copy of the example
    block("python", PROGRAM + "\n") + "\n" + block("input", "input: 3"),
]


@pytest.mark.parametrize("kind", ["code_o", "code_i"])
def test_a_proposal_is_read_where_it_is_a_single_new_one(kind):
    for text in READ:
        assert proposal(text, kind) == Proposal(kind, OTHER, "[1, 2]"), text
    for text in UNREAD:
        assert proposal(answer(text), kind) is None, text
        assert proposal(text, kind) is None, text


def hinted(inputs=INPUTS, *messages):
    parts = [block("input", given) for given in inputs]
    return "\n".join(parts + [block("message", message) for message in messages])


def test_a_code_f_proposal_keeps_the_program_it_was_shown_and_needs_ten_inputs_and_one_message():
    whole = hinted(INPUTS, "add one")
    numbered = (
        "\n".join(block(f"input_{i}", i) for i in INPUTS) + "\n" + block("message", "add one")
    )
    for body in (whole, block("python", PAIR) + "\n" + whole, numbered):
        expected = Proposal("code_f", PROGRAM, inputs=INPUTS, message="add one")
        assert proposal(answer(body), "code_f") == expected
    for parts in (
        *((INPUTS,), (INPUTS[1:], "add one"), ((*INPUTS, "11"), "add one")),
        *((INPUTS, "add one", "again"), (INPUTS, "add one</think>")),
    ):
        assert proposal(answer(hinted(*parts)), "code_f") is None


TAGS = ("</think>", "<think>", "<answer>", "</answer>", "```", "~~~", "<|", "f(", ")", "input:")
FENCES = ("```output\n", "```python\n", "```input\n", "```message\n", "\n", "\r\n")
PIECES = (*TAGS, *FENCES, "4", "é", "    ", "(1, 2)", "\x00", PROGRAM)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_no_text_makes_a_parser_raise(text):
    for task in TASKS:
        found = AZR.kind(task.kind).parse_answer(task, text)
        assert found is None or found.strip()
        read = proposal(text, task.kind)
        assert read is None or read.kind == task.kind


def task(kind, n=nano.NUM_INPUTS):
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
    way = template.kind(kind)
    assert way.parse_answer(mine, way.answer_text(mine, thought)) == gold
    reference = Task("code_o", PROGRAM, "99", "100")
    found = way.parse_proposal([reference], way.proposal_text(mine, thought))
    assert found == Proposal(kind, mine.program, mine.input, mine.inputs, mine.message)


@pytest.mark.parametrize("kind", ["code_o", "code_i"])
def test_nano_prompts_show_the_reference_and_plans_are_not_read(kind):
    prompt = NANO.propose_prompt(kind, [task(kind)])
    assert prompt == f"<|propose_{kind[-1]}|>{PROGRAM}<|input|>3<|plan|>"
    written = f"2 add if<|program|>{OTHER}<|input|>[1, 2]"
    found = NANO.kind(kind).parse_proposal([task(kind)], written)
    assert found == Proposal(kind, OTHER, "[1, 2]")
    assert NANO.propose_prompt("code_f", [task(kind)]) == f"<|propose_f|>{PROGRAM}<|plan|>"


def test_nano_solver_sees_neither_the_answer_nor_hidden_examples():
    o, i, f = (NANO.solve_prompt(task(k)) for k in ("code_o", "code_i", "code_f"))
    assert o == f"<|solve_o|>{PROGRAM}<|input|>3<|think|>"
    assert i == f"<|solve_i|>{PROGRAM}<|output|>4<|think|>"
    shown = "".join(f"<|input|>{n}<|output|>{n + 1}" for n in range(nano.NUM_INPUTS // 2))
    assert f == f"<|solve_f|>add one{shown}<|think|>"


def test_nano_ill_formed_answers_are_none():
    for text in (
        *("", "4", "<|answer|>", "<|answer|>  \n", "<|answer|>4<|answer|>4"),
        *("<|input|>3<|answer|>4", "<|answer|>4<|think|>", "<|answer|>4<|pad|>"),
    ):
        assert NANO.kind("code_o").parse_answer(task("code_o"), text) is None, text


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
        assert NANO.kind(kind).parse_proposal([task("code_o")], text) is None, text
