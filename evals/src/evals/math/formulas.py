"""Read tokens into the tree of a formula.

Letters are variables, except e and i, which are the numbers; juxtaposition multiplies; a whole
number before a numeric fraction is a mixed number; a derivative dx/dt is the variable x'.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from evals.math.notation import FUNCTIONS, GREEK, MAX_NESTING, OPENING, Token, TooLarge, Unreadable

Tree: TypeAlias = tuple[Any, ...]
"""("number", Fraction), ("variable", name), ("constant", name) or (operation, operand, ...)."""

_MARKS = {"dot": "'", "ddot": "''", "vec": "", "hat": "", "tilde": "~"}
_ROUNDED = {"lfloor": "floor", "lceil": "ceiling"}
_FACTORS = {"frac", "binom", "pi", "infty", "overline", *FUNCTIONS, *GREEK, *_MARKS, *_ROUNDED}
"""Commands that begin a factor."""
_POSTFIX = {"!": "factorial", "%": "percent", "°": "degrees"}
_INFIX = {"over": "divide", "choose": "binomial"}
_DERIVED = re.compile(r"\{?d(?:\^\{?(\d)\}?)?([^\d^].*?)\}?")
_DERIVED_BY = re.compile(r"\{?d[a-zA-Z]+(?:\^\{?\d\}?)?\}?")
END = Token("end", "")


def formula(parts: list[Token]) -> tuple[Tree, list[Token]]:
    """Return the tree of a formula, and the tokens after it: a unit or words. Raises Unreadable."""
    reader = _Reader(list(parts))
    tree = reader.sum()
    return tree, reader.tokens[reader.place :]


def number(value: Fraction | int) -> Tree:
    return ("number", Fraction(value))


def nodes(*trees: Tree) -> list[Tree]:
    """Return the trees and all their subtrees."""
    parts = list(trees)
    for tree in parts:  # grows as it goes
        parts += [part for part in tree if isinstance(part, tuple)]
    return parts


def variables(*trees: Tree) -> set[str]:
    """Return the names of the variables of trees."""
    return {str(node[1]) for node in nodes(*trees) if node[0] == "variable"}


def has(tree: Tree, name: str) -> bool:
    """Return whether an operation or a constant is in a tree."""
    return any(name in node for node in nodes(tree))


def substitute(tree: Tree, trees: dict[str, Tree]) -> Tree:
    """Return the tree with variables, and the constants e and i, replaced by other trees."""
    if tree[0] in ("variable", "constant"):
        return trees.get(str(tree[1]), tree)
    return tuple(substitute(part, trees) if isinstance(part, tuple) else part for part in tree)


def choose_signs(tree: Tree, sign: int) -> Tree:
    """Return the tree with each \\pm as + if the sign is 1, - if it is -1; \\mp is the opposite."""
    if tree[0] in ("plus or minus", "minus or plus"):
        inner = choose_signs(tree[1], sign)
        return inner if (tree[0] == "plus or minus") == (sign > 0) else ("negate", inner)
    return tuple(choose_signs(part, sign) if isinstance(part, tuple) else part for part in tree)


class _Reader:
    def __init__(self, sequence: list[Token]) -> None:
        self.tokens = sequence
        self.place = 0
        self.depth = 0

    def peek(self, ahead: int = 0) -> Token:
        index = self.place + ahead
        return self.tokens[index] if index < len(self.tokens) else END

    def take(self, text: str | None = None) -> Token:
        token = self.peek()
        if token is END or token.text != (text or token.text):
            raise Unreadable(f"found {token.text!r}, expected {text!r}")
        self.place += 1
        return token

    def sum(self) -> Tree:
        terms = [self.product()]
        while (sign := self.peek().text) in ("+", "-", "±", "∓") and self.peek(1).kind != "text":
            self.take()
            terms.append(_with_sign(sign, self.product()))
        tree = terms[0] if len(terms) == 1 else ("add", *terms)
        if self.peek().kind == "command" and self.peek().text in _INFIX:  # {a \\over b}
            return (_INFIX[self.take().text], tree, self.nested(self.sum))
        return tree

    def product(self) -> Tree:
        factors = [self.signed()]
        while True:
            token = self.peek()
            if token.text in ("*", "/") and self.peek(1).kind != "text":
                self.take()
                divided = token.text == "/"
                factors.append(("divide", number(1), self.divisor()) if divided else self.signed())
            elif self.starts_factor(token):
                if token.kind == "number" and self.tokens[self.place - 1].kind == "number":
                    raise Unreadable("two numbers in a row")
                factors.append(self.power())
            else:
                return _product(factors)

    def divisor(self) -> Tree:
        """The divisor after a slash; adjacent letters belong to it: t/RC is t/(RC)."""
        is_letter = self.peek().text in GREEK or self.peek().kind == "letter"
        factors = [self.signed()]
        while is_letter and self.peek().kind == "letter" and not self.peek().spaced:
            factors.append(self.power())
        return _product(factors)

    def signed(self) -> Tree:
        sign = "+"
        while (token := self.peek()).text in ("+", "-", "±", "∓"):
            if sign != "+" and {"±", "∓"} & {sign, token.text}:
                raise Unreadable("two signs")
            self.take()
            sign = token.text if sign == "+" else {"-": "+"}.get(token.text, sign)
        return _with_sign(sign, self.power())

    def starts_factor(self, token: Token) -> bool:
        if token.text in ("(", "[", "{"):
            return self.peek(1).kind != "text"
        if token.text == "|":  # 2|x|, but not in |2|x||, which may be read in two ways
            bars = [place for place, other in enumerate(self.tokens) if other.text == "|"]
            return len(bars) == 2 and bars[0] == self.place
        if token.text == "frac":
            return self.peek(2 if self.peek(1).text == "{" else 1).kind != "text"
        return token.kind in ("number", "letter") or (
            token.kind == "command" and token.text in _FACTORS
        )

    def power(self) -> Tree:
        tree = self.postfix(self.nested(self.primary))
        if self.peek().text == "^":
            self.take()
            tree = self.postfix(("power", tree, self.nested(self.exponent)))
        return tree

    def exponent(self) -> Tree:
        if self.peek().text in ("+", "-"):
            return _with_sign(self.take().text, self.nested(self.exponent))
        return self.power()

    def postfix(self, tree: Tree) -> Tree:
        while self.peek().text == "'" and tree[0] == "variable":
            self.take()
            tree = ("variable", f"{tree[1]}'")
        if self.peek().text in _POSTFIX:
            tree = (_POSTFIX[self.take().text], tree)
        return tree

    def nested(self, read: Callable[[], Tree]) -> Tree:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise TooLarge("guard: nesting")
        tree = read()
        self.depth -= 1
        return tree

    def group(self, opening: str) -> Tree:
        tree = self.sum()
        self.take(OPENING[opening])
        return tree

    def argument(self) -> Tree:
        """The argument of \\frac or \\sqrt: a group, one digit, or one other token."""
        token = self.peek()
        if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.place] = Token("number", token.text[1:])
            return number(int(token.text[0]))
        return self.nested(self.primary)

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
            return self.command(token.text)
        raise Unreadable(token.text)

    def number(self, token: Token) -> Tree:
        text = token.text
        if abs(int(re.split("[eE]", text + "e0")[1])) > 2_000:
            raise TooLarge("guard: exponent")
        after = self.peek()
        if "." in text and after.text == "overline":
            return self.repeating(text)
        tree, start = number(Fraction(text)), self.place
        if not text.isdigit():
            return tree
        if after.text == "frac" and self.starts_factor(after):
            self.take()
            top, bottom = self.argument(), self.argument()
            if top[0] == bottom[0] == "number":
                return ("add", tree, ("divide", top, bottom))
            self.place = start
        below = self.peek(2).text
        if after.spaced and self.peek(1).text == "/" and (after.text + below).isdigit() and below:
            self.place += 3
            return ("add", tree, number(Fraction(int(after.text), int(below))))
        return tree

    def repeating(self, text: str) -> Tree:
        """The number 0.1\\overline{6}."""
        self.take()
        self.take("{")
        period = self.take().text
        self.take("}")
        if not period.isdigit():
            raise Unreadable("repeating decimal")
        places = len(text.partition(".")[2])
        return number(Fraction(text) + Fraction(int(period), 10**places * (10 ** len(period) - 1)))

    def variable(self, name: str) -> Tree:
        if self.peek().text == "_":
            self.take()
            name += "_" + self.subscript()
        elif name in ("e", "i"):
            return ("constant", name)
        inside = self.peek(1)
        if self.peek().text == "(" and inside.text.isdigit() and self.peek(2).text == ")":
            name += f"({inside.text})"
            self.place += 3
        return ("variable", name)

    def subscript(self) -> str:
        token = self.take()
        if token.text != "{":
            return token.text
        parts, depth = [], 1
        while depth:
            token = self.take()
            depth += (token.text == "{") - (token.text == "}")
            parts.append(token.text.strip("{}"))
        return "".join(parts)

    def command(self, name: str) -> Tree:
        if name == "frac":
            return self.fraction()
        if name == "binom":
            return ("binomial", self.argument(), self.argument())
        if name in _ROUNDED:
            return (_ROUNDED[name], self.group(name))
        if name in ("pi", "infty"):
            return ("constant", name)
        if name in FUNCTIONS:
            return self.function(name)
        if name in GREEK:
            return self.variable(name)
        if name in _MARKS and (inner := self.argument())[0] == "variable":
            return ("variable", f"{self.variable(str(inner[1]))[1]}{_MARKS[name]}")
        raise Unreadable(name)

    def fraction(self) -> Tree:
        start, top, middle, bottom = self.place, self.argument(), self.place, self.argument()
        texts = [token.text for token in self.tokens]
        above, below = "".join(texts[start:middle]), "".join(texts[middle : self.place])
        if (derived := _DERIVED.fullmatch(above)) and _DERIVED_BY.fullmatch(below):
            return ("variable", re.sub(r"[{}]", "", derived[2]) + "'" * int(derived[1] or 1))
        return ("divide", top, bottom)

    def function(self, name: str) -> Tree:
        if name == "sqrt":
            degree = number(2)
            if self.peek().text == "[":
                self.take()
                degree = self.group("[")
            return ("root", self.argument(), degree)
        base = number(10) if name == "lg" else None
        exponent: Tree | None = None
        while self.peek().text in ("_", "^"):
            if self.take().text == "_":
                base = self.argument()
            else:
                exponent = self.exponent()
        if exponent == ("negate", number(1)) and name in ("sin", "cos", "tan"):
            name, exponent = "arc" + name, None
        tree: Tree = (name, self.function_argument())
        if base is not None:
            if name not in ("lg", "log"):
                raise Unreadable("base of " + name)
            tree = ("divide", ("ln", tree[1]), ("ln", base))
        return tree if exponent is None else ("power", tree, exponent)

    def function_argument(self) -> Tree:
        """Brackets, or the factors up to the next sign or function: sin 2t cos t."""
        if self.peek().text in ("(", "[", "{"):
            return self.postfix(self.group(self.take().text))
        factors, ends = [self.signed()], {"(", "[", "{", *FUNCTIONS}
        while self.starts_factor(after := self.peek()) and after.text not in ends:
            factors.append(self.power())
        return _product(factors)


def _product(factors: list[Tree]) -> Tree:
    return factors[0] if len(factors) == 1 else ("multiply", *factors)


def _with_sign(sign: str, tree: Tree) -> Tree:
    names = {"-": "negate", "±": "plus or minus", "∓": "minus or plus"}
    return tree if sign == "+" else (names[sign], tree)
