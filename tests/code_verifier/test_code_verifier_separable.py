"""Which programs share a process for several inputs, and that sharing changes no verdict."""

import ast
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from code_verifier import Limits, Sandbox, Verdict
from code_verifier.jail.policy import examine

TOGETHER = [
    "def f(x):\n    return x + 1",
    "class A:\n    n = 0\ndef f(x):\n    A.n += x\n    return A.n",
    "seen = []\ndef f(x):\n    seen.append(x)\n    return seen",
    "def f(x, box=[]):\n    box.append(x)\n    return box",
    "n = 0\ndef f(x):\n    global n\n    n += x\n    return n",
    "def f(x):\n    f.calls = getattr_ = x\n    return f.calls",
    "import math\ndef f(x):\n    return math.gcd(x, 12)",
    "from collections import Counter\ndef f(x):\n    return dict(Counter(str(x)))",
    "from functools import lru_cache\n@lru_cache(None)\ndef g(x):\n    return x\n"
    "def f(x):\n    g(1)\n    g(x)\n    return g.cache_info().misses",
    "from itertools import count\nc = count()\ndef f(x):\n    return next(c), next(c), x",
    "import heapq\nh = []\ndef f(x):\n    heapq.heappush(h, x)\n    return heapq.nsmallest(3, h)",
    "import bisect\na = [1, 5]\ndef f(x):\n    bisect.insort(a, x)\n    return a",
    "def g():\n    while True:\n        yield 1\nit = g()\ndef f(x):\n    return next(it) + x",
    "def f(x):\n    match x:\n        case 1 | 2: return 'small'\n        case _: return 'big'",
    "def f(x):\n    if x == 2: raise ValueError('two')\n    return x",
    "def f(x):\n    def g(n): return g(n + 1)\n    try:\n        g(0)\n"
    "    except RecursionError:\n        return x",
    "class E(Exception):\n    count = 0\ndef f(x):\n    E.count += 1\n    try:\n"
    "        raise E(x)\n    except E as e:\n        e.note = E.count\n"
    "        return e.note, e.args",
]
APART = [
    "import random\ndef f(x):\n    random.seed(1)\n    return random.randint(0, x)",
    "import decimal\ndef f(x):\n    decimal.getcontext().prec = x + 1\n"
    "    return str(decimal.Decimal(1) / 3)",
    "import sys\ndef f(x):\n    old = sys.getrecursionlimit()\n    sys.setrecursionlimit(old + x)\n"
    "    return old",
    "import math\ndef f(x):\n    n = math.floor(1.5)\n    math.floor = lambda y: x\n    return n",
    "import math\ndef f(x):\n    n = math.ceil(0.5)\n    setattr(math, 'ceil', lambda y: x)\n"
    "    return n",
    "import collections\ndef f(x):\n    old = getattr(collections.Counter, 'n', 0)\n"
    "    collections.Counter.n = x\n    return old",
    "import collections\ndef f(x):\n    for collections.n in [x]: pass\n    return collections.n",
    "import math\ndef f(x):\n    del math.pi\n    return x",
    "import math\ndef f(x):\n    d = vars(math)\n    d['n'] = d.get('n', 0) + x\n    return d['n']",
    "from functools import update_wrapper, reduce\ndef g(): pass\ndef f(x):\n"
    "    g.n = x\n    update_wrapper(reduce, g)\n    return x",
    "from string import Formatter\ndef f(x):\n    return Formatter().format('{}', x)",
    "from collections.abc import Sized\ndef f(x):\n    old = isinstance(x, Sized)\n"
    "    Sized.register(int)\n    return old",
    "def f(x):\n    match x:\n        case int(real=r): return r",
    "def f(x):\n    return [id(a) - id(b) for a, b in [([], [])]][0] == x",
    "import weakref\nclass A: pass\nw = weakref.WeakSet()\ndef f(x):\n    w.add(A())\n"
    "    return len(w)",
    "import contextvars\nv = contextvars.ContextVar('v', default=0)\ndef f(x):\n"
    "    old = v.get()\n    v.set(x)\n    return old",
    "import warnings\ndef f(x):\n    n = len(warnings.filters)\n"
    "    warnings.simplefilter('error')\n    return n > 0",
    "import calendar\ndef f(x):\n    old = calendar.firstweekday()\n"
    "    calendar.setfirstweekday(x)\n    return old",
]


