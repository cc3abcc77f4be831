"""Tests of whole programs as data sets have them: what passes, fails or deceives."""

import base64
import json
import pickle
import tomllib
import tracemalloc
import zlib
from pathlib import Path

import pytest
from meanwhile import dying

from code_verifier import CodeVerifierError, Grade, SandboxUnavailable, rewards, scripts
from code_verifier.jail import server
from code_verifier.scripts.grades import equal_output, run_tests
from code_verifier.scripts.suites import read_tests

_FILE = Path(__file__).parent / "corpus" / "unit_tests.toml"
CORPUS = tomllib.loads(_FILE.read_text(encoding="utf-8"))
CHECKS = tomllib.loads(_FILE.with_name("checks.toml").read_text(encoding="utf-8"))


def packed(data):
    """Hidden tests as LiveCodeBench has them."""
    return base64.b64encode(zlib.compress(data)).decode()


MBPP = {
    "test_list": [
        "assert set(shared((3, 4, 5), (5, 4))) == set((4, 5))",
        "assert math.isclose(shared((1,), (1,))[0], 1.0), 'a message'",
        "assert all(x in shared((1, 2), (x,)) for x in (1, 2))",
    ],
    "test_imports": ["import math"],
    "test_setup_code": "",
}
SHARED = "def shared(a, b):\n    return tuple(set(a) & set(b))"
ECHO = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7.0"]}
ADDS = "print(sum(map(int, input().split())))"
CALLS = {"entry_point": "add", "inputs": [[1, 2], [[1], [2]]], "outputs": [3, [1, 2]]}
ADD = "def add(a, b):\n    return a + b"


