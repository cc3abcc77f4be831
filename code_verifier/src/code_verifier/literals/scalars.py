"""Canonical texts of the plainest values, known by their look."""

import re

_INTEGER = r"(?:0|-?[1-9][0-9]{0,4000})"
_TEXT = r"'[ !#-&(-\[\]-~]*'"  # printable ASCII without quotes and backslashes
_ITEM = rf"(?:{_INTEGER}|{_TEXT}|True|False|None)"
_PLAIN = re.compile(rf"{_ITEM}|\[(?:{_ITEM}(?:, {_ITEM})*)?\]|\({_ITEM}(?:,|(?:, {_ITEM})+)\)")


def is_plain(text: str) -> bool:
    """Whether `text` is the canonical literal of a scalar, or of a flat list or tuple of some.

    False says nothing: floats, nested values and texts with escapes need the full check.
    """
    return _PLAIN.fullmatch(text) is not None
