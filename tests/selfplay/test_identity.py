"""What is recorded of functions and objects of a user's own: the same in any process."""

import importlib
import sys

import pytest
from programs import python

from selfplay.identity import name_of
from selfplay.source_hash import mark_of

REWARD = """
SCALE, NOTE = 2.0, "unused"
def helper(p):
    return SCALE * p.rate
def half(p, power=1, *, floor=-1.0):
    return helper(p) ** power if p.task else floor
"""
CLOSURE = """
def make(rate, names=("a", "b")):
    def reward(p):
        return rate if p.kind in names else [lambda q: q.rate][0](p)
    return reward
reward = make(0.5)
"""
CLASS = """
from dataclasses import dataclass
class Base:
    def __call__(self, p):
        return self.rate(p)
class Judge(Base):
    scale = 2
    def __init__(self, high):
        self.high = high
    def rate(self, p):
        return self.scale * self.high
    @property
    def seen(self):
        return 1
@dataclass(frozen=True)
class Kept:
    high: float = 1.0
    words: frozenset = frozenset({"x", "y", "z"})
    def __call__(self, p):
        return self.high
judge, kept = Judge(0.5), Kept()
"""
WRAPPED = """
import functools
def clipped(low):
    def wrap(function):
        @functools.wraps(function)
        def inner(p):
            return max(low, function(p))
        return inner
    return wrap
@clipped(-1)
def reward(p):
    return p.rate
"""
LAMBDAS = "first, second = (lambda p: 0.5), (lambda p: (lambda q: 0.25)(p))\n"
PATTERN = """
import re
RULE = re.compile("ab+")
def reward(p):
    return float(bool(RULE.match(p.kind)))
"""
PARTIAL = """
from functools import partial
def scaled(p, rate, table):
    return rate * table[p.kind]
reward = partial(scaled, rate=0.5, table={"code_o": 1, "code_i": 2})
"""


@pytest.fixture
def script(tmp_path):
    """Run a text as a script is run, from a file of its own; return what it defines."""

    def run(text, name="script.py"):
        path = tmp_path / name
        path.write_text(text)
        names = {"__name__": "__main__", "__file__": str(path)}
        exec(compile(text, str(path), "exec"), names)
        return names

    return run


@pytest.mark.parametrize(
    ("text", "old", "new", "thing"),
    [
        (REWARD, "p.task else", "not p.task else", "half"),
        (REWARD, "power=1", "power=2", "half"),
        (REWARD, "floor=-1.0", "floor=-0.5", "half"),
        (REWARD, "SCALE * p.rate", "SCALE + p.rate", "half"),  # of a function that it calls
        (REWARD, "SCALE, NOTE = 2.0", "SCALE, NOTE = 3.0", "half"),
        (CLOSURE, "make(0.5)", "make(0.25)", "reward"),
        (CLOSURE, "make(0.5)", 'make(0.5, ["a"])', "reward"),
        (CLOSURE, "q.rate", "-q.rate", "reward"),
        (CLASS, "Judge(0.5)", "Judge(0.25)", "judge"),
        (CLASS, "scale = 2", "scale = 3", "judge"),
        (CLASS, "self.scale * self.high", "self.scale + self.high", "judge"),
        (CLASS, "return self.rate(p)", "return -self.rate(p)", "judge"),  # of the base
        (CLASS, "return 1", "return 2", "judge"),
        (CLASS, "Kept()", 'Kept(words=frozenset({"x"}))', "kept"),
        (WRAPPED, "return p.rate", "return -p.rate", "reward"),
        (WRAPPED, "max(low", "min(low", "reward"),
        (WRAPPED, "@clipped(-1)", "@clipped(0)", "reward"),
        (LAMBDAS, "0.5", "0.75", "first"),
        (LAMBDAS, "0.25", "0.75", "second"),
        (PATTERN, "ab+", "ab*", "reward"),
        (PARTIAL, "rate=0.5", "rate=0.25", "reward"),
        (PARTIAL, '"code_i": 2', '"code_i": 3', "reward"),
        (PARTIAL, "rate *", "rate +", "reward"),
    ],
)
def test_what_differs_in_what_it_does_has_another_name(text, old, new, thing, script):
    assert text.count(old) == 1
    before = name_of(script(text)[thing])
    assert before == name_of(script(text, "copy.py")[thing])
    assert before != name_of(script(text.replace(old, new), "other.py")[thing])


