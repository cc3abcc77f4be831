"""Random statements of the nano language: a small, typed subset of Python in four levels.

Level 1 is one return expression; level 2 adds an assignment, a branch or a comprehension; level 3
adds loops over lists, strings and short ranges; level 4 combines several of these and may call a
helper. Values stay small (digits, lists of at most five digits, strings of at most six letters), so
that a model of a few million parameters can follow them step by step.
"""

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
        others = [n for n in s.variables["int"] if n != v]
        if others and rng.random() < 0.45:
            w = rng.choice(others)
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
