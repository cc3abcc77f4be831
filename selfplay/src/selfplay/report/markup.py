"""Text into markup: everything from outside passes `escape`; numbers and times for people."""

import html
import math
import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufffe\uffff]"
)


def visible(text: str) -> str:
    """Return the text with controls, direction marks and lone surrogates spelt out as <U+....>.

    They could hide a part of a program from the reader, or not be written at all.
    """
    return _UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text.replace("\r\n", "\n"))


def escape(text: str) -> str:
    """Return the text as HTML that shows it, whatever it holds; also fit for attributes."""
    return html.escape(visible(text), quote=True)


def clip(text: str, most: int) -> str:
    """Return the text cut to `most` characters, with a note of what was left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} more characters"


def element(tag: str, content: str = "", **attributes: str | float | None) -> str:
    """Return an element; `content` is markup, attributes are escaped, `class_` means class.

    Underscores in attribute names become hyphens; None leaves an attribute out.
    """
    parts = [tag]
    for name, value in attributes.items():
        if value is not None:
            shown = escape(value) if isinstance(value, str) else coordinate(value)
            parts.append(f'{name.rstrip("_").replace("_", "-")}="{shown}"')
    return f"<{' '.join(parts)}>{content}</{tag}>"


def coordinate(value: float) -> str:
    """Return a coordinate with at most one decimal: a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def figure(value: float, share: bool = False) -> str:
    """Return a number with three significant digits, or a percentage for a share."""
    if share:
        return f"{100 * value:.1f} %"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{min(max(digits, 0), 4)}f}".replace("-", "−")


def duration(seconds: float) -> str:
    """Return seconds as `48 s`, `4 min 10 s` or `2 h 5 min`."""
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