@pytest.fixture(scope="module")
def one() -> Iterator[Sandbox]:
    limits = Limits(wall_s=30.0, cpu_s=10.0, int_digits=2000)
    with Sandbox(workers=1, limits=limits) as opened:
        yield opened


def separable(program: str) -> bool:
    found = examine(ast.parse(program))
    assert found.refusal is None, found.refusal
    return found.separable


def ends(verdicts: list[Verdict]) -> list[tuple[str, str | None, str]]:
    return [(verdict.status, verdict.output, verdict.reason) for verdict in verdicts]


def same_as_alone(sandbox: Sandbox, program: str, inputs: list[str]) -> list[Verdict]:
    together = sandbox.run_inputs(program, inputs)
    assert ends(together) == ends([sandbox.run(program, given) for given in inputs])
    return together


@pytest.mark.parametrize("program", TOGETHER)
def test_pure_programs_share_a_process_without_a_trace(one: Sandbox, program: str) -> None:
    assert separable(program)
    same_as_alone(one, program, ["1", "2", "3"])


@pytest.mark.parametrize("program", APART)
def test_programs_that_could_leave_something_get_processes_of_their_own(
    one: Sandbox, program: str
) -> None:
    assert not separable(program)
    same_as_alone(one, program, ["1", "2", "3"])


