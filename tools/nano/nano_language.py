"""Random programs of the nano language, with inputs and traced twins.

The language is a small, typed subset of Python in four levels. Level 1 is one return expression;
level 2 adds an assignment, a branch or a comprehension; level 3 adds loops over lists, strings and
short ranges; level 4 combines several of these and may call a helper. Values stay small (digits,
lists of at most five digits, strings of at most six letters), so that a model of a few million
parameters can follow them step by step.

A traced twin computes the same result and records its arguments, every changed variable and every
test on the way: the states a solver writes down before it answers.
"""

import hashlib
from dataclasses import dataclass, field
from random import Random
from typing import Literal

Kind = Literal["int", "list", "str"]
KINDS: tuple[Kind, ...] = ("int", "list", "str")
LETTERS = "abcde"
NAMES: dict[Kind, tuple[str, ...]] = {
    "int": ("a", "b", "c", "d", "n", "k"),
    "list": ("x", "y", "z"),
    "str": ("s", "t", "u"),
}


@dataclass(frozen=True)
class Line:
    """One statement: its text, its depth, and what a tracer records when it runs.

    `records` names variables whose value is recorded after the statement; `condition` is True when
    the statement is `if <test>:` or `while <test>:`, whose truth value is recorded.
    """

    depth: int
    text: str
    records: tuple[str, ...] = ()
    condition: bool = False


@dataclass
class Scope:
    """Variables in sight while a program is being written, and the operations used so far."""

    rng: Random
    variables: dict[Kind, list[str]] = field(default_factory=lambda: {k: [] for k in KINDS})
    hints: list[str] = field(default_factory=list)
    helper: str | None = None

    def fresh(self, kind: Kind) -> str:
        """Return an unused name for a value of this kind (or an old one when all are taken)."""
        free = [n for n in NAMES[kind] if n not in self.variables[kind]]
        return free[0] if free and self.rng.random() < 0.85 else self.rng.choice(NAMES[kind])

    def bind(self, kind: Kind, name: str) -> None:
        """Bring a variable into sight as the newest of its kind."""
        if name in self.variables[kind]:
            self.variables[kind].remove(name)
        self.variables[kind].append(name)

    def focus(self, name: str) -> None:
        """Leave only this variable in sight."""
        self.variables = {k: [name] if name in v else [] for k, v in self.variables.items()}

    def pick(self, kind: Kind) -> str:
        """Return a visible variable of this kind, the newest more often."""
        names = self.variables[kind]
        return names[-1] if self.rng.random() < 0.6 else self.rng.choice(names)

    def kinds(self) -> list[Kind]:
        """Return the kinds that have a visible variable."""
        return [k for k in KINDS if self.variables[k]]

    def hint(self, word: str) -> None:
        """Note an operation for the message of a code_f task."""
        self.hints.append(word)


def constant(rng: Random, low: int = 1, high: int = 5) -> str:
    """Return a small positive integer as text."""
    return str(rng.randint(low, high))


def int_expression(s: Scope) -> str:
    """Return an expression of one operation whose value is an int."""
    rng, kinds = s.rng, s.kinds()
    kind = rng.choice(kinds)
    if kind == "int":
        v = s.pick("int")
        if s.helper and rng.random() < 0.6:
            s.hint("call")
            return f"g({v})"
        names = [n for n in s.variables["int"] if n != v]
        if names and rng.random() < 0.45:
            w = rng.choice(names)
            op = rng.choice(("+", "+", "-", "*", "max", "min"))
            s.hint({"+": "add", "-": "sub", "*": "mul"}.get(op, op))
            return f"{op}({v}, {w})" if op in ("max", "min") else f"{v} {op} {w}"
        op = rng.choice(("+", "+", "+", "-", "-", "*", "%", "//"))
        s.hint({"+": "add", "-": "sub", "*": "mul", "%": "mod", "//": "div"}[op])
        k = constant(rng, 2, 3) if op in ("*", "//") else constant(rng, 1 if op != "%" else 2, 5)
        return f"{v} {op} {k}"
    v = s.pick(kind)
    if kind == "list":
        form = rng.choice(("{}[0]", "{}[-1]", "len({})", "max({})", "min({})", "sum({})"))
    else:
        form = rng.choice(("len({})", "{}.count('" + rng.choice(LETTERS) + "')"))
    word = {"{}[0]": "first", "{}[-1]": "last"}.get(form, form.split("(")[0].replace("{}.", ""))
    s.hint(word)
    return form.format(v)


