"""Addresses: programs that show one, the machine code that scrambles and notes them, and what
happens on machines without it."""

import platform
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from meanwhile import serving_after

from code_verifier import Limits, Sandbox, Status, pool
from code_verifier.jail import addresses

HEAD = """
import copy, collections, functools, heapq, itertools, math, re, string, typing
from collections import Counter, OrderedDict, UserList, defaultdict, deque, namedtuple
class Plain:
    def __init__(self, n=0): self.n = n
    def method(self): return self.n
    @property
    def twice(self): return 2 * self.n
    @staticmethod
    def still(): return 1
    def __add__(self, other): return other
class Bare: pass
class Renamed:
    def __repr__(self): return 'renamed'
    del __repr__
class dict: pass
class Child(dict): pass
box = []
def keep(function):
    box.append(function)
    return function
@keep
def kept(n): return n
def generate(): yield 1
def nested():
    def inner(): return 1
    return inner
chain, group, cached = itertools.chain, itertools.groupby, functools.lru_cache
say = str
def message(value):
    try:
        [].index(value)
    except ValueError as error:
        return f'{error} {error.args} {value}'
class Paper:
    text = ''
    def write(self, text): self.text += text
def written(value):
    paper = Paper()
    print(value, file=paper)
    return paper.text
def later(value):
    values, text = [value], ''
    while values:
        text += f'{values.pop()}'
    return text
class Said:
    def __init__(self, value): self.value = value
    def text(self): return '%s' % (self.value,)
"""
"""Classes, functions and aliases that show no address of themselves."""
OBJECTS = (
    """
Plain() | Bare() | Renamed() | Child() | Plain(3).method | Plain.still | Plain.twice.fget
Plain.method | kept | box[0] | nested | nested() | generate() | (n for n in [x]) | lambda: x
Plain() + Plain(1) | deque([x]).popleft | [x].append | {x: 1}.items | (x,).count | 'a'.upper
x.bit_length | iter([x]) | iter('a') | iter({x: 1}) | reversed([x]) | enumerate([x])
zip([x], [x]) | map(abs, [x]) | filter(None, [x]) | chain([x]) | chain.from_iterable([[x]])
group('aab') | next(group('aab'))[1] | itertools.tee([x])[0] | itertools.permutations([x])
itertools.accumulate([x]) | itertools.zip_longest([x], [x]) | itertools.product([x], [x])
functools.partial(kept, x) | functools.wraps | functools.cmp_to_key(kept)(x) | cached(kept)
functools.reduce(lambda a, b: a, [nested, x]) | Counter([x]).elements() | OrderedDict(a=x).items
OrderedDict(a=x).popitem | defaultdict(nested) | re.compile('a').findall | re.match('a', 'a').group
re.compile('a').finditer('a') | re.escape | copy.copy | copy.copy(Bare()) | heapq.merge([x], [x])
string.capwords | typing.cast | property(kept) | staticmethod(kept) | classmethod(kept)
range(x).index | slice(x).indices | b'a'.hex | (1.5).hex | (1j).conjugate | ValueError(kept)
""".strip()
    .replace("\n", " | ")
    .split(" | ")
)
"""Objects whose texts show an address, for a number x."""
BOXES = ["{}", "[{}]", "({}, 1)", "[[{}], 2]", "deque([{}])", "defaultdict(int, a={})"]
TEXTS = [
    "str({})", "repr({})", "ascii({})", "format({})", "f'{{{}}}'", "f'{{{}!r:>60}}'", "f'{{{}=}}'",
    "'%s' % ({},)", "'%r' % ({},)", "'{{}}'.format({})", "'{{0!r}}'.format({})",
    "'{{a}}'.format(a={})", "'{{a}}'.format_map({{'a': {}}})", "''.join(map(str, [{}]))",
    "str([{}])", "message({})", "written({})", "later({})", "say({})", "Said({}).text()",
    "'{{0.n}}'.format(Plain({}))",
]  # fmt: skip
DIGITS = r"re.search(r'0x([0-9a-f]+)', {})[1]"
ENDS = [
    "{}", "{}[-1]", "{}[-3:]", "int({}, 16) % 7", "int({}, 16) // 9 % 1000", "sum(map(ord, {}))",
    "sorted({})", "[digit < '8' for digit in {}]", "len({}.strip('0123456789'))",
    "len(Counter({}))",
]  # fmt: skip
"""What a program makes of the digits of an address."""


def program(rng, value):
    """A program that returns something of the digits that the text of a value shows."""
    shown = rng.choice(TEXTS).format(rng.choice(BOXES).format("value"))
    result = rng.choice(ENDS).format(DIGITS.format("text"))
    return f"{HEAD}def f(x):\n    value = {value}\n    text = {shown}\n    return {result}"


