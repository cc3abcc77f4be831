"""Text, numbers and tables as a reader wants them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufffe\uffff]"
)


@dataclass(frozen=True)
class Listing:
    """A table; its first `words` columns are set to the left, the others to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    words: int = 1


def visible(text: str) -> str:
    """Return the text with controls, direction marks and lone surrogates spelt out as <U+....>.

    They could hide a part of a text from the reader, or not be written at all.
    """
    return _UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text.replace("\r\n", "\n"))


def short(name: str, length: int) -> str:
    """A name cut to so many characters, with dots in the middle."""
    if len(name) <= length:
        return name
    tail = (length - 1) // 2
    return f"{name[: length - 1 - tail]}…{name[len(name) - tail :]}"


def number(value: float | None, digits: int = 2) -> str:
    """A number with fixed decimals; nothing for None, and no minus before a zero."""
    if value is None:
        return ""
    text = f"{value:,.{digits}f}"
    return text.lstrip("-") if not float(text.replace(",", "")) else text.replace("-", "−")


def percent(value: float | None) -> str:
    """A share in per cent; nothing for None."""
    return "" if value is None else f"{100 * value:.0f} %"


def plural(count: int, noun: str) -> str:
    """`1 match`, `2 matches`."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{ending}"


def sentences(parts: list[str] | tuple[str, ...]) -> str:
    """Remarks as one text: each begins with a capital and ends with a full stop."""
    return "".join(f"{part[:1].upper()}{part[1:]}. " for part in parts).rstrip()
