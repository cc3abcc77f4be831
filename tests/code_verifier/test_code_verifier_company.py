"""No verdict depends on which inputs, or which other programs, shared a process: programs made
against that, and fuzzing."""

import ast
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from code_verifier import Limits, Sandbox, Verdict
from code_verifier.jail import separable
from code_verifier.jail.policy import examine
from code_verifier.sandbox import seat

CORPUS = Path(__file__).parent / "corpus"


@pytest.fixture(scope="module")
def short() -> Iterator[Sandbox]:
    """For texts of integers up to 2000 digits."""
    with Sandbox(workers=1, limits=Limits(wall_s=30.0, cpu_s=10.0, int_digits=2000)) as opened:
        yield opened


BUILTINS = {  # ways to the built-in names, which all functions of a process once shared
    "a parameter elsewhere": ("def g(__builtins__=None): pass", "__builtins__"),
    "a name bound in a class": ("class A:\n    __builtins__ = 1", "__builtins__"),
    "a name bound too late": ("def g():\n    global b\n    b = __builtins__\ng()", "b"),
    "an import's other name": ("import math as __builtins__", "__builtins__"),
    "a class body": ("class A:\n    b = __builtins__\n    __builtins__ = 1", "A.b"),
    "globals": ("def g(): pass", "globals()['__builtins__']"),
    "vars": ("def g(): pass", "vars()['__builtins__']"),
    "a function": ("def g(): pass", "g.__globals__['__builtins__']"),
    "a function's own": ("def g(): pass", "g.__builtins__"),
    "a generator": ("def g():\n    yield 1\nit = g()", "it.gi_frame.f_builtins"),
    "a traceback": (
        "def g():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n"
        "        return e.__traceback__.tb_frame.f_builtins",
        "g()",
    ),
    "getattr": ("def g(): pass", "getattr(g, '__glo' + 'bals__')['__builtins__']"),
    "reduce of getattr": (
        "from functools import reduce\ndef g(): pass",
        "reduce(getattr, ['__globals__'], g)['__builtins__']",
    ),
    "attrgetter": (
        "from operator import attrgetter\ndef g(): pass",
        "attrgetter('__glo' + 'bals__')(g)['__builtins__']",
    ),
    "a module's modules": ("import collections", "vars(collections._sys.modules['builtins'])"),
    "a class pattern": (
        "def h(): pass\nT = type(h)\ndef g():\n    match h:\n"
        "        case T(__globals__=d): return d",
        "g()['__builtins__']",
    ),
    "object's lookup": (
        "def g(): pass",
        "object.__getattribute__(g, '__globals__')['__builtins__']",
    ),
    "main guard": ("__name__ = '__main__'\nif __name__ == '__main__':\n    b = __builtins__", "b"),
    "an exception's name": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as __builtins__: pass",
        "__builtins__",
    ),
    "a loop's name": ("def g():\n    for __builtins__ in []: pass", "__builtins__"),
}
OBJECTS = {  # what inputs share, and how it is named
    "module": ("import math", "math"),
    "library function": ("from heapq import nlargest", "nlargest"),
    "function of a module": ("import heapq", "heapq.merge"),
    "library class": ("from collections import Counter", "Counter"),
    "class by an instance": ("from collections import Counter", "type(Counter())"),
    "class by its attribute": ("from collections import OrderedDict", "OrderedDict().__class__"),
    "passed on": (
        "from functools import lru_cache\ndef g(h): return h\nh = g(lru_cache)",
        "h",
    ),
    "function of a partial": (
        "from functools import partial, lru_cache\np = partial(lru_cache)",
        "p.func",
    ),
    "built-in function": ("def g(): pass", "print"),
    "guarded function": ("def g(): pass", "hasattr"),
    "built-in class": ("def g(): pass", "int"),
    "exception": ("def g(): pass", "ValueError"),
    "constant": ("def g(): return (1, 2)", "g()"),
    "base class": ("from collections import deque\nclass A(deque): pass", "A.mro()[1]"),
    "unwrapped": (
        "from functools import cache\nimport heapq\nh = cache(heapq.merge)",
        "h.__wrapped__",
    ),
}
CHANGES = {
    "assigned": "{0}.n = x",
    "added to": "{0}.n = {0}.n + 1 if hasattr({0}, 'n') else x",
    "setattr": "setattr({0}, 'n', x)",
    "a loop": "for {0}.n in [x]: pass",
    "unpacked": "*{0}.n, y = [x, 1]",
    "its dictionary": "vars({0})['n'] = x",
    "its dictionary by name": "{0}.__dict__['n'] = x",
    "type's setter": "type.__setattr__({0}, 'n', x)",
    "object's setter": "object.__setattr__({0}, 'n', x)",
    "a wrapper": "update_wrapper({0}, own)",
    "deleted": "del {0}.n",
}
SEEN = "({0}.n if hasattr({0}, 'n') else 0)"
TRACES = {  # what could be seen of an earlier input without changing anything
    "metaclass by another name": (
        "n = []\nt = type\ndef f(x):\n    A = t('A', (), {'__del__': lambda s: n.append(1)})\n"
        "    for _ in range(3000):\n        a = A(); a.me = a\n    return len(n)"
    ),
    "metaclass of a class": (
        "n = []\nclass B: pass\ndef f(x):\n"
        "    A = type(B)('A', (), {'__' + 'del__': lambda s: n.append(1)})\n"
        "    for _ in range(3000):\n        a = A(); a.me = a\n    return len(n)"
    ),
    "type caught by a comparison": (
        "class L:\n    def __eq__(s, o):\n        s.t = o\n        return True\nn = []\n"
        "def f(x):\n    k = L()\n    type(L) == k\n"
        "    A = k.t('A', (), {'__' + 'del__': lambda s: n.append(1)})\n"
        "    for _ in range(3000):\n        a = A(); a.me = a\n    return len(n)"
    ),
    "a finaliser by a loop": (
        "n = []\nclass A:\n    for __del__ in [lambda s: n.append(1)]: pass\ndef f(x):\n"
        "    for _ in range(3000):\n        a = A(); a.me = a\n    return len(n)"
    ),
    "a flag of a type": "def f(x):\n    return '{0.__flags__}'.format(KeyError)",
    "a flag, composed": "def f(x):\n    return ('{0._' + '_flags_' + '_}').format(KeyError)",
    "a flag, by the class": "def f(x):\n    return str.format('{0.__flags__}', KeyError)",
    "memory, swallowed": (
        "def f(x):\n    k = [0] * (x * 1000000)\n    try:\n        return len([0] * 20000000)\n"
        "    except Exception:\n        return 'full'"
    ),
    "memory, by a class of that name": (
        "def g():\n    class MemoryError(Exception): pass\ndef f(x):\n    try:\n"
        "        return len([0] * (20000000 + x))\n    except MemoryError:\n        return 'full'"
    ),
    "memory, by a class named Exception": (
        "def g():\n    class Exception(ValueError): pass\ndef f(x):\n    try:\n"
        "        return len([0] * (20000000 + x))\n    except Exception:\n        return 'full'"
    ),
    "memory, by finally": (
        "def f(x):\n    try:\n"
        "        return len([0] * (20000000 + x))\n    finally:\n        return 1"
    ),
    "identity of a text": "def f(x):\n    s = 'ab' + str(x)\n    return s is str(s + '')",
    "identity of a number": "def f(x):\n    return (x * 1000) is (x * 500 + x * 500)",
    "identity by a name": "def f(x):\n    return id('ab' + str(x)) % 64",
    "a generator's last words": (
        "n = []\ndef g():\n    try:\n        yield 1\n    finally:\n        n.append(1)\n"
        "def f(x):\n    b = [g() for _ in range(3000)]\n    for k in b: next(k)\n    b.append(b)\n"
        "    return len(n)"
    ),
    "the recursion limit": (
        "def g(n):\n    try:\n        return g(n + 1)\n"
        "    except RecursionError:\n        return n\ndef f(x):\n    return g(0)"
    ),
    "a cache of the program's": (
        "from functools import lru_cache\n@lru_cache\ndef g(x): return x\n"
        "def f(x):\n    g(x)\n    return g.cache_info().misses"
    ),
    "an exception kept": (
        "kept = []\ndef f(x):\n    try:\n        {}[x]\n    except KeyError as e:\n"
        "        e.n = len(kept)\n        kept.append(e)\n    return [e.n for e in kept]"
    ),
    "a default value": "def f(x, k={}):\n    k[len(k)] = x\n    return k",
    "an attribute of a function": (
        "def f(x):\n    f.n = x + (f.n if hasattr(f, 'n') else 0)\n    return f.n"
    ),
    "the order of a set": "class A: pass\ndef f(x):\n    s = {A(), A()}\n    return len(s) + x",
}


