"""Pieces of HTML and SVG, and numbers as a reader wants them."""

import html
import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def escape(text: object) -> str:
    """Any text, safe in HTML and in quoted attributes."""
    return html.escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def number(value: float) -> str:
    """A number with about three digits that matter, thousands apart."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def plural(count: int, noun: str) -> str:
    """`1 program`, `2 programs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