def list_expression(s: Scope) -> str:
    """Return an expression of one operation whose value is a list of ints."""
    rng, v = s.rng, s.pick("list")
    form, word = rng.choice(
        (
            ("{}[::-1]", "reverse"),
            ("{}[1:]", "tail"),
            ("{}[:-1]", "init"),
            ("sorted({})", "sort"),
            ("{} + [" + constant(rng) + "]", "append"),
            ("[" + constant(rng) + "] + {}", "prepend"),
        )
    )
    if s.variables["int"] and rng.random() < 0.3:
        form, word = "{} + [" + s.pick("int") + "]", "append"
    s.hint(word)
    return form.format(v)


def str_expression(s: Scope) -> str:
    """Return an expression of one operation whose value is a string."""
    rng, v = s.rng, s.pick("str")
    letter = rng.choice(LETTERS)
    form, word = rng.choice(
        (
            ("{}[::-1]", "reverse"),
            ("{}[1:]", "tail"),
            ("{}[:-1]", "init"),
            ("{}[0]", "first"),
            ("{}[-1]", "last"),
            ("{}.upper()", "upper"),
            ("{} + '" + letter + "'", "append"),
            ("'" + letter + "' + {}", "prepend"),
            ("{} * 2", "double"),
        )
    )
    s.hint(word)
    return form.format(v)


def expression(s: Scope, kind: Kind) -> str:
    """Return an expression of one operation and of this kind; needs a variable to start from."""
    if kind == "int":
        return int_expression(s)
    return list_expression(s) if kind == "list" else str_expression(s)


def comprehension(s: Scope) -> str:
    """Return a list comprehension over a visible list."""
    rng, v = s.rng, s.pick("list")
    op, word = rng.choice((("+", "add"), ("+", "add"), ("-", "sub"), ("*", "mul"), ("%", "mod")))
    k = constant(rng, 2, 3) if op in "*%" else constant(rng, 1, 4)
    s.hint("each " + word)
    if rng.random() < 0.3:
        s.hint("where")
        return f"[i for i in {v} if i {rng.choice('<>')} {constant(rng, 2, 6)}]"
    return f"[i {op} {k} for i in {v}]"


def condition(s: Scope) -> str:
    """Return a test on a visible variable."""
    rng = s.rng
    kind = rng.choice(s.kinds())
    v = s.pick(kind)
    if kind == "int":
        return rng.choice(
            (
                f"{v} > {constant(rng, 2, 7)}",
                f"{v} < {constant(rng, 2, 7)}",
                f"{v} % 2 == {constant(rng, 0, 1)}",
            )
        )
    if kind == "list":
        return rng.choice((f"len({v}) > {constant(rng, 1, 3)}", f"{v}[0] > {constant(rng, 2, 6)}"))
    return rng.choice(
        (
            f"len({v}) > {constant(rng, 1, 3)}",
            f"'{rng.choice(LETTERS)}' in {v}",
            f"{v}[0] == '{rng.choice(LETTERS)}'",
        )
    )


def assignment(s: Scope, depth: int, *, update: bool | None = None) -> list[Line]:
    """Assign one operation to a new variable, or (update) to the variable it started from."""
    rng = s.rng
    kind = rng.choice(s.kinds())
    if kind != "int" and not s.variables["int"] and rng.random() < 0.35:
        kind = "int"
    listed = kind == "list" and rng.random() < 0.3
    value = comprehension(s) if listed else expression(s, kind)
    again = rng.random() < 0.5 if update is None else update
    name = s.pick(kind) if again and s.variables[kind] else s.fresh(kind)
    s.bind(kind, name)
    return [Line(depth, f"{name} = {value}", (name,))]


def branch(s: Scope, depth: int) -> list[Line]:
    """`if test:` with one update, half of the time with an `else:`."""
    test = condition(s)
    s.hint("if")
    name, kind = _target(s)
    lines = [Line(depth, f"if {test}:", condition=True), _update(s, depth + 1, name, kind)]
    if s.rng.random() < 0.5:
        lines += [Line(depth, "else:"), _update(s, depth + 1, name, kind)]
    return lines


