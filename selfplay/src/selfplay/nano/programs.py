"""Whole random programs of the nano language, with inputs, and their traced twins.

A traced twin computes the same result and records its arguments, every changed variable and every
test on the way: the states a solver writes down before it answers.
"""

import hashlib
from dataclasses import dataclass
from random import Random

from selfplay.nano.grammar import (
    LETTERS,
    NAMES,
    Kind,
    Line,
    Scope,
    comprehension,
    constant,
    expression,
)
from selfplay.nano.statements import assignment, branch, loop, while_loop

LEVELS = (1, 2, 3, 4)
LONG = 5
"""The level of programs longer than any that the model is taught: they measure generalisation."""
INPUTS_PER_PROGRAM = 6
USED_SHARE = 0.8
"""Share of programs beyond level 1 whose result comes from the variable that changed last; in the
others it may come from any, so that some statements are there in vain."""
HELD_OUT_SHARE = 16
"""One program text in this many is held out of pretraining, chosen by the hash of the text."""


@dataclass(frozen=True)
class Program:
    """A random program: `text` to show, `traced` (the same, recording) to run for labels."""

    text: str
    traced: str
    level: int
    parameters: tuple[Kind, ...]
    inputs: tuple[tuple[object, ...], ...]
    """Distinct argument tuples, `INPUTS_PER_PROGRAM` of them."""
    message: str
    """The operations in order: the hint of a code_f task."""

    @property
    def held_out(self) -> bool:
        """Whether the text belongs to the held-out share."""
        digest = hashlib.blake2b(self.text.encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big") % HELD_OUT_SHARE == 0


def random_program(rng: Random, level: int) -> Program:
    """Write a program of this level (1 easiest to 4 hardest, or `LONG`) with its inputs."""
    scope = Scope(rng)
    kinds = _signature(rng, level)
    names: list[str] = []
    for kind in kinds:
        pool = [n for n in NAMES[kind] if n not in names]
        name = pool[0] if rng.random() < 0.6 else rng.choice(pool)
        names.append(name)
        scope.bind(kind, name)
    helper: list[Line] = []
    if level >= 4 and rng.random() < 0.3:
        inner = Scope(rng)
        inner.bind("int", "n")
        helper = [
            Line(0, "def g(n):"),
            Line(1, f"return {expression(inner, 'int')}"),
        ]
        scope.helper = "g"
    body = _body(scope, level)
    lines = [*helper, Line(0, f"def f({', '.join(names)}):", tuple(names)), *body]
    return Program(
        text=_render(lines, traced=False),
        traced=_render(lines, traced=True),
        level=level,
        parameters=tuple(kinds),
        inputs=_distinct_inputs(rng, kinds),
        message=" ".join(dict.fromkeys(scope.hints)),
    )


def random_value(rng: Random, kind: Kind) -> object:
    """Return a digit, a list of 1 to 4 digits, or a string of 1 to 4 letters."""
    if kind == "int":
        return rng.randint(0, 9)
    size = rng.choice((1, 2, 2, 3, 3, 3, 4))
    if kind == "list":
        return [rng.randint(0, 9) for _ in range(size)]
    return "".join(rng.choice(LETTERS) for _ in range(size))


def _signature(rng: Random, level: int) -> list[Kind]:
    first: Kind = rng.choice(("int", "int", "list", "str"))
    if rng.random() < (0.25 if level == 1 else 0.35):
        second: Kind = "int" if first != "int" or rng.random() < 0.7 else "list"
        return [first, second]
    return [first]


def _body(s: Scope, level: int) -> list[Line]:
    rng = s.rng
    if level == 1:
        return [Line(1, "return " + _result(s, chain=False))]
    lines: list[Line] = []
    if level == 2:
        lines += branch(s, 1) if rng.random() < 0.4 else assignment(s, 1)
    elif level == 3:
        if rng.random() < 0.4:
            lines += assignment(s, 1)
        roll = rng.random()
        if roll < 0.55:
            lines += loop(s, 1, nested=False)
        elif roll < 0.8:
            lines += branch(s, 1) + assignment(s, 1)
        else:
            lines += assignment(s, 1) + assignment(s, 1)
    elif level == LONG:
        lines += assignment(s, 1) + branch(s, 1)
        lines += loop(s, 1, nested=True)
        lines += assignment(s, 1) + branch(s, 1)
        lines += loop(s, 1, nested=rng.random() < 0.6)
        lines += assignment(s, 1)
    else:
        lines += assignment(s, 1)
        if rng.random() < 0.5:
            lines += branch(s, 1)
        if s.variables["int"] and rng.random() < 0.25:
            lines += while_loop(s, 1)
        lines += loop(s, 1, nested=rng.random() < 0.6)
        if rng.random() < 0.4:
            lines += branch(s, 1)
    if rng.random() < USED_SHARE:
        s.focus(next(line.records[0] for line in reversed(lines) if line.records))
    return [*lines, Line(1, "return " + _result(s, chain=level >= 4))]


def _result(s: Scope, *, chain: bool) -> str:
    rng = s.rng
    kind = rng.choice(s.kinds())
    if kind == "list" and rng.random() < 0.2:
        return comprehension(s)
    if kind != "int" and rng.random() < 0.3:
        kind = "int"
    value = expression(s, kind)
    if chain and kind == "int" and rng.random() < 0.3:
        value = f"{value} + {constant(rng, 1, 3)}"
        s.hint("add")
    return value


def _distinct_inputs(rng: Random, kinds: list[Kind]) -> tuple[tuple[object, ...], ...]:
    seen: dict[str, tuple[object, ...]] = {}
    while len(seen) < INPUTS_PER_PROGRAM:
        arguments = tuple(random_value(rng, k) for k in kinds)
        seen.setdefault(repr(arguments), arguments)
    return tuple(seen.values())


def _render(lines: list[Line], *, traced: bool) -> str:
    out: list[str] = []
    for line in lines:
        pad = "    " * line.depth
        text = line.text
        if traced and line.condition:
            word, test = text[:-1].split(" ", 1)
            text = f"{word} C({test}):"
        out.append(pad + text)
        if traced and line.records:
            inner = pad + ("    " if text.endswith(":") else "")
            out += [f"{inner}R('{name}', {name})" for name in line.records]
    return "\n".join(out)
