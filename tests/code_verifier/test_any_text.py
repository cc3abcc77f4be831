"""Whatever text a model writes: no function raises anything but its own error, takes long, or takes
much memory of the caller."""

import random
import resource
import time
import unicodedata

import pytest

from code_verifier import (
    CodeVerifierError,
    Comparison,
    Limits,
    Proposal,
    Sandbox,
    Status,
    Task,
    code_blocks,
    completion_text,
    compute_score,
    grade,
    measure,
    parse_arguments,
    parse_literal,
    parse_program,
    read_value,
    strip_comments,
)
from code_verifier.answers import find_answer, find_program
from code_verifier.grading import leaks, tells
from code_verifier.metrics import fingerprint
from code_verifier.scripts.grades import equal_output
from code_verifier.scripts.runner import read_report

TASK = Task("code_o", "", output="[1, 2]")
ROW = {"kind": "code_o", "output": "{1: 'a'}"}
FUNCTIONS = {
    "parse_literal": parse_literal,
    "parse_arguments": parse_arguments,
    "parse_program": parse_program,
    "strip_comments": strip_comments,
    "measure": measure,
    "fingerprint": fingerprint,
    "read_value": read_value,
    "find_answer": find_answer,
    "find a value": lambda text: find_answer(text, value=True),
    "find_program": lambda text: find_program(text, "f"),
    "code_blocks": code_blocks,
    "completion_text": completion_text,
    "equal_output": lambda text: equal_output(text, "1.5 2\n3"),
    "same": lambda text: Comparison(tolerance=0.1).same(text, [text]),
    "grade": lambda text: grade(TASK, text),
    "compute_score": lambda text: compute_score("", text, ROW),
    "leaks": lambda text: leaks(text, "def f(x):\n    return x"),
    "leaks a program": lambda text: leaks("a message", text),
    "tells": lambda text: tells(text, [("1", "2"), (text, "3")]),
    "read_report": lambda text: read_report(text.encode("utf-8", "replace"), 3),
}
PROGRAMS = (
    "def f(x):\n    return sorted(set(x), key=lambda n: -n)[:3]\n",
    "class A:\n    '''Doc.'''\n    def f(self, a, *b, c=1, **d):\n        return f'{a!r:>{c}}'\n",
    "async def g():\n    async with a as b:\n        yield [i async for i in b if i]\n",
    "match x:\n    case {'a': [1, *r], **k} | A(b=2):\n        pass\n",
    "```python\ndef f(x):\n    '''\n    ```\n    '''\n    return x\n```\n```output\n[1]\n```\n",
    "<think>no</think><answer>```py\nprint(open(0).read())\n```</answer>",
    "[1, -2.5, 'a', b'\\x00', {1: (2,)}, {3}, 1e999, 1j, None, ...]",
    '["int","d","1",1,false,0.1]\n["ok",""]\n',
)
PIECES = (
    *("\0", "\ud800", "\udfff", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\r", "\r\n", "\n"),
    *("(", ")", "[", "]", "{", "}", "'", '"', "'''", '"""', "\\", "```", "~~~", "```python\n", "#"),
    *("<answer>", "</answer>", "</think>", "lambda: ", "not ", "- ", "~", "**", ":=", "f'{", "0x"),
    *("1e400", "nan", "inf", "sNaN", "1E+999999999", "9" * 5000, "0x" + "f" * 4000, "\u0663"),
    *("if 1:\n ", "try: pass\nfinally:\n ", "x=", "await ", "yield ", "@", "*", ",", ".", "%s"),
    *("def f(x): ", "1_0", "\ufeff", "\N{PILE OF POO}"),
)  # fmt: skip
BRACKETS = (("[", "]"), ("(", ")"), ("{1:", "}"), ("f(", ")"), ("-", "1"))


def texts(count, seed):
    """Random Unicode, mutated programs, long literals, deep nesting, and pieces in any order."""
    choose = random.Random(seed)
    for number in range(count):
        match number % 5:
            case 0:
                points = (
                    choose.randrange(choose.choice((128, 0x3000, 0x110000))) for _ in range(80)
                )
                yield "".join(map(chr, points))
            case 1:
                text = list(choose.choice(PROGRAMS))
                for _ in range(choose.randint(1, 6)):
                    place = choose.randrange(len(text))
                    text[place : place + choose.randint(0, 3)] = choose.choice(PIECES)[:40]
                yield "".join(text)
            case 2:
                yield "".join(choose.choices(PIECES, k=choose.randint(1, 30)))
            case 3:
                yield choose.choice(PIECES)[:20] * choose.choice((10, 300, 2000))
            case _:
                piece, end = choose.choice(BRACKETS)
                times = choose.choice((5, 60, 99, 300, 3000))
                yield choose.choice(("", "x = ", "```\n")) + piece * times + "1" + end * times


def tried(function, text):
    """What is wrong with a call, or ""."""
    started = time.process_time()
    try:
        function(text)
    except CodeVerifierError:
        pass
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    spent = time.process_time() - started
    return f"took {spent:.1f} s" if spent > 1.0 else ""


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_text_breaks_or_delays_the_caller(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wrong = [
        f"{name}({text[:60]!r}..., {len(text)} characters): {problem}"
        for text in texts(count, seed=count)
        for name, function in FUNCTIONS.items()
        if (problem := tried(function, text))
    ]
    assert not wrong, "\n".join(wrong[:20])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # KiB


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_text_gets_a_verdict(count):
    """As a program, an input, an answer, a proposal and its message."""
    with Sandbox(workers=2, limits=Limits(wall_s=20.0, cpu_s=0.5)) as sandbox:
        program = "def f(x):\n    return x"
        task = Task("code_f", program, inputs=("1", "2"), outputs=("1", "2"), visible=1)

        def judged(text):
            proposals = (
                Proposal("code_f", text, inputs=("1", "2", "3")),
                Proposal("code_f", program, inputs=("1", text, "3"), message=text),
                Proposal("code_i", program, input=text),
            )
            found = [sandbox.check(text, "1").status, sandbox.check(program, text).status]
            found += [sandbox.validate(proposal).status for proposal in proposals]
            return [*found, sandbox.grade(task, text).status]

        for text in texts(count, seed=7):
            assert Status.SANDBOX_ERROR not in judged(text), unicodedata.normalize("NFC", text)[:80]