@pytest.mark.parametrize(
    ("row", "right", "wrong"),
    [
        (MBPP, SHARED, "def shared(a, b):\n    return a"),
        ({"test_list": ["assert sum(10, 5) == 15"]}, "def sum(a, b): return a + b", ""),
        ({"assert_case": ["assert f(2) > 1.9"]}, "import numpy\ndef f(x): return numpy.float64(x)",
         "def f(x): return -x"),
        ({"test_list": ["assert f() == [1.5, 2.5]"]},
         "import numpy as np\ndef f(): return list(np.array([1.5, 2.5]))",
         "import numpy as np\ndef f(): return list(np.array([1.5, 2.6]))"),
        ({"test_list": ["assert Solution().g(1) == {'a': 1}"]},
         "class Solution:\n    def g(self, x): return {'a': x}", "class Solution: pass"),
        ({"test_list": ["assert not f(1)"]}, "def f(x): return []", "def f(x): return object()"),
        ({"entry_point": "twice", "test": "METADATA = {'author': 'x'}\n\n\ndef check(candidate):\n"
          "    import math\n    big = 10\n    assert True, 'says nothing'\n"
          "    assert candidate(big) == math.floor(20.5), 'a message'\n    print\n"},
         "def twice(x): return 2 * x", "def twice(x): return x"),
        ({"entry_point": "total", "test": CORPUS["tests"]["loop"]},
         "def total(x): return sum(x)\ndef halved(x): return x // 2", "def total(x): return x[0]"),
        (ECHO, ADDS, ADDS.replace("sum", "max")),
        ({"input_output": json.dumps(ECHO)}, ADDS, "print(3)"),
        (CALLS, ADD, "def add(a, b): return 3"),
        ({"fn_name": "add", "inputs": ["1\n2", "'a', 'b'"], "outputs": ["3", "'ab'"]}, ADD,
         "def add(a, b): return b"),
        (CALLS, "class Solution:\n    def add(self, a, b): return a + b", "class Solution: pass"),
        ({"fn_name": "presses", "inputs": [["LOL"]], "outputs": [[9]]}, "def presses(t): return 9",
         "def presses(t): return 8"),
        ({"fn_name": "g", "inputs": [[{"1": "a"}]], "outputs": [[{"2": "b"}]]},
         "def g(d): return {k + 1: 'b' for k in d}", "def g(d): return d"),
        ({"fn_name": "g", "inputs": [[1]], "outputs": [[[1, 2], [3, 4]]]},
         "def g(x): return [(x, 2), (3, 4)]", "def g(x): return [(x, 2), (3, 5)]"),
        ({"inputs": ["\ud800"], "outputs": ["1"]}, "print(len(input()) // 3)", "print(input())"),
        ({"inputs": [["1 2", "3"]], "outputs": [["3", "3"]]},
         "print(sum(map(int, input().split())))\nprint(input())\nexit()", ADDS),
        ({"public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
          "private_tests": {"input": ["3 4\n"], "output": ["7\n"]},
          "generated_tests": {"input": [], "output": []}}, ADDS, "print(3)"),
        ({"public_test_cases": '[{"input": "1\\n2", "output": "3", "testtype": "functional"}]',
          "metadata": json.dumps({"func_name": "add"})},
         "class Solution:\n    def add(self, a: int, b: int) -> Optional[int]: return a + b", ADDS),
        ({"public_test_cases": [], "private_test_cases": packed(pickle.dumps(json.dumps(
            [{"input": "1 2", "output": "3", "testtype": "stdin"}])))}, ADDS, "print(4)"),
        ({"entry_point": "f", "inputs": [[10**5000]], "outputs": [10**5000 + 1]},
         "def f(x): return x + 1", "def f(x): return x"),
        ({"test_list": ["assert math.isclose(f(2), 4.0)"]}, "def f(x): return x * x",
         "class math:\n    isclose = lambda *x: True\ndef f(x): return 0"),
        ({"test_list": ["assert gcd(4, 6) == 2", "assert np.isclose(gcd(8, 6), 2)"]},
         "import numpy as np\nimport math\ndef gcd(a, b): return math.gcd(a, b)",
         "class np:\n    isclose = lambda *x: True\ndef gcd(a, b): return 2 if a == 4 else 1"),
        (CALLS | {"entry_point": "first"},
         "def first(a: List[int], b: Deque): return a + b", "def first(a): return a"),
    ],
)  # fmt: skip
def test_right_and_wrong_programs(runner, row, right, wrong):
    if "numpy" in right:
        pytest.importorskip("numpy")
    tests = read_tests(row)
    assert run_tests(runner, right, tests, 2.0).score == 1.0
    found = run_tests(runner, wrong, tests, 2.0)
    assert (found.score, found.judged) == (0.0, True)
    assert found.reason


def defined(program):
    """A program with the definitions of the classes that it uses."""
    definitions = CORPUS["definitions"].items()
    return "".join(text for name, text in definitions if f"{name}(" in program) + program


@pytest.mark.parametrize("name", CORPUS["lies"])
@pytest.mark.parametrize(
    "row",
    [
        {"test_list": ["assert f(3) == 4"]},
        {"test_list": ["assert abs(f(3) - 4) < 1e-6"]},
        {"test_list": ["assert set([f(3)]) == set([4])"]},
        {"test_list": ["assert all(f(x) == x + 1 for x in (3, 4))"]},
        {"entry_point": "f", "test": "def check(f):\n    for x in [3]: assert f(x) == x + 1"},
    ],
)
def test_a_deceitful_program_fails(runner, name, row):
    found = run_tests(runner, defined(CORPUS["lies"][name]), read_tests(row), 0.15)
    assert (found.score, found.judged) == (0.0, True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "no tests; found nothing"),
        ({"test_list": ["print(1)"]}, "one assert statement"),
        ({"entry_point": "f", "test": "def checks(f):\n    assert f(1)"}, "expected def check"),
        ({"test_list": ["assert f(1)"], "test_setup_code": "import"}, "set-up"),
        ({"test_list": ["assert f(1) == 0x" + "9" * 5000]}, "cannot be written down"),
        ({"input_output": "{"}, "not JSON"),
        ({"inputs": ["1"], "outputs": []}, "1 inputs and 0 outputs"),
        ({"inputs": ["1"], "outputs": [1]}, "expected texts"),
        ({"entry_point": "f", "inputs": [[1]], "outputs": [object()]}, "no data"),
        ({"entry_point": "f", "inputs": ["9" * 5000], "outputs": ["1"]}, "digits"),
        ({"private_test_cases": "eJw="}, "cannot be unpacked"),
        ({"private_test_cases": packed(b"cos\nsystem\n(S'true'\ntR.")}, "names os.system"),
        ({"private_test_cases": packed(pickle.dumps(7))}, "hold int"),
        (
            {"public_test_cases": '[{"input": "1", "output": "1", "testtype": "functional"}]'},
            "func_name",
        ),
        ({"public_tests": [1]}, "expected an object"),
        ({"entry_point": "f", "inputs": [1], "outputs": [1]}, "list of arguments"),
        ({"entry_point": "f", "inputs": ["2"], "outputs": ["two"]}, "its output 'two' is neither"),
    ],
)
def test_a_row_without_tests_is_an_error(row, message):
    with pytest.raises(CodeVerifierError, match=message):
        read_tests(row)


