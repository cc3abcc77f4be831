"""Pieces of HTML, and numbers as a reader wants them."""

import html
import re
from collections.abc import Iterable, Sequence

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class Html(str):
    """Text that is markup already."""


def escape(text: object) -> str:
    """Any text, safe in HTML and in quoted attributes; markup stays as it is."""
    if isinstance(text, Html):
        return text
    return html.escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text)))


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


def tiles(cells: Iterable[tuple[str, str]]) -> str:
    """Headline values with what they are."""
    parts = (
        f'<div class="tile"><b>{escape(a)}</b><span>{escape(b)}</span></div>' for a, b in cells
    )
    return f'<div class="tiles">{"".join(parts)}</div>'


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]], words: int = 1) -> str:
    """A table that scrolls sideways where the screen is narrow; its first `words` columns are
    set to the left, the others to the right."""
    head = "".join(f"<th{_left(i, words)}>{escape(cell)}</th>" for i, cell in enumerate(header))
    body = "".join(
        "<tr>"
        + "".join(f"<td{_left(i, words)}>{escape(cell)}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def section(title: str, sentence: str, *content: str) -> str:
    """A heading, how to read what follows, and what follows."""
    return f"<section><h2>{escape(title)}</h2><p>{escape(sentence)}</p>{''.join(content)}</section>"


def notes(sentences: Sequence[str]) -> str:
    """What was left out or filled, in small print."""
    text = ". ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)
    return f'<p class="note">{escape(text)}.</p>' if sentences else ""


def side_by_side(figures: Iterable[str]) -> str:
    """Pictures next to each other as long as there is room."""
    return f'<div class="figures">{"".join(figures)}</div>'


def captioned(caption: str, picture: str) -> str:
    """A picture under its title."""
    return f"<figure><figcaption>{escape(caption)}</figcaption>{picture}</figure>"


def _left(column: int, words: int) -> str:
    return ' class="left"' if column < words else ""
