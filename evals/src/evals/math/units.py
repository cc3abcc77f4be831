"""Units after a value: their names, their sizes, and values in another unit."""

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from evals.math.formulas import Tree, number
from evals.math.notation import UNIT_LETTERS, UNIT_RULES, Token
from evals.math.words import PREFIXES, SIZES, WORDS, is_condition, is_name, is_plain, words_of

_SIZES: dict[str, tuple[str, Fraction]] = {}
_CANONICAL: dict[str, str] = {}


def _add(dimension: str, size: Fraction, names: list[str]) -> None:
    """Enter a unit, and its multiples: under the prefixes of names that end in * or +."""
    bare = [name.rstrip("*+") for name in names]
    _SIZES[bare[0]] = (dimension, size)
    _CANONICAL.update(dict.fromkeys(bare, bare[0]))
    for letter, word, power in map(str.split, PREFIXES):
        marked = [n[:-1] for n in names if n[-1] == "*" or (n[-1] == "+" and int(power) > 0)]
        if multiples := [(word if len(name) > 3 else letter) + name for name in marked]:
            _add(dimension, size * Fraction(10) ** int(power), multiples)


for _dimension, _units in SIZES.items():
    for _size, *_names in map(str.split, _units.split(",")):
        _add(_dimension, Fraction(_size), _names)
_LOWER: dict[str, str | None] = {}
"""Names in lower case, of which some are of two units: mw."""
for _name, _short in _CANONICAL.items():
    _LOWER[_name.lower()] = _short if _LOWER.get(_name.lower(), _short) == _short else None
_LOWER |= {name: short for name, short in _CANONICAL.items() if name.islower()}
_SAME = ({"pound", "gbp"}, {"ton", "t"}, {"F", "fahrenheit"}, {"C", "celsius"})
"""Names that may be of one unit, and may be of two."""
_LASTING = re.compile(r"[a-z] (?:in|over the|in the)$")
"""Words after which a number belongs to the unit: 366 downloads over the 3 months."""
_SIGNS = re.compile(r"[!%=<>+]|^\s*[-*]|(?<!')'(?!')")
_PER = re.compile(r"(?<!\s)\s+(?:per|an?)\s+")
_FRACTION = re.compile(r"frac\s*\{([^{}]+)\}(?=\s*\{)")
_POWER = re.compile(r"\b(?:sq(?:uared?)?|cu(?:bic|bed)?)\b|\^\{?[23]")
_FACTOR = re.compile(r"([A-Za-z°%]+|''|[\"'])(?:[\s}.]*\^[\s{]*(-?\d))?")


def unit(after: list[Token]) -> str | None:
    """Return the canonical name of the unit or of the counted things after a value: cm^2, apple;
    None if the tokens hold another value, or a word that is neither."""
    text = _unit_text(after)
    if text is None:
        return None
    name, _, remark = text.partition("(")
    words = words_of(name)
    alone = len(words) == 1
    checks = [
        is_unit(word, alone) or (place > 0 and is_name(word)) for place, word in enumerate(words)
    ]
    checks += [is_condition([word]) or is_unit(word) for word in words_of(remark)]
    if not all(checks) or (words and (set(words) <= WORDS["links"] or _is_raised(text, words))):
        return None
    return canonical_unit(text) if words or remark or re.search("''|[\"°]", text) else None


def _unit_text(after: list[Token]) -> str | None:
    """The text of tokens after a value; None if they hold another value."""
    raised, depth, parts = False, 0, []
    for token in after:
        depth += (token.text in "([{") - (token.text in ")]}")
        value = token.kind in ("number", "letter") or token.text in ("pi", "sqrt")
        if value and not raised and not depth:
            return None
        parts.append(f" {token.text} " if token.kind == "text" else token.text)
        raised = token.text in "^_" or (raised and token.text in "{-")
        raised = raised or (token.kind == "text" and _LASTING.search(token.text) is not None)
    return "".join(parts).replace(" ^", "^")


def _is_raised(text: str, words: list[str]) -> bool:
    """Whether signs change a unit: cents squared; only a length may be squared."""
    sized = [word for word in words if word.lower() not in WORDS["links"]]
    kind = measure(short_name(sized[0]) or "")[0] if len(sized) == 1 else ""
    powers = len(_POWER.findall(text)) - (kind == "m1")
    return (kind != "" and powers > 0) or _SIGNS.search(text.partition("(")[0]) is not None


def short_name(word: str) -> str | None:
    """Return the short name of a unit, or None."""
    return _CANONICAL.get(word) or (_LOWER.get(word.lower()) if len(word) > 1 else None)


def is_unit(word: str, alone: bool = False) -> bool:
    """Return whether a word is a unit or a counted thing. alone: no other word is after a value."""
    if len(word) == 1:
        return word in (UNIT_LETTERS if alone else UNIT_LETTERS | {"a"})
    small = word.lower()
    return short_name(word) is not None or small in WORDS["links"] or is_plain(small)


def canonical_unit(text: str) -> str:
    """Return a unit in short names: kg*m^2/s; of counted things, the text."""
    text = _FRACTION.sub(r"\1/", text.partition("(")[0])
    for pattern, put in UNIT_RULES:
        text = pattern.sub(put, text)
    top, slash, bottom = _PER.sub("/", text).partition("/")
    factors = []
    for word, power in _FACTOR.findall(top):
        if (name := short_name(word)) is not None:
            factors.append(f"{name}^{power}" if power else name)
        elif word.lower() not in WORDS["links"]:
            break
    name = "*".join(factors) or re.sub(r"\b(?:of|old|long)\b|[.,*\s]+", " ", top).strip().lower()
    below = canonical_unit(bottom) if slash else ""
    return f"{name}/{below}" if below else name


def units_differ(one: str, other: str) -> bool:
    """Return whether both are known units, and different ones."""
    differ = one != other and {one, other} not in _SAME
    return differ and all(measure(name)[0] for name in (one, other))


def convert(tree: Tree, unit_name: str, target: str) -> Tree | None:
    """Return a value in another unit; None if the two do not measure the same."""
    (kind, size), (target_kind, target_size) = map(measure, (unit_name, target))
    if not kind or kind != target_kind:
        return None
    return ("divide", ("multiply", tree, size), target_size)


@lru_cache(maxsize=1024)
def measure(name: str) -> tuple[str, Tree]:
    """Return the dimension of a unit such as km/h, kg-1 m2, and its size; "" if it has none."""
    powers, size = Counter[str](), number(1)
    for base, power in _factors(name):
        if base not in _SIZES:
            return "", number(1)
        dimension, factor = _SIZES[base]
        tree = number(factor)
        if dimension == "degrees":
            dimension, tree = "rad", ("degrees", tree)
        for part, exponent in _factors(dimension):
            powers[part] += exponent * power
        size = ("multiply", size, ("power", tree, number(power)))
    return " ".join(f"{part}{powers[part]}" for part in sorted(powers) if powers[part]), size


def _factors(name: str) -> Iterator[tuple[str, int]]:
    """The names in kg*m/s^2, with their powers."""
    for place, part in enumerate(name.split("/")):
        for factor in part.split("*"):
            if match := re.fullmatch(r"(.*?)(?:\^(-?\d+))?", factor):  # not units^2 for
                yield match[1], int(match[2] or 1) * (-1 if place else 1)