@pytest.mark.parametrize(
    ("rounds", "seed"), [(1, 1), pytest.param(8, 2, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_no_program_that_shows_an_address_is_accepted(sandbox, rounds, seed):
    rng = random.Random(seed)
    texts = [program(rng, value) for value in OBJECTS * rounds]
    verdicts = list(sandbox.check_many((text, "5") for text in texts))
    wrong = [
        f"{text[len(HEAD) :]}\n{verdict}"
        for text, verdict in zip(texts, verdicts, strict=True)
        if verdict.status != Status.NONDETERMINISTIC
    ]
    assert not wrong, "\n".join(wrong)


def test_it_is_the_address_that_gets_sixteen_executions(sandbox):
    runs = {}
    for value in ("x", "str(x)", "kept", "str(kept)[:14]", "[print(kept), 1][1]", "len(f'{kept}')"):
        verdict = sandbox.check(
            f"{HEAD}def f(x):\n    value = {value}\n    return repr(value)[:9]", "5"
        )
        assert verdict.ok, verdict
        runs[value] = verdict.runs
    assert runs == {
        "x": 2,
        "str(x)": 2,
        "kept": 16,
        "str(kept)[:14]": 16,
        "[print(kept), 1][1]": 2,  # there is nothing to print to
        "len(f'{kept}')": 16,
    }


def test_an_address_that_only_a_later_execution_shows_counts():
    """The second has a thirty-second less memory; with more, none shows one."""
    text = (
        f"{HEAD}def f(x):\n    try:\n        return len(bytes(1004 << 20)) > 3\n"
        "    except MemoryError:\n        return len(str(kept)) > 3"
    )
    for memory, runs in ((1024, 16), (4096, 2)):
        with Sandbox(workers=1, limits=Limits(memory_mb=memory)) as sandbox:
            verdict = sandbox.check(text, "1")
        assert (verdict.status, verdict.runs) == (Status.OK, runs)


SOURCE = Path(addresses.__file__).with_suffix(".S")
ROUTINES = ("hash", "none", "id", "text", "kinds")
NAMES = ("SEEN", "FACTOR", "OLD", "NONE", "INTEGER", "FORMAT", "PRINT")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_machine_code_is_that_of_its_source(machine, tmp_path):
    prefixes = [f"{machine}-linux-gnu-", *([""] if platform.machine() == machine else [])]
    prefix = next(
        (p for p in prefixes if shutil.which(f"{p}as") and shutil.which(f"{p}objcopy")), None
    )
    if prefix is None:
        pytest.skip(
            f"no assembler for {machine}: install binutils-{machine.replace('_', '-')}-linux-gnu"
        )
    values = {name: 0x0123456789ABCDEF + number for number, name in enumerate(NAMES)}
    values["TOP"] = addresses._TOP
    symbols = [f"{name}={value}" for name, value in values.items()]
    symbols += ["AARCH64=1"] if machine == "aarch64" else []
    built, code = tmp_path / "addresses.o", tmp_path / "addresses.bin"
    words = [word for symbol in symbols for word in ("--defsym", symbol)]
    subprocess.run([f"{prefix}as", *words, "-o", built, SOURCE], check=True)
    subprocess.run([f"{prefix}objcopy", "-O", "binary", "-j", ".text", built, code], check=True)
    routines = [addresses.routine(machine, name, values) for name in ROUTINES]
    assert code.read_bytes() == b"".join(r + bytes(-len(r) % 16) for r in routines)


LACKING = {
    "unknown machine": "m.addresses._CODE.clear()",
    "broken code": "m.addresses._FORMAT = b'%#lo'",
    "code that crashes": "m.addresses._CODE[m.os.uname().machine]['id'] = '00' * 16",
}
"""Causes for which a server cannot scramble addresses."""


@pytest.fixture(params=LACKING)
def without(request, monkeypatch):
    serving_after(monkeypatch, LACKING[request.param])
    monkeypatch.setattr(pool, "_lacking", {"addresses"})  # no warning
    with Sandbox(workers=1, limits=Limits(wall_s=30.0, cpu_s=10.0)) as sandbox:
        yield sandbox


def test_a_machine_where_addresses_cannot_be_scrambled_says_so(without):
    assert without.missing_determinism() == ("addresses",)
    assert without.check("def f(x):\n    return id(1)", "1").status == Status.NONDETERMINISTIC


@pytest.mark.parametrize("without", ["unknown machine"], indirect=True)
def test_where_addresses_cannot_be_scrambled_what_may_show_one_is_refused(without):
    shown = (
        "id(1) % 32",
        "str(int.mro)[-3:]",
        "f'{f}'[-3]",
        "hash(f) % 8",
        "'%s' % f",
        "repr(f) < ''",
    )
    for text in shown:
        verdict = without.check(f"def f(x):\n    return {text}", "1")
        assert verdict.status == Status.NONDETERMINISTIC, text
        assert 2 <= verdict.runs <= 16
    verdict = without.check("def f(x):\n    return len(repr(f))", "1")
    assert (verdict.status, verdict.runs) == (Status.NONDETERMINISTIC, 16)
    assert "addresses" in verdict.reason
    for text in ("x % 2", "[x] * 3", "'a' + 'b'", "f'a'"):
        assert without.check(f"def f(x):\n    return {text}", "1").runs == 2
    assert without.run("def f(x):\n    return f'{x}'", "1").output == "'1'"