def attacks() -> dict[str, str]:
    """Every way to what is shared, with every way of changing it."""
    made = dict(TRACES)
    for name, (before, way) in BUILTINS.items():
        made[f"counter in the built-in names: {name}"] = (
            f"{before}\ndef f(x):\n    b = {way}\n    b['n'] = b.get('n', 0) + 1\n"
            "    return b['n'] * 10 + x"
        )
        made[f"len replaced: {name}"] = (
            f"{before}\ndef f(x):\n    n = len('ab')\n    b = {way}\n    b['len'] = lambda s: x\n"
            "    return n"
        )
    for (name, (before, shared)), (way, change) in product(OBJECTS.items(), CHANGES.items()):
        wrapper = "from functools import update_wrapper\n" if "update_wrapper" in change else ""
        made[f"{name}, {way}"] = (
            f"{wrapper}{before}\ndef own(): pass\nown.n = 1\ndef f(x):\n"
            f"    seen = {SEEN.format(shared)}\n    {change.format(shared)}\n"
            f"    return seen, {SEEN.format(shared)}"
        )
    return made


ATTACKS = attacks()
INPUTS = ["1", "2", "3"]


def ends(sandbox: Sandbox, program: str, inputs: list[str]) -> list[tuple[str, str | None, str]]:
    return [(v.status, v.output, v.reason) for v in sandbox.run_inputs(program, inputs)]