CARRYING = {
    "hasattr attr": (
        "def f(x):\n"
        "    try:\n"
        "        return hasattr.n\n"
        "    except AttributeError:\n"
        "        hasattr.n = x\n"
        "        return 0",
    ),
    "print attr": (
        "b = bytes\n"
        "def f(x):\n"
        "    try:\n"
        "        return print.n\n"
        "    except AttributeError:\n"
        "        print.n = x\n"
        "        return 0",
    ),
    "from re import __all__": (
        "from re import __all__ as c\ndef f(x):\n    c.append(x)\n    return c[-3:]",
    ),
    "re.enum.sys.modules": (
        "import re\n"
        "def f(x):\n"
        "    m = re.enum.sys.modules\n"
        "    m[x] = x\n"
        "    return sorted(k for k in m if type(k) is int)",
    ),
    "global_enum": (
        "import re\n"
        "def f(x):\n"
        "    try:\n"
        "        return Q\n"
        "    except NameError:\n"
        "        pass\n"
        "    class A(re.enum.IntFlag):\n"
        "        Q = x\n"
        "    re.enum.global_enum(A)\n"
        "    return 0",
    ),
    "abc hook": (
        "from collections.abc import Sized\n"
        "def f(x):\n"
        "    seen = isinstance(2.5, Sized) if x > 1 else None\n"
        "    class A(Sized):\n"
        "        @classmethod\n"
        "        def __subclasshook__(cls, C): return True\n"
        "    isinstance(2.5, Sized)\n"
        "    return seen",
    ),
    "Fraction hook": (
        "from fractions import Fraction\n"
        "def f(x):\n"
        "    seen = isinstance(2.5, Fraction) if x > 1 else None\n"
        "    class A(Fraction):\n"
        "        @classmethod\n"
        "        def __subclasshook__(cls, C): return True\n"
        "    isinstance(2.5, Fraction)\n"
        "    return seen",
    ),
    "gc del": (
        "n = 0\n"
        "class A:\n"
        "    def __del__(s):\n"
        "        global n\n"
        "        n += 1\n"
        "def f(x):\n"
        "    for _ in range(5000):\n"
        "        a = A(); a.me = a\n"
        "    return n",
    ),
    "gc generator": (
        "n = 0\n"
        "def g(box):\n"
        "    global n\n"
        "    try:\n"
        "        yield box\n"
        "    finally:\n"
        "        n += 1\n"
        "def f(x):\n"
        "    for _ in range(5000):\n"
        "        box = []\n"
        "        box.append(g(box)); next(box[0])\n"
        "    return n",
    ),
    "annotated": (
        "import typing\ndef f(x):\n    return repr(typing.Annotated[int, x])",
        *("1", "True", "1.0"),
    ),
    "typing cache eq": (
        "import typing\n"
        "class M(type):\n"
        "    def __eq__(a, b): return True\n"
        "    def __hash__(a): return 7\n"
        "def f(x):\n"
        "    class A(metaclass=M):\n"
        "        n = x\n"
        "    return typing.get_args(typing.List[A])[0].n",
    ),
    "re cache eq": (
        "import re\n"
        "class M(type):\n"
        "    def __eq__(a, b): return True\n"
        "    def __hash__(a): return 7\n"
        "def f(x):\n"
        "    class S(str, metaclass=M):\n"
        "        n = x\n"
        "        def __eq__(a, b): return True\n"
        "        def __hash__(a): return 7\n"
        "    return re.compile(S('a')).pattern.n",
    ),
    "re cache flags": (
        "import re\ndef f(x):\n    return re.compile('a', x).flags",
        *("2", "2.0", "True"),
    ),
    "re pattern is": (
        "import re\n"
        "def f(x):\n"
        "    s = ''.join(['a', 'b', str(x)])\n"
        "    return re.compile(s).pattern is s",
        *("1", "1", "1"),
    ),
    "namedtuple intern": (
        "from collections import namedtuple\n"
        "def f(x):\n"
        "    s = ''.join(['a', 'b', str(x)])\n"
        "    return namedtuple(s, 'q').__name__ is s",
        *("1", "1", "1"),
    ),
    "EXCLUDED": (
        "import typing\n"
        "def f(x):\n"
        "    typing.EXCLUDED_ATTRIBUTES.append(x)\n"
        "    return typing.EXCLUDED_ATTRIBUTES[-2:]",
    ),
    "main guard": (
        "__name__ = '__main__'\n"
        "if __name__ == '__main__':\n"
        "    import math\n"
        "    def f(x):\n"
        "        old = math.floor(1.5)\n"
        "        math.floor = lambda y: x\n"
        "        return old",
    ),
    "main guard param": (
        "def f(x, __name__='__main__'):\n"
        "    if __name__ == '__main__':\n"
        "        import math\n"
        "        old = math.floor(1.5)\n"
        "        math.floor = lambda y: x\n"
        "        return old",
    ),
    "memory seen": (
        "big = [0] * 12_000_000\n"
        "me = lambda: me\n"
        "def f(x):\n"
        "    try:\n"
        "        a = [0] * 10_000_000\n"
        "        return 'fits'\n"
        "    except MemoryError:\n"
        "        return 'not'",
    ),
    "regexflag": (
        "import re\ndef f(x):\n    return [repr(re.RegexFlag(x)), len(list(re.RegexFlag))]",
        *("10", "10", "2"),
    ),
    "typing union order": (
        "import typing\ndef f(x):\n    return repr(typing.Union[(int, str) if x else (str, int)])",
        *("1", "0", "1"),
    ),
    "union eq order": (
        "import typing\n"
        "def f(x):\n"
        "    a = typing.Union[(int, str) if x else (str, int)]\n"
        "    return repr(typing.List[a])",
        *("1", "0", "1"),
    ),
    "callable": (
        "import typing\n"
        "def f(x):\n"
        "    return repr(typing.Callable[[typing.Annotated[int, x]], int])",
        *("1", "True", "0"),
    ),
    "literal": (
        "import typing\ndef f(x):\n    return repr(typing.Literal[x])",
        *("1", "True", "0"),
    ),
    "list of literal": (
        "import typing\ndef f(x):\n    return repr(typing.List[typing.Literal[x]])",
        *("1", "True", "0"),
    ),
    "literal order": (
        "import typing\ndef f(x):\n    return repr(typing.Optional[typing.Literal[x]])",
        *("(1,2)", "(2,1)", "(True,2)"),
    ),
    "generic": (
        "import typing\n"
        "T = typing.TypeVar('T')\n"
        "class G(typing.Generic[T]): pass\n"
        "def f(x):\n"
        "    return repr(G[typing.Annotated[int, x]])[-20:]",
        *("1", "True", "0"),
    ),
    "typing except": (
        "import typing\ndef f(x):\n    return repr(typing.Tuple[x])",
        *("()", "((),)", "()"),
    ),
    "digits": ("def f(n):\n    return len(str(10 ** n))", "1", "3000", "1500"),
}
"""Attempts to carry something from one input to the next, by the way taken."""


@pytest.mark.parametrize("way", CARRYING)
def test_nothing_is_carried_from_one_input_to_the_next(one: Sandbox, way: str) -> None:
    program, *inputs = CARRYING[way]
    same_as_alone(one, program, list(inputs) or ["1", "2", "3"])


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    statements=st.lists(
        st.sampled_from(
            [
                "seen.append(x)",
                "A.n = A.n + x",
                "g.n = x",
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
        + "\n    ".join(line for line in statements if line != "g.n = x")
        + "\n    return out, total, A.n, seen, box"
    )
    same_as_alone(one, program, [str(value) for value in values])