def loop(s: Scope, depth: int, *, nested: bool) -> list[Line]:
    """A bounded loop that updates an accumulator; `nested` puts a branch into its body."""
    rng = s.rng
    iterables: list[Kind] = [k for k in s.kinds() if k != "int"]
    kind: Kind
    if iterables and rng.random() < 0.7:
        kind = rng.choice(iterables)
        over = s.pick(kind)
    else:
        kind, over = "int", f"range({constant(rng, 2, 3)})"
    s.hint("for " + {"list": "list", "str": "str", "int": "range"}[kind])
    item = "i" if kind != "str" else "e"
    if kind == "str":
        accumulator = s.fresh("str") if rng.random() < 0.6 else s.fresh("int")
    else:
        accumulator = s.pick("int") if kind == "int" and s.variables["int"] else s.fresh("int")
    is_str = accumulator in ("s", "t", "u")
    lines: list[Line] = []
    target: Kind = "str" if is_str else "int"
    if accumulator not in s.variables[target] or kind != "int":
        start = "''" if is_str else constant(rng, 0, 3)
        lines.append(Line(depth, f"{accumulator} = {start}", (accumulator,)))
    s.bind(target, accumulator)
    lines.append(Line(depth, f"for {item} in {over}:", (item,)))
    inner = depth + 1
    if nested:
        test = (
            f"{item} == '{rng.choice(LETTERS)}'"
            if kind == "str"
            else rng.choice((f"{item} > {constant(rng, 0, 5)}", f"{item} % 2 == 0"))
        )
        s.hint("if")
        lines.append(Line(inner, f"if {test}:", condition=True))
        inner += 1
    if is_str:
        text = rng.choice((f"{accumulator} + {item}", f"{item} + {accumulator}"))
    elif kind == "str":
        text = f"{accumulator} + {constant(rng, 1, 3)}"
    else:
        text = rng.choice(
            (
                f"{accumulator} + {item}",
                f"{accumulator} + {item}",
                f"{accumulator} - {item}",
                f"{accumulator} + {constant(rng, 1, 3)}",
                f"max({accumulator}, {item})",
            )
        )
    lines.append(Line(inner, f"{accumulator} = {text}", (accumulator,)))
    return lines


def while_loop(s: Scope, depth: int) -> list[Line]:
    """Count a visible int down to a bound; at most a handful of rounds for digit inputs."""
    rng = s.rng
    v = s.pick("int")
    bound, step = rng.randint(2, 5), rng.randint(2, 4)
    s.hint("while sub")
    return [
        Line(depth, f"while {v} > {bound}:", condition=True),
        Line(depth + 1, f"{v} = {v} - {step}", (v,)),
    ]


def _target(s: Scope) -> tuple[str, Kind]:
    kind = s.rng.choice(s.kinds())
    return s.pick(kind), kind


def _update(s: Scope, depth: int, name: str, kind: Kind) -> Line:
    keep = s.variables[kind]
    s.variables[kind] = [name]
    variables = {k: v for k, v in s.variables.items() if k != kind}
    if kind == "int":
        s.variables.update({"list": [], "str": []})
    value = expression(s, kind)
    s.variables[kind] = keep
    s.variables.update(variables)
    return Line(depth, f"{name} = {value}", (name,))


# `LONG` programs are longer than any that the model is taught: they measure generalisation.
LEVELS, LONG = (1, 2, 3, 4), 5
INPUTS_PER_PROGRAM = 6
# Share of programs beyond level 1 whose result comes from the variable that changed last; in the
# others it may come from any, so that some statements are there in vain.
USED_SHARE = 0.8
# One program text in this many is held out of pretraining, chosen by the hash of the text.
HELD_OUT_SHARE = 16


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
    inputs: dict[str, tuple[object, ...]] = {}
    while len(inputs) < INPUTS_PER_PROGRAM:
        arguments = tuple(random_value(rng, k) for k in kinds)
        inputs.setdefault(repr(arguments), arguments)
    return tuple(inputs.values())


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
