"""Cut a formula in LaTeX or plain spelling into tokens."""

import re
from dataclasses import dataclass


class Unreadable(ValueError):
    """The text is no formula of the language of `expressions`."""


FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
    "exp", "ln", "log", "sqrt",
}  # fmt: skip
_ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log"}
GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa",
    "lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
    "Gamma", "Delta", "Theta", "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega", "hbar", "ell",
    "odot", "nabla",
}  # fmt: skip
MARKS = {"dot", "ddot", "vec", "hat", "bar", "tilde", "overline"}
FACTORS = FUNCTIONS | GREEK | MARKS | {"frac", "binom", "pi", "lfloor", "lceil", "infty"}
"""Commands that begin a factor."""
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?[eE][-+]?\d+(?![A-Za-z])|\d+\.\d*|\.\d+|\d+)"
    r"|(?P<command>\\[A-Za-z]+|\\[{}|])|(?P<word>[A-Za-z]+)|(?P<sign>\*\*|\S))"
)
LETTERS = (
    "arcsin|arccos|arctan|asin|acos|atan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|exp|ln|log|sqrt|pi"
    "|theta|omega|[A-Za-z]"
)
"""The pieces of a run of letters."""
_LETTERS = re.compile(LETTERS)
CLOSING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}


@dataclass(frozen=True)
class Token:
    """kind: number, command, letter or sign. spaced: white space stands before it."""

    kind: str
    text: str
    spaced: bool = False


def tokens(text: str) -> list[Token]:
    """Cut a formula; a run of letters becomes function names and single letters."""
    found: list[Token] = []
    place = 0
    text = text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise Unreadable(text[place : place + 20])
        kind = str(match.lastgroup)
        content = match.group(kind)
        spaced = match.start(kind) > place
        if kind == "word":
            for piece in _LETTERS.findall(content):
                name = "\\" + _ALIASES.get(piece, piece) if len(piece) > 1 else piece
                found.append(Token("command" if len(piece) > 1 else "letter", name, spaced))
                spaced = False
        else:
            found.append(Token(kind, content, spaced))
        place = match.end()
    return found


def derivative(above: list[Token], below: list[Token]) -> str | None:
    """The name y' or y'' of a fraction dy/dx, d^2y/dx^2; None for other fractions."""
    top, bottom = ("".join(token.text for token in part) for part in (above, below))
    found = re.fullmatch(r"\{?d(?:\^\{?(\d)\}?)?([^\d^].*?)\}?", top)
    if found is None or not re.fullmatch(r"\{?d\\?[A-Za-z]+(?:\^\{?\d\}?)?\}?", bottom):
        return None
    name = re.sub(r"[{}\\]|text", "", found.group(2))
    return name + "'" * int(found.group(1) or 1) if name else None