def assert_alone_as_together(sandbox: Sandbox, program: str, inputs: list[str]) -> None:
    alone = [end for given in inputs for end in ends(sandbox, program, [given])]
    assert ends(sandbox, program, inputs) == alone, program


def test_there_are_two_hundred_programs_made_against_the_rule() -> None:
    assert len(ATTACKS) >= 200
    together = {name for name, text in ATTACKS.items() if examine(ast.parse(text)).separable}
    assert 10 < len(together) < len(ATTACKS) / 4, together  # the rule refuses most, not all
    assert together & set(TRACES) == {
        *("the recursion limit", "a cache of the program's", "an exception kept"),
        *("a default value", "an attribute of a function"),
    }


@pytest.mark.parametrize("family", ["counter", "len", *OBJECTS, "trace"])
def test_no_program_made_against_the_rule_sees_another_input(one: Sandbox, family: str) -> None:
    named = (
        TRACES if family == "trace" else {k: v for k, v in ATTACKS.items() if k.startswith(family)}
    )
    assert named
    for program in named.values():
        assert_alone_as_together(one, program, INPUTS)


def test_built_in_names_take_no_attributes(one: Sandbox) -> None:
    names = sorted(separable._CAUGHT | frozenset(separable._BUILTINS.split()))
    lines = [
        f"    try:\n        {name}.n = x\n        took.append({name!r})\n"
        "    except (TypeError, AttributeError): pass"
        for name in names
    ]
    program = "\n".join(["def f(x):", "    took = []", *lines, "    return took"])
    assert one.run(program.replace("type.n", "int.n"), "1").output == "[]"