def fence(program):
    return f"Here it is:\n```python\n{program}\n```"


def test_the_reward_of_a_batch():
    reward = rewards.tests_reward()
    assert reward.__name__ == "tests_reward"
    rows = [MBPP, MBPP, ECHO, CALLS | {"inputs": json.loads(json.dumps(CALLS["inputs"]))}]
    names = {name for row in rows for name in row}
    columns = {name: [row.get(name) for row in rows] for name in names}
    chat = [{"role": "assistant", "content": fence(ADD)}]
    completions = [fence(SHARED), "no code", fence(ADDS), chat]
    found = reward(prompts=["p"] * 4, completions=completions, trainer_state=None, **columns)
    assert found == [1.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("how", CORPUS["judge"])
def test_contest_programs_run_as_on_a_judge(how):
    if how == "sortedcontainers":
        pytest.importorskip(how)
    row = {"inputs": ["6"], "outputs": ["6"]}
    assert rewards.compute_score("contest", fence(CORPUS["judge"][how]), row) == 1.0


def test_a_value_that_is_large_in_memory_is_read_in_proportion(runner):
    tests = read_tests({"test_list": ["assert f(170_000) == [1] * 170_000"]})
    tracemalloc.start()
    try:
        assert run_tests(runner, "def f(n): return [1] * n", tests, 6.0).score == 1.0
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", CORPUS["runs"], ids=lambda case: case["name"])
def test_a_test_that_looks_at_more_than_data(runner, case):
    tests = read_tests({"entry_point": "f", "test": f"def check(candidate):\n{case['test']}"})
    assert run_tests(runner, case["right"], tests, 2.0) == Grade(1.0, "", 1, 1)
    found = run_tests(runner, case["wrong"], tests, 2.0)
    assert (found.score, found.judged) == (0.0, True)
    assert found.reason


def programs(part):
    """Each form of a test with each program that is for it."""
    shared = CHECKS[part].items()
    return [(form, text) for forms, texts in shared for form in forms.split() for text in texts]


HONEST = dict(reversed(programs("honest")))
DECEITS = [
    {"name": f"{name}: {form}", "form": form, "program": program}
    for name, program in CORPUS["deceits"].items()
    for form in ("is", "are", "listed", "close")
]


IMPORTS = "import math, operator, statistics, datetime, fractions\nfrom decimal import Decimal\n"


@pytest.mark.parametrize(
    "loop",
    [
        "for n in range(2):\n        n = candidate(n)\n        assert n == 5",
        "for n in range(2):\n        assert all(n == 5 for n in [candidate(n)])",
        "for n in range(2):\n        assert (lambda n: n == 5)(candidate(n))",
        "range = lambda n: [candidate(n)]\n    for n in range(2):\n        assert n == 5",
        "global n\n    for n in range(2):\n        rebind(candidate)\n        assert n == 5",
    ],
)
def test_what_only_looks_like_a_counter_is_judged(runner, loop):
    rebind = "def rebind(candidate):\n    global n\n    n = candidate(n)\n"
    tests = read_tests({"entry_point": "f", "test": f"{rebind}def check(candidate):\n    {loop}"})
    assert run_tests(runner, "def f(x): return 5", tests, 2.0).score == 1.0
    assert run_tests(runner, defined("def f(x): return Opaque()"), tests, 2.0).score == 0.0


def graded(runner, form, program, imports=IMPORTS):
    """The grade by a test of a form, with numpy if the form or the program names it."""
    condition = CHECKS["forms"][form]
    if form == "Frac":  # which the test uses without importing it
        imports = ""
    if "np." in condition or "numpy" in program:
        pytest.importorskip("numpy")
        imports += "import numpy as np\n"
    check = f"def check(candidate):\n    for n in range(1, 4):\n        assert {condition}"
    program = CHECKS["eq"] + program if "Eq" in program else program
    return run_tests(
        runner, program, read_tests({"entry_point": "f", "test": imports + check}), 0.6
    )


@pytest.mark.parametrize("cheat", CORPUS["cheats"] + DECEITS, ids=lambda cheat: cheat["name"])
def test_no_cheap_trick_passes_a_test_in_its_process(runner, cheat):
    form = cheat["form"]
    assert graded(runner, form, HONEST[form], imports="").score == 1.0
    assert graded(runner, form, defined(cheat["program"]), imports="").score == 0.0


@pytest.mark.parametrize(("form", "program"), programs("cheats"))
def test_no_value_class_or_name_of_the_program_answers_for_the_test(runner, form, program):
    grade = graded(runner, form, program)
    assert (grade.score, grade.judged) == (0.0, True)
    assert "No module named" not in grade.reason


@pytest.mark.parametrize(("form", "program"), programs("honest"))
def test_right_values_of_many_types_pass(runner, form, program):
    assert graded(runner, form, program) == Grade(1.0, "", 1, 1)


@pytest.mark.parametrize("case", CHECKS["objects"])
def test_right_objects_pass(runner, case):
    imports = ""
    if "np." in case["test"]:
        pytest.importorskip("numpy")
        imports = "import numpy as np\n"
    row = {"entry_point": "f", "test": f"{imports}def check(candidate):\n{case['test']}"}
    assert run_tests(runner, case["right"], read_tests(row), 3.0) == Grade(1.0, "", 1, 1)


HEAD = "def g(x):\n    'Doubles.'\n"
HUMAN = {
    "prompt": HEAD,
    "canonical_solution": "    return 2 * x\n",
    "entry_point": "g",
    "test": "def check(candidate):\n    assert candidate(2) == 4",
}


def test_rows_of_the_hub_as_trl_calls_the_reward():
    """TRL leaves the column `prompt` out, and hands texts or chats as `prompts`."""
    pytest.importorskip("numpy")
    row = HUMAN | {"test": CORPUS["tests"]["plus"]}
    answers = {
        HEAD + "    return 2 * x\n": 1.0,
        "def g(x): return None": 0.0,
        "def g(x): raise ValueError": 0.0,
        "def g(x): return 2": 0.0,
        "from unittest.mock import ANY\ndef g(x): return ANY": 0.0,
        "def g(x): return 2 * x + (x == 1)": 0.0,
    }
    columns = {name: [row[name]] * 6 for name in row if name != "prompt"}
    texts = [[{"role": "assistant", "content": fence(program)}] for program in answers]
    for prompt in (HEAD, [{"role": "user", "content": "Double it."}]):
        scores = rewards.tests_reward()(prompts=[prompt] * 6, completions=texts, **columns)
        assert scores == [*answers.values()]
    assert rewards.compute_score("plus", fence(HEAD + "    return 2 * x\n"), row) == 1.0


@pytest.mark.parametrize("prompt", ["Double it.", [{"role": "user", "content": "x"}], None, HEAD])
def test_a_row_whose_solution_cannot_be_put_together_is_not_blamed(prompt):
    """Its solution is the body of a function whose head only a prompt that is Python has."""
    row = HUMAN | {"prompt": prompt, "task_id": str(prompt)}
    assert rewards.check_row(row) == (Grade(1.0, "", 1, 1) if prompt == HEAD else None)
    columns = {name: [value] for name, value in row.items() if name != "prompt"}
    reward = rewards.tests_reward()
    assert reward(completions=[fence("def g(x): return 0")], prompts=[prompt], **columns) == [0.0]


def test_a_byte_order_mark_is_no_part_of_a_program(runner):
    assert runner.run("\ufeffprint(6)", "", cpu_s=2.0).output == b"6\n"
    assert run_tests(runner, f"\ufeff{ADD}", read_tests(CALLS), 2.0).score == 1.0
    assert rewards.compute_score("contest", fence(f"\ufeff{ADDS}"), ECHO) == 1.0


@pytest.mark.parametrize(
    "returned", ["map(int, a)", "(x for x in a)", "dict(zip(a, a)).values()", "iter(a)"]
)
def test_an_iterator_is_a_list_but_for_livecodebench(runner, returned):
    program = f"def g(a): return {returned}"
    case = {"input": "[1, 2]", "output": "[1, 2]", "testtype": "functional"}
    official = {"public_test_cases": json.dumps([case]), "metadata": '{"func_name": "g"}'}
    assert run_tests(runner, program, read_tests(official), 2.0).score == 0.0
    usual = {"entry_point": "g", "inputs": [[[1, 2]]], "outputs": [[1, 2]]}
    assert run_tests(runner, program, read_tests(usual), 2.0).score == 1.0


def test_a_name_that_contests_have_is_not_the_programs(runner):
    """Though it is the first that assertions call."""
    tests = read_tests({"test_list": ["assert isclose(sum(f(x) for x in (1, 2)), 6.0)"]})
    assert run_tests(runner, "def f(x): return 2 * x", tests, 2.0).score == 1.0
    deceit = "isclose = lambda *a: True\ndef f(x): return 0"
    assert run_tests(runner, deceit, tests, 2.0).score == 0.0


def test_what_honest_programs_do_passes_in_the_process_of_a_test(runner):
    """Its classes compare themselves, and libraries that look for their callers go on."""
    case = CORPUS["honest"]
    tests = read_tests({"entry_point": "f", "test": case["test"]})
    assert run_tests(runner, case["program"], tests, 2.0) == Grade(1.0, "", 1, 1)


def test_large_values_are_compared_though_their_texts_do_not_fit(runner):
    wanted = list(range(100_000))
    tests = read_tests({"fn_name": "f", "inputs": [[100_000]] * 3, "outputs": [wanted] * 3})
    assert run_tests(runner, "def f(n): return [*range(n)]", tests, 6.0).score == 1.0
    assert run_tests(runner, "def f(n): return [*range(1, n)]", tests, 6.0).score == 0.0


def test_the_score_of_verl():
    assert rewards.compute_score("taco", fence(ADDS), json.dumps(ECHO)) == 1.0
    assert rewards.compute_score("mbpp", fence(ADD), MBPP, {"index": 3}) == 0.0
    task = {"kind": "code_i", "program": "def f(x):\n    return x * x", "output": "9"}
    assert rewards.compute_score("ours", "<answer>-3</answer>", task) == 1.0
    for wrong in ("{", 7, "{}"):
        with pytest.raises(CodeVerifierError):
            rewards.compute_score("taco", "", wrong)


def test_a_fault_of_the_sandbox_is_no_reward(monkeypatch):
    """Its processes are killed for as long as a program runs in them."""
    monkeypatch.setattr(rewards, "_faults", [])
    row = {"inputs": ["", ""], "outputs": ["1", "2"]}
    endless = fence("while True: pass")
    with dying(rewards.shared_runner()._pool):
        columns = {name: [value] for name, value in row.items()}
        with pytest.warns(UserWarning, match=r"not judged: .* lost: .*`code-verifier doctor`"):
            assert rewards.tests_reward()([endless], **columns) == [None]
        assert rewards.tests_reward()([endless], **columns) == [None]  # no second warning
        with pytest.raises(SandboxUnavailable, match="not judged"):
            rewards.compute_score("taco", endless, row)
    assert rewards.tests_reward()([fence("print(1)")], inputs=[[""]], outputs=[["1"]]) == [1.0]


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        ("1.50\n", "1.5", True), ("1.5e0", "01.5", True), ("1  2", "1 2", True),
        (" a \n b\n\n", "a\nb", True), ("1.5000001", "1.5", False), ("YES", "Yes", False),
        ("a  b", "a b", False), ("a\n\nb", "a\nb", False), ("", "", True), ("1 x", "1.0 x", False),
        ("NaN", "nan", False), ("1e999999999", "1", False), ("sNaN", "1", False),
        ("Infinity", "inf", True), ("1", "1 2", False),
    ],
)  # fmt: skip
def test_outputs_by_the_decimal_rule(found, expected, same):
    assert equal_output(found, expected) is same


