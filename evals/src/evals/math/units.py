"""Units after a value, numbers in words, and answers that are words or the letter of a choice."""

import re
from fractions import Fraction

from evals.math.formulas import Tree, number
from evals.math.notation import Token

_TABLE = {
    "money": "1 cent cents, 100 dollar dollars usd bucks",
    "time": "1 s second seconds sec secs, 60 min minute minutes mins, 3600 h hour hours hr hrs, "
    "86400 day days, 604800 week weeks",
    "calendar": "1 month months, 12 year years yr yrs",
    "metre": "1e-7 angstrom angstroms, 1e-6 nm nanometer nanometers, 1 mm millimeter millimeters, "
    "10 cm centimeter centimeters centimetre centimetres, 1e3 m meter meters metre metres, "
    "1e6 km kilometer kilometers kilometre kilometres",
    "foot": "1 in inch inches '' \", 12 ft foot feet ', 36 yd yard yards, 63360 mi mile miles",
    "energy": "1 j joule joules, 1e3 kj kilojoule kilojoules",
    "mass": "1 g gram grams, 1e3 kg kilogram kilograms",
    "angle": "1 radian radians rad rads, 1 degree degrees deg °",
    "share": "1 percent percentage %",
    "electric energy": "1 ev electronvolt electronvolts",
    "temperature": "1 celsius °c c",
    "absolute temperature": "1 kelvin kelvins k",
}
"""What is measured: the size, the short name and the other names of its units."""
_SIZES: dict[str, tuple[str, Fraction]] = {}
_CANONICAL: dict[str, str] = {}
for _kind, _units in _TABLE.items():
    for _size, _name, *_others in map(str.split, _units.split(",")):
        _SIZES[_name] = (_kind, Fraction(_size))
        _CANONICAL |= dict.fromkeys((_name, *_others), _name)
_POWER = re.compile(r"\b(sq(?:uared?)?\b)|\b(cu(?:bic|bed)?\b)|\^\{?([23])")
_IGNORED = re.compile(
    r"\b(?:square|squared|cubic|cubed|sq|cu|of|per|old|long)\b|/?\s*\b(?:mol|moles?)\b"
    r"|\^\{?-?\d\}?|[{}.,*\s]"
)
_ONES = str.split(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = str.split("twenty thirty forty fifty sixty seventy eighty ninety")
_SMALL = {name: value for value, name in enumerate(_ONES)}
_SMALL |= {name: 10 * value for value, name in enumerate(_TENS, 2)}
LARGE = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_FILLERS = set(
    str.split(
        "a an the is are was be answer function curve graph shape direction student towards always "
        "type of conic section equation it he she runner faces facing option choice due"
    )
)
_DOES = set(str.split("has had wins won runs ran gets got does would will can must earns with"))
"""What may follow a name in a sentence about it."""
_WORDS = re.compile(r"[a-z0-9+\-]+")
_NO_WORDS = re.compile(r"\\[a-z]+|\\|(?<=\d)(?:st|nd|rd|th)\b|'s\b|\(.*\)")


def unit(after: list[Token]) -> str | None:
    """The canonical name of the unit that tokens after a value spell: cm^2, or any words.

    None where they hold another value.
    """
    raised, depth, parts = False, 0, []
    for token in after:
        depth += (token.text in "([{") - (token.text in ")]}")
        value = token.kind in ("number", "letter") or token.text in ("pi", "sqrt")
        if value and not raised and not depth:
            return None
        parts.append(f" {token.text} " if token.kind == "text" else token.text)
        raised = token.text in "^_" or (raised and token.text in "{-")
    if not any(token.kind == "text" or token.text in "'°\"" for token in after):
        return None
    return canonical_unit("".join(parts).replace(" ^", "^"))


def canonical_unit(text: str) -> str:
    """A unit by its short name where it is a common one, a length with its power: cm^2."""
    bare = _IGNORED.sub(" ", text.partition("(")[0]).strip().lower()
    name = _CANONICAL.get(bare) or _CANONICAL.get(bare.split(" ")[0], bare)
    if _SIZES.get(name, ("",))[0] not in ("metre", "foot"):
        return name
    power = _POWER.search(text.lower().replace(" ", "") if "^" in text else text.lower())
    return name if power is None else f"{name}^{power[3] or (2 if power[1] else 3)}"


def units_differ(one: str, other: str) -> bool:
    """Whether both are common units, and not the same one."""
    return one != other and all(name.partition("^")[0] in _SIZES for name in (one, other))


def converted(tree: Tree, unit_name: str, wanted: str) -> Tree | None:
    """A value in another unit; None where the two do not measure the same."""
    (kind, size), (wanted_kind, wanted_size) = map(_measured, (unit_name, wanted))
    if not kind or kind != wanted_kind:
        return None
    return ("divide", ("multiply", tree, size), wanted_size)


def _measured(name: str) -> tuple[str, Tree]:
    """What a unit measures, and its size; an area or a volume of a length: cm^2."""
    base, _, power = name.partition("^")
    kind, size = _SIZES.get(base, ("", Fraction(1)))
    tree = ("degrees", number(1)) if base == "degree" else number(size)
    if power:
        return f"{kind}^{power}", ("power", tree, number(int(power)))
    return kind, tree


def spelled_number(text: str) -> int | None:
    """The number that the words at the start of a text spell: five apples.

    None where the text goes on with another value, or begins with no number.
    """
    total, group = 0, 0
    words = re.findall(r"[a-z]+", text.lower())
    if not words or words[0] not in _SMALL:
        return None
    for place, word in enumerate(words):
        if word in _SMALL:
            group += _SMALL[word]
        elif word == "hundred":
            group *= 100
        elif word in LARGE:
            total, group = total + group * LARGE[word], 0
        elif word != "and":
            return None if _SMALL.keys() & set(words[place:]) else total + group
    return total + group


def same_words(gold: str, answer: str) -> bool:
    """Whether an answer names the gold, perhaps in a sentence about it and nothing else."""
    wanted, words = (
        [word for word in _WORDS.findall(_NO_WORDS.sub(" ", text.lower())) if word not in _FILLERS]
        for text in (gold, answer)
    )
    does = words[len(wanted) : len(wanted) + 1]
    return bool(wanted) and words[: len(wanted)] == wanted and set(does) <= _DOES