def random_program(rng: random.Random) -> str:
    """A program of the admitted grammar that keeps state in every place it may."""
    names = ["a", "b", "c", "x"]

    def value(depth: int = 0) -> str:
        forms = [
            *names,
            str(rng.randint(-3, 9)),
            repr(rng.choice(["", "ab", "q"])),
            "None",
            "K.n",
            "g.n",
            "next(it)",
            "h(x)",
            "len(seen)",
            "list(box)",
            "str(total)",
            "h.cache_info()[0]",
        ]
        if depth < 2:
            one, two = value(depth + 1), value(depth + 1)
            forms += [
                f"({one}, {two})",
                f"[{one}, {two}]",
                f"{{{one!r}: {two}}}",
                f"({one} == {two})",
                f"({one} if {two} else 0)",
                f"[y for y in ({one}, {two})]",
                f"type({one}).__name__",
                f"f'{{{one}}}'",
                f"(lambda y: (y, {one}))({two})",
                f"k({one})",
                f"K({one}).n",
                f"({one} is None)",
                f"sorted([{one!r}, {two!r}])",
                f"q.popleft() if q else {one}",
                f"'{{}}'.format({one})",
                f"isinstance({one}, str)",
                f"sum(1 for _ in [{one}])",
            ]
        return rng.choice(forms)

    def block(depth: int, indent: str) -> list[str]:
        lines = []
        for _ in range(rng.randint(1, 4)):
            name, given = rng.choice(names), value()
            forms = [
                [f"{name} = {given}"],
                [f"seen.append({given})"],
                [f"box[{name!r}] = {given}"],
                [f"K.n = {given}"],
                [f"g.n = {given}"],
                [f"q.append({given})"],
                ["total += 1"],
                [f"del box[{name!r}]"],
                [f"assert {given}, 'no'"],
                [f"raise ValueError({given})"],
                [f"a, *b = ({given}, {value()})"],
                [f"if (c := {given}): b = c"],
            ]
            if depth < 2:
                inner = block(depth + 1, indent + "    ")
                other = block(depth + 1, indent + "    ")
                caught = rng.choice(["ValueError", "(KeyError, IndexError)", "TypeError", "Own"])
                forms += [
                    [f"if {given}:", *inner, "else:", *other],
                    [f"for {name} in range({rng.randint(0, 3)}):", *inner],
                    ["try:", *inner, f"except {caught} as e:", *other],
                    ["try:", *inner, "finally:", *other],
                    [
                        f"match {given}:",
                        "    case [a, *_]:",
                        *(f"    {x}" for x in inner),
                        "    case None | 1:",
                        *(f"    {x}" for x in other),
                    ],
                    [f"while len(seen) < {rng.randint(0, 3)}:", *inner, "    seen.append(0)"],
                ]
            lines += rng.choice(forms)
        return [f"    {line}" for line in lines]

    plain = rng.random() < 0.5  # without imports, attributes may be assigned
    text = "\n".join(block(0, ""))
    library = (
        "class Q(list):\n    def popleft(self): return self.pop(0)\nq = Q()\n"
        "class H:\n    def __call__(self, y): return y\n"
        "    def cache_info(self): return [len(seen)]\n    def __repr__(self): return 'H'\n"
        "h = H()\nit = iter(range(9))\n"
        if plain
        else "from collections import deque\nfrom functools import lru_cache\n"
        "from itertools import count\nq = deque()\nit = count()\nh = lru_cache(lambda y: y)\n"
    )
    if not plain:
        text = re.sub(r"[Kg]\.n = .*", "pass", text)
    start = (
        "seen, box, total = [], {}, 0\nclass Own(ValueError): pass\nclass K:\n    n = 0\n"
        + (
            "    def __init__(self, n=1): self.n = n\n"
            if plain
            else "    def __init__(self, n=1): pass\n"
        )
        + "    def __repr__(self): return 'K'\n"
        + "def g(): pass\n"
        + ("g.n = 0\n" if plain else "")
        + "def k(y):\n    seen.append(y)\n    return seen[-1]\n"
    )
    result = "    return a, b, c, seen, box, total, K.n"
    return f"{library}{start}def f(x, a=[], b=0, c=None):\n    global total\n{text}\n{result}"


def fuzz(sandbox: Sandbox, seeds: range) -> None:
    admitted = 0
    for seed in seeds:
        program = random_program(random.Random(seed))
        try:
            tree = ast.parse(program)
        except SyntaxError:
            continue
        admitted += examine(tree).separable
        assert_alone_as_together(sandbox, program, ["1", "'b'", "[2]"])
    assert admitted > 0.7 * len(seeds), admitted


def test_generated_programs_end_alone_as_they_end_together(one: Sandbox) -> None:
    fuzz(one, range(60))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_twenty_thousand_generated_programs(one: Sandbox, part: int) -> None:
    fuzz(one, range(2000 * (part + 1), 2000 * (part + 2)))


