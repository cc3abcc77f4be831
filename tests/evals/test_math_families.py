"""Pairs of math answers made by program, of families whose truth is known by construction."""

import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest

from evals import math_score

ROUNDS = 60
"""Golds of each family."""

TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")

Pairs = tuple[str, list[str], list[str]]
"""A gold, answers that equal it and answers that do not."""


def _each(answers: str) -> list[str]:
    return answers.split(" ; ")


def _frac(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _sum(coefficients: list[int], name: str = "x") -> str:
    """A polynomial, the constant term first in the list, the highest power first in the text."""
    parts = []
    for power, number in reversed(list(enumerate(coefficients))):
        if number:
            body = {0: "", 1: name}.get(power, f"{name}^{{{power}}}")
            size = str(abs(number)) if abs(number) != 1 or not power else ""
            parts.append(("-" if number < 0 else "+") + size + body)
    return "".join(parts).removeprefix("+") or "0"


def whole_numbers(draw: random.Random) -> Pairs:
    n = draw.randint(-5000, 5000)
    return (
        str(n),
        _each(rf"{n}.0 ; {n - 7}+7 ; \frac{{{3 * n}}}{{3}} ; x={n} ; ({n}) ; {n} \text{{ apples}}"),
        [str(n + 1), str(-n - 1), f"{n}0.5", f"{n}x", rf"{n}\%", f"{n}, {n + 1}"],
    )


def fractions(draw: random.Random) -> Pairs:
    a, b, k = draw.randint(1, 90), draw.randint(2, 90), draw.randint(2, 9)
    value = Fraction(a, b)
    return (
        _frac(value),
        [f"{a}/{b}", rf"\dfrac{{{a * k}}}{{{b * k}}}", rf"{{{a} \over {b}}}", f"{a * k} / {b * k}"],
        [_frac(value + Fraction(1, b)), _frac(-value), f"{a}/{b + 1}", f"{float(value) + 1:.3f}"],
    )


def decimals(draw: random.Random) -> Pairs:
    n, places = draw.randrange(1, 10**6) | 1, draw.randint(1, 5)
    text = f"{n / 10**places:.{places}f}"
    return (
        text,
        [text + "0", _frac(Fraction(n, 10**places)), rf"{n} \times 10^{{-{places}}}",
         f"{n}e-{places}"],
        [f"{(n + 1) / 10**places:.{places}f}", f"-{text}", f"{text}1", str(n)],
    )  # fmt: skip


def percents(draw: random.Random) -> Pairs:
    n = draw.randint(1, 300)
    return (
        rf"{n}\%",
        [f"{n}%", f"{n / 100}", _frac(Fraction(n, 100)), f"{n} percent", rf"{n}.0\%"],
        [rf"{n + 1}\%", rf"{n}.5\%", f"{n * 100}", rf"-{n}\%", f"{n / 1000}"],
    )


def mixed_numbers(draw: random.Random) -> Pairs:
    whole, b = draw.randint(1, 30), draw.randint(2, 12)
    a = draw.randint(1, b - 1)
    value = whole + Fraction(a, b)
    return (
        rf"{whole}\frac{{{a}}}{{{b}}}",
        [f"{whole} {a}/{b}", _frac(value), rf"{whole}+\frac{{{a}}}{{{b}}}"],
        [rf"{whole + 1}\frac{{{a}}}{{{b}}}", _frac(Fraction(whole * a, b) + 100), f"{whole}"],
    )


def intervals(draw: random.Random) -> Pairs:
    a = draw.randint(-20, 20)
    b = a + draw.randint(1, 20)
    return (
        f"({a}, {b}]",
        [rf"{a} < x \le {b}", rf"x > {a} \text{{ and }} x \leq {b}", rf"\left({a},\, {b}\right]"],
        [f"({a},{b})", f"[{a},{b}]", f"[{a},{b})", f"({a},{b + 1}]", f"{a},{b}", f"({b},{a}]"],
    )


def unions(draw: random.Random) -> Pairs:
    a = draw.randint(-20, 20)
    b = a + draw.randint(1, 9)
    return (
        rf"(-\infty, {a}) \cup ({b}, \infty)",
        _each(rf"x<{a} \text{{ or }} x>{b} ; ({b},\infty)\cup(-\infty,{a})"),
        _each(
            rf"(-\infty,{a}]\cup({b},\infty) ; ({a},{b}) ; (-\infty,{b})\cup({a},\infty) ; x<{a}"
        ),
    )


def punctured_lines(draw: random.Random) -> Pairs:
    a = draw.randint(-20, 20)
    return (
        rf"(-\infty,{a})\cup({a},\infty)",
        [rf"x\in(-\infty,{a})\cup({a},\infty)"],
        _each(
            rf"x \neq {a + 1} ; \mathbb{{R}} ; x={a} ; [{a},\infty) ; "
            rf"(-\infty,{a}]\cup({a},\infty)"
        ),
    )


def sets(draw: random.Random) -> Pairs:
    items = draw.sample(range(-30, 30), draw.randint(2, 5))
    text, turned = ", ".join(map(str, items)), ", ".join(map(str, items[::-1]))
    return (
        rf"\{{{text}\}}",
        [rf"\{{{turned}\}}", turned, rf"\left\{{{text}\right\}}"],
        [rf"\{{{text}, 99\}}", ", ".join(map(str, items[1:])), f"{text}, {items[0]}",
         rf"\{{\{{{text}\}}\}}"],
    )  # fmt: skip


def tuples(draw: random.Random) -> Pairs:
    a, b, c = draw.sample(range(-30, 30), 3)
    return (
        f"({a}, {b}, {c})",
        _each(
            f"(x,y,z)=({a},{b},{c}) ; P({a},{b},{c}) ; z={c}, x={a}, y={b} ; ({2 * a}/2, {b}, {c})"
        ),
        _each(f"({b},{a},{c}) ; ({a},{b}) ; [{a},{b},{c}] ; x={a}, y={c}, z={b} ; ({a},{b},{c},0)"),
    )


def polynomials(draw: random.Random) -> Pairs:
    p, q = draw.sample(range(-9, 10), 2)
    terms = [p * q, -(p + q), 1]
    return (
        _sum(terms),
        [f"(x-({p}))(x-({q}))", f"{p * q} + x^2 - ({p + q})x", f"x(x-({p + q}))+({p * q})"],
        [_sum([p * q + 1, -(p + q), 1]), f"(x-({p}))(x-({q}))^2", _sum([p * q, p + q + 1, 1], "y"),
         f"{_sum(terms)}=0"],
    )  # fmt: skip


def rational_functions(draw: random.Random) -> Pairs:
    a, b = draw.sample(range(1, 12), 2)
    return (
        rf"\frac{{1}}{{x+{a}}}+\frac{{1}}{{x+{b}}}",
        [rf"\frac{{2x+{a + b}}}{{(x+{a})(x+{b})}}", rf"(2x+{a + b})/(x^2+{a + b}x+{a * b})"],
        _each(
            rf"\frac{{2}}{{2x+{a + b}}} ; \frac{{2x+{a + b + 1}}}{{(x+{a})(x+{b})}} ; "
            rf"\frac{{1}}{{x+{a}}}-\frac{{1}}{{x+{b}}}"
        ),
    )


def roots(draw: random.Random) -> Pairs:
    k, n = draw.randint(2, 12), draw.choice([2, 3, 5, 6, 7, 10, 11, 13])
    return (
        rf"{k}\sqrt{{{n}}}",
        [rf"\sqrt{{{k * k * n}}}", rf"\sqrt{n}\cdot {k}" if n < 10 else rf"\sqrt{{{n}}}\cdot {k}",
         rf"\frac{{{k * n}}}{{\sqrt{{{n}}}}}", f"{k}*{n}^(1/2)", f"{k * math.sqrt(n):.12f}"],
        [rf"\sqrt{{{k * k * n + 1}}}", rf"-{k}\sqrt{{{n}}}", rf"{k}\sqrt[3]{{{n}}}",
         rf"\pm{k}\sqrt{{{n}}}", f"{k * math.sqrt(n):.3f}", rf"\sqrt{{{k * k * n}+10^{{-20}}}}"],
    )  # fmt: skip


def logarithms(draw: random.Random) -> Pairs:
    b, n = draw.choice([2, 3, 5, 7]), draw.randint(2, 9)
    return (
        rf"{n}\ln {b}",
        _each(
            rf"\ln {b**n} ; \ln({b}^{{{n}}}) ; -\ln\frac{{1}}{{{b**n}}} ; "
            rf"{n}\log_{{10}} {b} \ln 10"
        ),
        _each(rf"\ln {b**n + 1} ; \ln {n * b} ; {n}\log_{{10}} {b} ; {n + 1}\ln {b} ; \ln {b}"),
    )


def trigonometry(draw: random.Random) -> Pairs:
    k = draw.randint(1, 9)
    return (
        rf"\sin^2({k}x)",
        [rf"1-\cos^2 ({k}x)", rf"\frac{{1-\cos({2 * k}x)}}{{2}}", rf"(\sin {k}x)^2"],
        _each(
            rf"\sin({k}x) ; \cos^2({k}x) ; \sin({k}x^2) ; \frac{{1+\cos({2 * k}x)}}{{2}} ; "
            rf"\sin^2 x+1"
        ),
    )


def absolute_values(draw: random.Random) -> Pairs:
    a, b = draw.randint(1, 60), draw.randint(2, 9)
    return (
        f"|x-{a}|",
        _each(
            rf"|{a}-x| ; \sqrt{{(x-{a})^2}} ; \frac{{|{b}x-{a * b}|}}{{{b}}} ; \lvert x-{a}\rvert"
        ),
        [f"x-{a}", f"{a}-x", f"|x+{a}|", f"|x|-{a}", f"|x|+{a}", rf"\sqrt{{(x-{a})^2+10^{{-30}}}}"],
    )


def even_roots(draw: random.Random) -> Pairs:
    n, b = draw.choice([2, 4, 6]), draw.randint(1, 9)
    return (
        rf"\sqrt[{n}]{{(x+{b})^{{{n}}}}}",
        [f"|x+{b}|", rf"\sqrt{{x^2+{2 * b}x+{b * b}}}", rf"|-x-{b}|"],
        [f"x+{b}", f"-x-{b}", f"|x|+{b}", rf"\frac{{(x+{b})^2}}{{x+{b}}}"],
    )


def floors(draw: random.Random) -> Pairs:
    k = draw.randint(1, 9)
    return (
        rf"\lfloor x \rfloor + {k}",
        [rf"\lfloor x+{k}\rfloor", rf"-\lceil -x \rceil+{k}", rf"{k}+\lfloor x \rfloor"],
        _each(
            rf"x+{k} ; \lceil x\rceil+{k} ; \lfloor x\rfloor+{k + 1} ; \lfloor {k + 1}x\rfloor ; "
            rf"\lceil x+{k}\rceil"
        ),
    )


def near_numbers(draw: random.Random) -> Pairs:
    n, k = draw.randint(6, 14), draw.randint(20, 80)
    return (
        rf"\sqrt{{10^{{{2 * n}}}+1}}",
        [rf"\sqrt{{1+10^{{{2 * n}}}}}", rf"10^{{{n}}}\sqrt{{1+10^{{-{2 * n}}}}}"],
        _each(
            rf"10^{{{n}}} ; 10^{{{n}}}+10^{{-{n + 1}}} ; \sqrt{{10^{{{2 * n}}}+1}}+e^{{-{k}}} ; "
            rf"\sqrt{{10^{{{2 * n}}}+2}}"
        ),
    )


def units(draw: random.Random) -> Pairs:
    n = draw.randint(1, 500)
    small, large, other = draw.choice(
        [("cm", "m", "s"), ("g", "kg", "m"), ("m", "km", "J"), ("s", "h", "g"), ("J", "kJ", "m")]
    )
    times = {"m": 100, "kg": 1000, "km": 1000, "h": 3600, "kJ": 1000}[large]
    return (
        rf"{n}\text{{ {large}}}",
        [str(n), rf"{n}\,\mathrm{{{large}}}", rf"{n * times}\text{{ {small}}}"],
        [rf"{n}\text{{ {small}}}", rf"{n}\text{{ {other}}}", str(n * times),
         rf"{n + 1}\text{{ {large}}}"],
    )  # fmt: skip


def lines_and_circles(draw: random.Random) -> Pairs:
    a, b, r = draw.randint(-9, 9), draw.randint(1, 9), draw.randint(1, 9)
    if draw.random() < 0.5:
        return (
            f"y={b}x+({a})",
            [f"{b}x-y+({a})=0", f"2y={2 * b}x+({2 * a})", f"y-({a})={b}x", f"y={a}+{b}x"],
            _each(
                f"y={b}x+({a + 1}) ; y=-{b}x+({a}) ; x={b}y+({a}) ; y={b}|x|+({a}) ; y<{b}x+({a})"
            ),
        )
    return (
        f"(x-({a}))^2+(y-{b})^2={r * r}",
        [f"x^2-({2 * a})x+y^2-{2 * b}y={r * r - a * a - b * b}", f"{r * r}=(y-{b})^2+(x-({a}))^2"],
        [f"(x-({a}))^2+(y-{b})^2={r * r + 1}", f"(x-({a}))^2-(y-{b})^2={r * r}",
         f"(x-({a}))^2+(y+{b})^2={r * r}"],
    )  # fmt: skip


def matrices(draw: random.Random) -> Pairs:
    a, b, c, d = draw.sample(range(-20, 20), 4)
    form = r"\begin{pmatrix} %s & %s \\ %s & %s \end{pmatrix}"
    return (
        form % (a, b, c, d),
        [form.replace("pmatrix", "bmatrix") % (a, b, c, d), f"[[{a},{b}],[{c},{d}]]",
         rf"\frac12{form % (2 * a, 2 * b, 2 * c, 2 * d)}"],
        [form % (a, c, b, d), form % (a, b, c, d + 1), f"[[{a},{b},{c},{d}]]",
         f"({a},{b},{c},{d})"],
    )  # fmt: skip


def complex_numbers(draw: random.Random) -> Pairs:
    a, b = draw.randint(1, 20), draw.randint(2, 20)
    return (
        f"{a}+{b}i",
        [f"{b}i+{a}", f"{a}-({-b})i", rf"\frac{{{a * a + b * b}}}{{{a}-{b}i}}", f"i({b}-{a}i)"],
        [f"{a}-{b}i", f"{b}+{a}i" if a != b else "0", f"-{a}+{b}i", str(a + b), f"({a},{b})",
         f"{a}+{b}x"],
    )  # fmt: skip


def signs(draw: random.Random) -> Pairs:
    a, n = draw.randint(-9, 9), draw.choice([2, 3, 5, 7])
    return (
        rf"{a} \pm \sqrt{{{n}}}",
        _each(
            rf"{a}+\sqrt{{{n}}}, {a}-\sqrt{{{n}}} ; "
            rf"x={a}-\sqrt{{{n}}} \text{{ or }} x={a}+\sqrt{{{n}}} ; {a} \mp \sqrt{{{n}}}"
        ),
        _each(
            rf"{a}+\sqrt{{{n}}} ; {a + 1}\pm\sqrt{{{n}}} ; {a}\pm\sqrt{{{n + 1}}} ; "
            rf"\pm({a + 10}+\sqrt{{{n}}})"
        ),
    )


def thousands(draw: random.Random) -> Pairs:
    n = draw.randint(10**3, 10**9)
    return (
        f"{n:,}",
        [str(n), f"{n:,}".replace(",", "{,}"), f"{n:,}".replace(",", r"\,"), rf"\${n:,}"],
        [str(n + 1), f"{n:,}".replace(",", ", ") + ", 1", str(n)[:-1],
         f"{n:,}".replace(",", ".", 1) + "5"],
    )  # fmt: skip


def powers_of_ten(draw: random.Random) -> Pairs:
    n, k = draw.randint(11, 99), draw.randint(3, 30)
    return (
        rf"{n / 10} \times 10^{{{k}}}",
        [f"{n / 10}e{k}", rf"{n / 10}\cdot 10^{k}" if k < 10 else rf"{n / 10}\cdot 10^{{{k}}}",
         str(n * 10 ** (k - 1)), rf"{n} \times 10^{{{k - 1}}}"],
        [rf"{n / 10}\times 10^{{{k + 1}}}", rf"{n / 10}\times 10^{{-{k}}}", f"{n / 10}",
         str(n * 10 ** (k - 1) + 1)],
    )  # fmt: skip


def repeating_decimals(draw: random.Random) -> Pairs:
    whole, period = draw.randint(0, 20), draw.randint(1, 98)
    value = whole + Fraction(period, 99)
    return (
        rf"{whole}.\overline{{{period:02d}}}",
        [_frac(value), rf"{whole}+\frac{{{period}}}{{99}}"],
        [f"{whole}.{period:02d}", _frac(value + 1), _frac(whole + Fraction(period, 100)),
         f"{float(value) + 0.5:.12f}"],
    )  # fmt: skip


def spelled_numbers(draw: random.Random) -> Pairs:
    place = draw.randrange(len(TENS))
    large, times = draw.choice([("hundred", 100), ("thousand", 1000), ("million", 10**6)])
    n = 10 * (place + 2)
    return (
        str(n * times + 7),
        [f"{TENS[place]} {large} and seven", f"{n * times + 7:,}", f"{TENS[place]} {large} seven"],
        [f"{TENS[place]} {large}", f"half a {large}", f"{n}", f"minus {TENS[place]} {large} seven"],
    )


def inequalities(draw: random.Random) -> Pairs:
    a = draw.randint(-30, 30)
    return (
        rf"x \geq {a}",
        [rf"{a} \leq x", rf"[{a}, \infty)", f"x >= {a}", rf"x \in [{a},\infty)"],
        [f"x > {a}", rf"x \leq {a}", rf"x \geq {a + 1}", f"x = {a}", str(a), rf"(-\infty,{a}]"],
    )


def counts(draw: random.Random) -> Pairs:
    n = draw.randint(4, 20)
    k = draw.randint(1, n // 2)
    value = math.comb(n, k)
    return (
        rf"\binom{{{n}}}{{{k}}}",
        [str(value), rf"{{{n} \choose {k}}}", rf"\frac{{{n}!}}{{{k}!{n - k}!}}",
         rf"\binom{{{n}}}{{{n - k}}}"],
        [str(value + 1), rf"\binom{{{n + 1}}}{{{k}}}",
         rf"\frac{{{n}!}}{{{n - k}!}}" if k > 1 else "0",
         rf"\frac{{{n}}}{{{k}}}" if k > 1 else "0"],
    )  # fmt: skip


def factorials(draw: random.Random) -> Pairs:
    k = draw.randint(1, 5)
    return (
        rf"\frac{{(n+{k})!}}{{n!}}",
        ["".join(f"(n+{i})" for i in range(1, k + 1)), rf"{k}!\binom{{n+{k}}}{{{k}}}",
         rf"\frac{{(n+{k + 1})!}}{{n!(n+{k + 1})}}"],
        [f"{k}!", f"(n+{k})", f"(n+{k})!"] if k > 1 else ["n", "n!", "(n+1)!"],
    )  # fmt: skip


FAMILIES: list[Callable[[random.Random], Pairs]] = [
    whole_numbers, fractions, decimals, percents, mixed_numbers, intervals, unions,
    punctured_lines, sets, tuples, polynomials, rational_functions, roots, logarithms,
    trigonometry, absolute_values, even_roots, floors, near_numbers, units, lines_and_circles,
    matrices, complex_numbers, signs, thousands, powers_of_ten, repeating_decimals,
    spelled_numbers, inequalities, counts, factorials,
]  # fmt: skip


@pytest.mark.slow
def test_pairs_of_known_truth() -> None:
    pairs, refused = Counter[str](), Counter[str]()
    accepted, examples = set[tuple[str, str, str]](), set[tuple[str, str, str]]()
    for family in FAMILIES:
        draw, name = random.Random(family.__name__), family.__name__
        for _ in range(ROUNDS):
            gold, equal, unequal = family(draw)
            for answer in (*equal, *unequal):
                pairs[name] += 1
                if math_score("", rf"So it is \boxed{{{answer}}}.", gold) == (answer in equal):
                    continue
                if answer in equal:
                    refused[name] += 1
                    examples.add((name, gold, answer))
                else:
                    accepted.add((name, gold, answer))
    assert sum(pairs.values()) > 10_000
    assert accepted == set()
    assert sum(refused.values()) <= sum(pairs.values()) / 100, (refused, sorted(examples)[:50])