@pytest.mark.parametrize(
    ("text", "old", "new", "thing"),
    [
        (REWARD, "def half(p,", "# paid\n\n\ndef half(p,  # by the half\n    ", "half"),
        (REWARD, "    return helper", '    """Pay."""\n    return helper', "half"),
        (REWARD, '"unused"', '"something else"', "half"),
        (REWARD, "NOTE = 2.0", "rate = 2.0", "half"),  # a global called as an attribute is
        (CLOSURE, "reward = make(0.5)", "other = make(0.25)\nreward = make(0.5)", "reward"),
        (LAMBDAS, "0.5", "0.75", "second"),
        (LAMBDAS, "0.25", "0.75", "first"),
        (PARTIAL, '"code_o": 1, "code_i": 2', '"code_i": 2, "code_o": 1', "reward"),
    ],
)
def test_what_does_the_same_has_the_same_name(text, old, new, thing, script):
    assert text.count(old) == 1
    before = name_of(script(text)[thing])
    assert before == name_of(script(text.replace(old, new), "other.py")[thing])


def test_names_show_what_the_thing_is_called_and_its_numbers(script):
    assert name_of(script(CLOSURE)["reward"]).startswith(":reward(rate=0.5)#")
    assert name_of(script(PARTIAL)["reward"]).startswith(":scaled(rate=0.5)#")
    assert name_of(script(CLASS)["judge"].rate).startswith(":Judge.rate(high=0.5)#")
    secret = script("def make(key):\n    return lambda p: len(key)\nreward = make('sk-1')\n")
    assert "sk-1" not in name_of(secret["reward"])


def test_a_name_is_the_same_in_every_process(tmp_path, script):
    text = CLASS + PARTIAL.replace("reward", "share")
    report = "from selfplay.identity import name_of\nprint(*map(name_of, (judge, kept, share)))\n"
    path = tmp_path / "report.py"
    path.write_text(text + report)
    names = script(text, "other.py")
    expected = " ".join(name_of(names[thing]) for thing in ("judge", "kept", "share"))
    for seed in ("1", "2"):
        assert python(str(path), PYTHONHASHSEED=seed).strip() == expected


def test_a_file_that_was_changed_meanwhile_is_not_the_source(tmp_path, script):
    text = REWARD.replace("floor", "least")  # no other test has looked at it
    changed = text.replace("p.task else", "not p.task else")
    names = script(text)
    (tmp_path / "script.py").write_text(changed)
    late = mark_of(names["half"])
    assert late != mark_of(script(changed)["half"])
    assert late == mark_of(names["half"])


def test_a_function_without_a_file_is_told_from_another():
    def built(text):
        names = {"__name__": "__main__"}
        exec(text, names)
        return name_of(names["f"])

    assert built("def f(p): return 0.5") == built("\ndef f(p):\n    return 0.5")
    assert built("def f(p): return 0.5") != built("def f(p): return 0.25")


def test_only_what_a_fresh_process_imports_is_named_by_its_module(tmp_path, monkeypatch, script):
    monkeypatch.syspath_prepend(tmp_path)
    text = WRAPPED + CLOSURE.replace("reward = ", "closure = ") + CLASS + "brief = lambda p: 1.0\n"
    text += "class Group:\n    @staticmethod\n    def pay(p):\n        return 1.0\n"
    (tmp_path / "of_mine_named.py").write_text(text)
    module = importlib.import_module("of_mine_named")
    for path in ("reward", "closure", "judge", "brief"):
        assert name_of(getattr(module, path)).startswith(f"of_mine_named:{path}")
    assert name_of(module.Group.pay).startswith("of_mine_named:Group.pay#")
    assert name_of(module.make(0.5)).startswith(":reward(rate=0.5)#")
    assert name_of(module.judge.rate).startswith(":Judge.rate")
    assert name_of(script(text)["reward"]).startswith(":reward(low=-1)#")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])
    assert name_of(module.reward).startswith(":reward(low=-1)#")


def test_the_code_of_ones_own_modules_counts_and_that_of_others_by_name(
    tmp_path, monkeypatch, script
):
    monkeypatch.syspath_prepend(tmp_path)
    reward = (
        "import math\nimport of_mine_helper\n"
        "def f(p):\n    return math.sqrt(of_mine_helper.rate(p))\n"
    )
    marks = []
    for number in (1, 1, 2):
        (tmp_path / "of_mine_helper.py").write_text(
            f"def rate(p):\n    return {number}{' ' * len(marks)}\n"
        )
        sys.modules.pop("of_mine_helper", None)
        importlib.invalidate_caches()
        importlib.import_module("of_mine_helper")
        marks.append(mark_of(script(reward)["f"]))
    assert marks[0] == marks[1] != marks[2]