@pytest.mark.parametrize(
    "wait",
    [
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        "import threading\nthreading.Thread(target=threading.Event().wait).start()",
        "import threading\nwhile True: threading.Event().wait(0.5)",
    ],
)
def test_a_program_that_only_waits_is_ended(runner, wait, monkeypatch):
    """Within ten seconds, whatever processor time it may take; within a few beats here."""
    assert scripts.runner._IDLE_S + server._BEAT_S < 10.0
    monkeypatch.setattr(scripts.runner, "_IDLE_S", 0.2)
    run = runner.run(wait, "", cpu_s=3600.0)
    assert (run.status, run.reason) == ("timeout", "waited for something that does not come")


SOLVED = {"test_list": ["assert f(1) == 2"], "code": "def f(x): return x + 1"}
FUNCTION = {"kind": "code_f", "inputs": ["1", "2"], "outputs": ["2", "3"], "visible": 1}
ADDS_ONE = "def f(x):\n    return x + 1"


@pytest.mark.parametrize(
    ("row", "score"),
    [
        (SOLVED, 1.0),
        (SOLVED | {"code": "def f(x): return x"}, 0.0),
        ({"test_list": ["assert f(1) == 2"]}, None),
        (HUMAN, 1.0),
        (HUMAN | {"canonical_solution": "    return x\n"}, 0.0),
        (ECHO | {"solutions": {"language": [1, 3], "solution": ["int x;", ADDS]}}, 1.0),
        (ECHO | {"solution": fence("print(3)")}, 0.0),
        ({"kind": "code_o", "program": ADDS_ONE, "input": "1", "output": "2"}, 1.0),
        ({"kind": "code_i", "program": ADDS_ONE, "input": "1", "output": "3"}, 0.0),
        (FUNCTION | {"program": ADDS_ONE}, 1.0),
        (FUNCTION | {"program": ADDS_ONE.replace("1", "2")}, 0.0),
    ],
)
def test_a_row_proves_itself(row, score):
    grade = rewards.check_row(row)
    assert (grade and grade.score) == score


def test_rewards_name_a_row_that_no_answer_solves():
    """TRL also gives a reward its trainer's state, which is no column."""
    row = {"id": 7, "test_list": ["assert h(1) == 3"], "code": "def h(x): return x"}
    columns = {name: [value] * 2 for name, value in row.items()}
    columns["trainer_state"] = object()
    reward = rewards.tests_reward()
    with pytest.warns(UserWarning, match="row 7: not even its own solution passes"):
        assert reward([fence("def h(x): return 1")] * 2, **columns) == [0.0, 0.0]
    assert reward([fence("def h(x): return 2")] * 2, **columns) == [0.0, 0.0]  # once
    other = row | {"test_list": ["assert h(2) == 3"]}
    with pytest.warns(UserWarning, match="own solution"):
        assert rewards.compute_score("mbpp", fence("def h(x): return 1"), other) == 0.0
