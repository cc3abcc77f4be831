"""Limits, streams, several inputs and the end of a sandbox; programs by the hundred: `corpus`."""

import random

import pytest

from code_verifier import CodeVerifierError, Limits, Sandbox


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    return [0] * 10**9",
        "def f(x):\n    a = []\n    while True: a.append('x' * 10**6 + str(len(a)))",
        "def f(x):\n    a = []\n    while True: a.append([])",
    ],
    ids=["at once", "in lumps", "in drops"],
)
def test_memory_runs_out(small, program):
    assert small.check(program, "1").status == "memory"


def test_many_are_lazy_and_in_order(sandbox):
    taken = 0

    def pairs():
        nonlocal taken
        while True:
            taken += 1
            yield "def f(x):\n    return x", str(taken)

    stream = sandbox.check_many(pairs())
    assert [next(stream).output for _ in range(30)] == [str(i) for i in range(1, 31)]
    assert taken <= 30 + 8 * sandbox.workers
    stream.close()


@pytest.mark.parametrize(
    ("program", "input"),
    [
        ("def f(s):\n    return list(s)", "{SET}"),
        ("def f(s, *, k):\n    return [*s[0][0], *k[1]]", "([{SET}],), k={1: {SET}}"),
        ("def f(n):\n    return list({SET})", "0"),
        ("def f(ñ):\n    def g():\n        yield from [x for x in {SET}]\n    return [*g()]", "0"),
    ],
    ids=["input", "inside an input", "program", "loop of a program"],
)
def test_a_set_is_in_the_order_of_python(sandbox, program, input):
    numbers = random.Random(1)
    sets = [[8, 0], [59, 35, 22], [1, 2, 3, 17, 33]]
    sets += [[numbers.randint(-9, 300) for _ in range(n)] for n in range(1, 20)]
    texts = ["{" + ", ".join(map(str, members)) + "}" for members in sets]
    pairs = [(program.replace("{SET}", text), input.replace("{SET}", text)) for text in texts]
    for (text, call), verdict in zip(pairs, sandbox.run_many(pairs), strict=True):
        names = {}
        exec(text, names)
        assert (verdict.status, verdict.output) == ("ok", str(eval(f"f({call})", names))), call


@pytest.mark.parametrize(
    ("program", "input", "output"),
    [
        ("def f(op, x):\n    return -x if op is 'minus' else x", "'minus', 2", "-2"),
        ("def f(a, b):\n    return a is b", "1000, 1000", "True"),
        (
            "def f(a):\n    return [x is a[0] for x in a]",
            "['a b', 'a b', 'a c']",
            "[True, True, False]",
        ),
        ("def f(a, b):\n    return a is b, a", "[1], [1]", "(False, [1])"),
        (
            "def f(a, b):\n    return [*a], [*b]",
            "{8, 0, 16}, {16, 8, 0}",
            "([8, 0, 16], [8, 0, 16])",
        ),
        ("def f(x):\n    return x", "-1j", "(-0.0-1.0j)"),
    ],
)
def test_an_input_is_what_python_makes_of_its_text(sandbox, program, input, output):
    assert sandbox.check(program, input).output == output


@pytest.mark.parametrize(
    ("empty", "input"),
    [("s", "set(), 'ad'"), ("s[0]", "[ｓet()], 'ad'"), ("s[0]", "(set(),), 'ad'")],
)
def test_an_empty_set_of_an_input_is_a_source_of_chance(sandbox, empty, input):
    program = f"def f(s, x):\n    {empty}.update(x)\n    return {empty}.pop()"
    assert sandbox.check(program, input).status == "nondeterministic"


def test_wrong_use_is_refused():
    for make in (lambda: Sandbox(workers=0), lambda: Sandbox(runs=1), lambda: Limits(wall_s=-1)):
        with pytest.raises(CodeVerifierError, match="expected"):
            make()


def test_an_endless_input_times_out_alone():
    program = "def f(x):\n    while x == 2: pass\n    return x * 10"
    with Sandbox(workers=1, limits=Limits(wall_s=60.0, cpu_s=0.4)) as sandbox:
        for ask in (sandbox.run_many, sandbox.check_many):
            verdicts = list(ask((program, given) for given in ("1", "2", "3")))
            assert [verdict.status for verdict in verdicts] == ["ok", "timeout", "ok"]
            assert [verdict.output for verdict in verdicts] == ["10", None, "30"]


def test_a_crash_takes_no_other_input_with_it(one):
    program = (
        "def f(x):\n    if x != 2: return x\n    it = iter(())\n"
        "    for _ in range(300_000): it = filter(None, it)\n    del it\n    return x"
    )
    verdicts = list(one.run_many((program, given) for given in ("1", "2", "3")))
    assert [verdict.output for verdict in verdicts][::2] == ["1", "3"]
    assert verdicts[1].status == one.run(program, "2").status


def test_a_program_that_is_no_text_raises_when_its_result_is_read(one):
    stream = one.run_many([("def f(x):\n    return x", "0"), (1, "1")])
    assert next(stream).output == "0"
    with pytest.raises(CodeVerifierError, match="expected a text"):
        next(stream)


def test_integers_have_the_digits_of_the_limits():
    with Sandbox(workers=1, limits=Limits(wall_s=60.0, int_digits=700)) as sandbox:
        program = "def f(x):\n    return len(str(10 ** x))"
        assert sandbox.run(program, "699").output == "700"
        assert sandbox.run(program, "700").status == "exception"
