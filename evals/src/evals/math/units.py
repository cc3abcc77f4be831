"""Units after a value: their names, their sizes, and values in another unit."""

import re
from fractions import Fraction

from evals.math.formulas import Tree, number
from evals.math.notation import UNIT_LETTERS, Token
from evals.math.words import SIZES, WORDS, is_condition, is_name, is_plain, words_of

_SIZES: dict[str, tuple[str, Fraction]] = {}
_CANONICAL: dict[str, str] = {}
for _kind, _units in SIZES.items():
    for _size, _name, *_others in map(str.split, _units.split(",")):
        _SIZES[_name] = (_kind, Fraction(_size))
        _CANONICAL |= dict.fromkeys((_name, *_others), _name)
_PREFIX = re.compile(r"(?:[numkMGµμ]|nano|micro|milli|kilo|mega|giga)(?=[a-zA-Z])")
_LASTING = re.compile(r"[a-z] (?:in|over the|in the)$")
"""Words after which a number belongs to the unit: 366 downloads over the 3 months."""
_SIGNS = re.compile(r"[!%=<>+]|^\s*[-*]|(?<!')'(?!')")
_PER = re.compile(r"(?<!\s)\s+per\s+")
_POWER = re.compile(r"\b(sq(?:uared?)?\b)|\b(cu(?:bic|bed)?\b)|\^\{?([23])")
_IGNORED = re.compile(
    r"""
    \b(?:square|squared|sq|cubic|cubed|cu)\b  # square inches
    |\b(?:of|per|old|long)\b                  # 7 years old
    |/?\s*\b(?:mol|moles?)\b                  # kJ/mol
    |\^\{?-?\d\}?                             # cm^2
    |[{}.,*\s]
    """,
    re.VERBOSE,
)


def unit(after: list[Token]) -> str | None:
    """Return the canonical name of the unit or of the counted things after a value: cm^2, apple.

    None if the tokens hold another value, or a word that is neither a unit nor a counted thing.
    """
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
    kind = _measured(canonical_unit(text))[0].partition("^")[0] if len(sized) == 1 else ""
    powers = len(_POWER.findall(text)) - (kind in ("metre", "foot"))
    return (kind != "" and powers > 0) or _SIGNS.search(text.partition("(")[0]) is not None


def is_unit(word: str, alone: bool = False) -> bool:
    """Return whether a word is a unit or a counted thing. alone: no other word is after a value."""
    if len(word) == 1:
        return word in (UNIT_LETTERS if alone else UNIT_LETTERS | {"a"})
    small, base = word.lower(), _PREFIX.sub("", word, count=1)
    units = _CANONICAL.keys() | WORDS["units"] | WORDS["links"]
    return small in units or base in WORDS["prefixed"] or is_plain(small)


def canonical_unit(text: str) -> str:
    """Return the short name of a common unit, of a length with its power: cm^2; else the text."""
    top, slash, bottom = _PER.sub("/", text.partition("(")[0]).partition("/")
    if slash and (below := canonical_unit(bottom)):
        return f"{canonical_unit(top)}/{below}"
    bare = _IGNORED.sub(" ", top).strip().lower()
    name = _CANONICAL.get(bare) or _CANONICAL.get(bare.split(" ")[0], bare)
    if _SIZES.get(name, ("",))[0] not in ("metre", "foot"):
        return name
    power = _POWER.search(text.lower().replace(" ", "") if "^" in text else text.lower())
    return name if power is None else f"{name}^{power[3] or (2 if power[1] else 3)}"


def units_differ(one: str, other: str) -> bool:
    """Return whether both are common units, and different ones."""
    return one != other and all(_measured(name)[0] for name in (one, other))


def converted(tree: Tree, unit_name: str, wanted: str) -> Tree | None:
    """Return a value in another unit; None if the two do not measure the same."""
    (kind, size), (wanted_kind, wanted_size) = map(_measured, (unit_name, wanted))
    if not kind or kind != wanted_kind:
        return None
    return ("divide", ("multiply", tree, size), wanted_size)


def _measured(name: str) -> tuple[str, Tree]:
    """The quantity that a unit measures, and its size; also of cm^2 and km/h."""
    if "/" in name:
        parts = [_measured(part) for part in name.split("/", 1)]
        known = all(kind for kind, _ in parts)
        return "/".join(kind for kind, _ in parts) * known, ("divide", *(size for _, size in parts))
    base, _, power = name.partition("^")
    kind, size = _SIZES.get(base, ("", Fraction(1)))
    if power and not power.isdigit():
        kind, power = "", ""
    tree = ("degrees", number(1)) if base == "degree" else number(size)
    if power:
        return f"{kind}^{power}", ("power", tree, number(int(power)))
    return kind, tree