ROWS: list[dict[str, Any]] = tomllib.loads((CORPUS / "separable.toml").read_text("utf-8"))[
    "program"
]
"""Each tries, or does not try, to carry something over in a way of its own."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_nothing_is_carried_from_one_input_to_the_next(short: Sandbox, row: dict[str, Any]) -> None:
    if "shares" in row:
        found = examine(ast.parse(row["program"]))
        assert (found.refusal, found.separable) == (None, row["shares"])
    assert_alone_as_together(short, row["program"], row.get("inputs", INPUTS))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    statements=st.lists(
        st.sampled_from(
            [
                "seen.append(x)",
                "A.n = A.n + x",
                "box[x] = len(box)",
                "total += x",
                "out = seen + [A.n, total]",
                "c[x] += 1",
                "A = type('A', (A,), {'n': x})",
                "next(it)",
                "out = cached(x), cached.cache_info().hits",
                "q.appendleft(next(it))",
                "out = [str(q), dict(c), sorted(box)]",
            ]
        ),
        min_size=1,
        max_size=8,
    ),
    values=st.lists(st.integers(0, 4), min_size=2, max_size=5),
)
def test_any_mixture_of_state_starts_anew(
    one: Sandbox, statements: list[str], values: list[int]
) -> None:
    program = (
        "from collections import Counter, deque\nfrom functools import lru_cache\n"
        "from itertools import count\nseen, box, total, it = [], {}, 0, count()\n"
        "c, q, out = Counter(), deque(), None\nclass A: n = 0\ndef g(): pass\n"
        "@lru_cache\ndef cached(n): return n\ndef f(x):\n    global A, total, out\n    "
        + "\n    ".join(statements)
        + "\n    return out, total, A.n, seen, box"
    )
    assert_alone_as_together(one, program, [str(value) for value in values])


ADDRESSES: list[dict[str, Any]] = tomllib.loads((CORPUS / "addresses.toml").read_text("utf-8"))[
    "program"
]
LIMITS = Limits(wall_s=60.0, cpu_s=1.0, memory_mb=48)
Pair = tuple[str, str]


def blind(program: str) -> bool:
    found = examine(ast.parse(program))
    return found.refusal is None and found.blind


def end(verdict: Verdict) -> tuple[str, str | None, str, int]:
    return verdict.status, verdict.output, verdict.reason, verdict.runs


def assert_alone_as_beside(sandbox: Sandbox, pairs: list[Pair], check: bool) -> None:
    one, many = (sandbox.check, sandbox.check_many) if check else (sandbox.run, sandbox.run_many)
    for pair, verdict in zip(pairs, many(pairs), strict=True):
        assert end(verdict) == end(one(*pair)), pair


@pytest.mark.parametrize("row", ADDRESSES, ids=lambda row: row["name"])
def test_what_could_see_an_address_is_left_alone(one: Sandbox, row: dict[str, Any]) -> None:
    assert blind(row["program"]) is row["blind"]
    assert not row["blind"] or one.check(row["program"], "4").ok


DIGITS = "def f(x):\n    n = 7 ** 200_000\n    return len(str(10 ** x)), n % 1000"
CACHED = "import re\ndef f(x):\n    return re.compile('a', x).flags"  # 2.0 is an error, uncached
MEETING = [(DIGITS, "1999"), (DIGITS, "2000"), (CACHED, "2"), (CACHED, "2.0")]


def attackers(rng: random.Random, inputs: list[str]) -> list[Pair]:
    """The programs made against the rules between harmless ones, in an order of its own; at the
    end, two at a time, what only a certain neighbour can harm."""
    pairs = [(text, given) for text in ATTACKS.values() for given in inputs]
    pairs += [(row["program"], given) for row in ROWS for given in row.get("inputs", inputs)]
    pairs += [(text, "4") for text in [row["program"] for row in ADDRESSES if row["blind"]] * 20]
    rng.shuffle(pairs)
    return pairs + 2 * MEETING


def generated(seeds: range) -> list[Pair]:
    rng = random.Random(seeds.start)
    texts = [random_program(random.Random(seed)) for seed in seeds]
    return [(text, rng.choice(["1", "'b'", "[2]", "1.5", "{3, 4}"])) for text in texts]


def test_no_program_made_against_the_rules_harms_a_neighbour(short: Sandbox) -> None:
    assert_alone_as_beside(short, attackers(random.Random(1), ["1"]), check=False)


def test_generated_programs_end_alone_as_beside_others(one: Sandbox) -> None:
    pairs = generated(range(64))
    assert sum(blind(text) for text, _ in pairs if is_python(text)) > 32
    assert_alone_as_beside(one, pairs, check=True)


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(3))
def test_attackers_in_other_orders(short: Sandbox, turn: int) -> None:
    assert_alone_as_beside(short, attackers(random.Random(turn), INPUTS), check=turn == 2)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_twenty_thousand_generated_programs_beside_others(one: Sandbox, part: int) -> None:
    assert_alone_as_beside(one, generated(range(2000 * part, 2000 * (part + 1))), part == 9)


PLAIN = [(f"def f(x):\n    return x + {n}", str(n)) for n in range(40)]
GREEDY = [
    ("timeout", "def f(x):\n    while True: pass"),
    ("memory", "def f(x):\n    return len([0] * 10**8)"),
    ("memory", "def f(x):\n    a = []\n    while True: a.append([])"),
    ("exception", "def f(x):\n    return 1 / 0"),
    ("exception", "def f(x):\n    return f(x)"),
    ("not_literal", "def f(x):\n    return f"),
    ("too_long", "def f(x):\n    return 'a' * 20000"),
    ("syntax_error", "def f(x"),
    ("banned", "import os\ndef f(x): pass"),
    (
        "ok",
        "def f(x):\n    it = iter(())\n    for _ in range(5): it = filter(None, it)\n    return 1",
    ),
    ("ok", "def f(x):\n    return len([0] * 4_000_000)"),  # more than half of the memory
]


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_greedy_programs_harm_no_neighbour(check: bool) -> None:
    pairs = list(PLAIN)
    for place, (_, text) in enumerate(GREEDY):
        pairs.insert(4 * place, (text, "1"))
    with Sandbox(workers=2, limits=LIMITS) as sandbox:
        found = list((sandbox.check_many if check else sandbox.run_many)(pairs))
    by_text = dict(zip(pairs, found, strict=True))
    assert [by_text[pair].output for pair in PLAIN] == [str(2 * n) for n in range(40)]
    assert [by_text[text, "1"].status for _, text in GREEDY] == [status for status, _ in GREEDY]


def test_slow_programs_have_their_own_time_each() -> None:
    """Together they take several times what one may."""
    text = "def f(x):\n    n = 0\n    for i in range(300_000): n += i\n    return n + x"
    with Sandbox(workers=1, limits=Limits(wall_s=2.0, cpu_s=0.4)) as sandbox:
        found = list(sandbox.run_many([(text, str(n)) for n in range(40)]))
    assert [verdict.output for verdict in found] == [str(44999850000 + n) for n in range(40)]


def test_an_address_in_a_message_is_that_of_a_lone_run(one: Sandbox) -> None:
    pair = "def g(): pass\ndef f(x):\n    return [].index(g)", "1"
    *_, verdict = one.run_many([*PLAIN[:10], pair])
    assert " at 0x" in verdict.reason
    assert end(verdict) == end(one.run(*pair))


def test_odd_pairs_raise_at_their_place(one: Sandbox) -> None:
    stream = one.run_many([PLAIN[0], (1, "1"), PLAIN[1]])  # type: ignore[list-item]
    assert next(stream).output == "0"
    with pytest.raises(Exception, match="expected a text"):
        next(stream)


@pytest.mark.parametrize("count", [4, 7, 50, 64, 100, 255, 256, 300])
def test_no_two_meet_in_both_executions(count: int) -> None:
    side = min(16, int(count**0.5))
    met: Counter[tuple[int, int]] = Counter()
    for index in range(2):
        groups = seat(list(range(count)), count, side, index)
        assert sorted(place for group in groups for place in group) == list(range(count))
        assert max(map(len, groups)) <= side
        assert all(group == sorted(group, reverse=index == 1) for group in groups)
        met.update(pair for group in groups for pair in combinations(sorted(group), 2))
    assert met
    assert max(met.values()) == 1
