"""Read a formula in LaTeX or plain spelling into a small tree.

The input went through `notation.plain`. Letters are variables, but for e and i, which are the
numbers; juxtaposition multiplies; a whole number before a numeric fraction is a mixed number; a
derivative dx/dt is a variable of its own. Two numbers in a row, words, and what is not listed here
cannot be read: Unreadable.
"""

from fractions import Fraction
from typing import TypeAlias

from evals.math.formulas.guards import MAX_NESTING
from evals.math.formulas.tokens import (
    CLOSING,
    FACTORS,
    FUNCTIONS,
    GREEK,
    MARKS,
    Token,
    Unreadable,
    derivative,
    tokens,
)

Tree: TypeAlias = tuple[object, ...]
"""("number", Fraction), ("variable", name), or (operation, operand, ...)."""


def read(text: str, tight: bool = False) -> Tree:
    """The tree of a formula. Raises Unreadable.

    tight: letters after a slash stay below it together: t/RC is t/(RC), t/2R is t/(2R).
    """
    reader = _Reader(tokens(text), tight)
    tree = reader.sum()
    if reader.more():
        raise Unreadable(reader.peek().text)
    return tree


class _Reader:
    def __init__(self, found: list[Token], tight: bool) -> None:
        self.tokens = found
        self.tight = tight
        self.place = 0
        self.depth = 0

    def more(self) -> bool:
        return self.place < len(self.tokens)

    def peek(self, ahead: int = 0) -> Token:
        index = self.place + ahead
        return self.tokens[index] if index < len(self.tokens) else Token("end", "")

    def take(self, text: str | None = None) -> Token:
        token = self.peek()
        if token.kind == "end" or (text is not None and token.text != text):
            raise Unreadable(f"found {token.text!r}, expected {text!r}")
        self.place += 1
        return token

    def sum(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise Unreadable("nesting")
        tree = self.term()
        while self.peek().text in ("+", "-"):
            sign = self.take().text
            right = self.term()
            tree = ("add", tree, right if sign == "+" else ("negate", right))
        self.depth -= 1
        return tree

    def term(self) -> Tree:
        tree = self.signed()
        while True:
            token = self.peek()
            if token.text in ("*", "\\cdot"):
                self.take()
                tree = ("multiply", tree, self.signed())
            elif token.text == "/":
                self.take()
                tree = ("divide", tree, self.divisor())
            elif self.starts_factor(token):
                if token.kind == "number" and self.tokens[self.place - 1].kind == "number":
                    raise Unreadable("two numbers in a row")
                tree = ("multiply", tree, self.power())
            else:
                return tree

    def divisor(self) -> Tree:
        named = self.peek().kind in ("letter", "command")
        tree = self.signed()
        while self.tight and (after := self.peek()).kind in ("letter", "command"):
            if not self.starts_factor(after) or (after.spaced and not named):
                break
            tree = ("multiply", tree, self.power())
        return tree

    def signed(self) -> Tree:
        if self.peek().text in ("+", "-"):
            sign = self.take().text
            inner = self.signed()
            return inner if sign == "+" else ("negate", inner)
        return self.power()

    def starts_factor(self, token: Token) -> bool:
        if token.kind in ("number", "letter"):
            return True
        if token.kind == "command":
            return token.text[1:] in FACTORS
        return token.text in ("(", "[", "{")

    def power(self) -> Tree:
        tree = self.postfix(self.primary())
        if self.peek().text in ("^", "**"):
            self.take()
            tree = self.postfix(("power", tree, self.exponent()))
        return tree

    def postfix(self, tree: Tree) -> Tree:
        while self.peek().text in ("!", "%", "°", "'"):
            mark = self.take().text
            if mark == "'":
                if tree[0] != "variable":
                    raise Unreadable("prime")
                tree = ("variable", f"{tree[1]}'")
            else:
                tree = ({"!": "factorial", "%": "percent", "°": "degrees"}[mark], tree)
        return tree

    def exponent(self) -> Tree:
        if self.peek().text in ("+", "-"):
            sign = self.take().text
            inner = self.exponent()
            return inner if sign == "+" else ("negate", inner)
        tree = self.postfix(self.primary())
        if self.peek().text in ("^", "**"):
            self.take()
            tree = ("power", tree, self.exponent())
        return tree

    def group(self, opening: str) -> Tree:
        tree = self.sum()
        self.take(CLOSING[opening])
        return tree

    def argument(self) -> Tree:
        """What \\frac or \\sqrt takes: a group, one digit, or one other token."""
        token = self.peek()
        if token.text == "{":
            self.take()
            return self.group("{")
        if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.place] = Token("number", token.text[1:])
            return ("number", Fraction(token.text[0]))
        return self.primary()

    def primary(self) -> Tree:
        token = self.take()
        if token.kind == "number":
            return self.number(token)
        if token.kind == "letter":
            return self.variable(token.text)
        if token.text in ("(", "[", "{"):
            return self.group(token.text)
        if token.text == "|":
            inner = self.sum()
            self.take("|")
            return ("abs", inner)
        if token.kind == "command":
            return self.command(token.text[1:])
        raise Unreadable(token.text)

    def number(self, token: Token) -> Tree:
        if len(token.text) > 400 or not _sane(token.text):
            raise Unreadable("number")
        tree: Tree = ("number", Fraction(token.text))
        if not token.text.isdigit():
            return tree
        after, start = self.peek(), self.place
        if after.text == "\\frac":
            self.take()
            top, bottom = self.argument(), self.argument()
            if top[0] == bottom[0] == "number":
                return ("add", tree, ("divide", top, bottom))
            self.place = start
        ahead = [self.peek(k) for k in range(3)]
        if (
            after.kind == "number"
            and after.spaced
            and ahead[1].text == "/"
            and after.text.isdigit()
            and ahead[2].text.isdigit()
        ):
            self.place += 3
            top, bottom = (("number", Fraction(part.text)) for part in (after, ahead[2]))
            return ("add", tree, ("divide", top, bottom))
        return tree

    def variable(self, name: str) -> Tree:
        if self.peek().text == "_":
            self.take()
            name += "_" + self.subscript()
        elif name == "e":
            return ("constant", "e")
        elif name == "i":
            return ("constant", "i")
        if self.peek().text == "(" and self.peek(1).text.isdigit() and self.peek(2).text == ")":
            name += f"({self.peek(1).text})"
            self.place += 3
        return ("variable", name)

    def subscript(self) -> str:
        token = self.take()
        if token.text != "{":
            return token.text.lstrip("\\")
        parts, depth = [], 1
        while depth:
            token = self.take()
            depth += (token.text == "{") - (token.text == "}")
            if token.text not in ("{", "}", "\\text"):
                parts.append(token.text.lstrip("\\"))
        return "".join(parts)

    def command(self, name: str) -> Tree:
        if name == "frac":
            return self.fraction()
        if name == "binom":
            return ("binomial", self.argument(), self.argument())
        if name in ("lfloor", "lceil"):
            inner = self.group("\\" + name)
            return ("floor" if name == "lfloor" else "ceiling", inner)
        if name in ("pi", "infty"):
            return ("constant", name)
        if name in MARKS:
            return self.marked(name)
        if name in FUNCTIONS:
            return self.function(name)
        if name in GREEK:
            return self.variable(name)
        raise Unreadable("\\" + name)

    def marked(self, name: str) -> Tree:
        inner = self.argument()
        if inner[0] != "variable":
            raise Unreadable(name)
        primes = {"dot": "'", "ddot": "''"}.get(name)
        if primes:
            return ("variable", f"{self.variable(str(inner[1]))[1]}{primes}")
        return self.variable(f"{name} {inner[1]}")

    def fraction(self) -> Tree:
        top_start = self.place
        top = self.argument()
        bottom_start = self.place
        bottom = self.argument()
        below = self.tokens[bottom_start : self.place]
        name = derivative(self.tokens[top_start:bottom_start], below)
        return ("variable", name) if name else ("divide", top, bottom)

    def function(self, name: str) -> Tree:
        if name == "sqrt":
            degree: Tree = ("number", Fraction(2))
            if self.peek().text == "[":
                self.take()
                degree = self.group("[")
            return ("root", self.argument(), degree)
        base: Tree | None = None
        exponent: Tree | None = None
        while self.peek().text in ("_", "^"):
            if self.take().text == "_":
                base = self.argument()
            else:
                exponent = self.exponent()
        if exponent == ("negate", ("number", Fraction(1))) and name in ("sin", "cos", "tan"):
            name, exponent = "arc" + name, None
        tree: Tree = (name, self.function_argument())
        if base is not None:
            if name != "log":
                raise Unreadable("base of " + name)
            tree = ("divide", ("ln", *tree[1:]), ("ln", base))
        return tree if exponent is None else ("power", tree, exponent)

    def function_argument(self) -> Tree:
        """Brackets, or the factors up to the next sign or function: sin 2t cos t."""
        if self.peek().text in ("(", "[", "{"):
            return self.postfix(self.group(self.take().text))
        tree = self.signed()
        while self.starts_factor(self.peek()) and self.peek().text[1:] not in FUNCTIONS:
            if self.peek().text in ("(", "[", "{"):
                break
            tree = ("multiply", tree, self.power())
        return tree


def _sane(number: str) -> bool:
    """Whether the power of ten of a number is small enough to write it out."""
    _, _, power = number.lower().partition("e")
    return not power or abs(int(power)) <= 2_000
