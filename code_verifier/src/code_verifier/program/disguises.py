"""The readings of a message: what a text says once it is decoded, unescaped or turned round."""

import base64
import binascii
import codecs
import html
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from urllib.parse import unquote

_RUN = re.compile(r"[A-Za-z0-9+/_-][A-Za-z0-9+/_\-\s]{19,}={0,2}")
_WORDS = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_PREFIX = re.compile(r"(?m)^[ \t]*(?:>+|[-*•+]|\d+[.):]|line \d+:?|`+)[ \t]+|`+", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[nrt\\'\"])")
_NUMBERS = re.compile(r"\d{1,3}(?:[\s,;]+\d{1,3}){15,}")
_PLAIN = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\\\": "\\", "\\'": "'", '\\"': '"'}
_MOST_BYTES = 1 << 18


def readings(message: str) -> Iterator[str]:
    """The message itself, and every other text it may hold in disguise; each at most once.

    Look-alike and invisible characters, bullets and line numbers, escapes (Python, HTML, URL),
    reversal of all or of each line, rot13, character codes, and base64, base32, hexadecimal and
    zlib.
    """
    seen: set[str] = set()
    shown = unicodedata.normalize("NFKC", message)  # look-alikes made plain
    visible = "".join(char for char in shown if unicodedata.category(char) != "Cf")
    for text in (message, visible):
        for reading in _readings(text):
            if reading and reading not in seen:
                seen.add(reading)
                yield reading


def _readings(text: str) -> Iterator[str]:
    yield text
    yield _PREFIX.sub("", text)
    yield _ESCAPE.sub(_unescape, text)
    yield unquote(html.unescape(text))
    yield text[::-1]
    yield "\n".join(line[::-1] for line in text.splitlines())
    yield codecs.encode(text, "rot13")
    for match in _NUMBERS.finditer(text):
        codes = [int(code) for code in re.findall(r"\d+", match.group())]
        yield "".join(map(chr, codes))
    for pattern in (_RUN, _WORDS):
        for match in pattern.finditer(text):
            yield from _decoded("".join(match.group().split()))


def _decoded(run: str) -> Iterator[str]:
    """What a run of characters without spaces says in base64, base32 or hexadecimal."""
    plain = run.rstrip("=")
    padded = {size: plain + "=" * (-len(plain) % size) for size in (4, 8)}
    decoders: tuple[Callable[[], bytes], ...] = (
        lambda: bytes.fromhex(plain),
        lambda: base64.b32decode(padded[8], casefold=True),
        lambda: base64.b64decode(padded[4].replace("-", "+").replace("_", "/"), validate=True),
    )
    for decode in decoders:
        try:
            data = decode()
        except (ValueError, binascii.Error):
            continue
        yield data.decode("utf-8", "ignore")
        try:
            yield zlib.decompressobj().decompress(data, _MOST_BYTES).decode("utf-8", "ignore")
        except zlib.error:
            continue


def _unescape(match: re.Match[str]) -> str:
    text = match.group()
    return _PLAIN.get(text) or chr(int(text[2:], 16))
