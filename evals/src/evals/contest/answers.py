"""Whether a program's output is the expected one, by LiveCodeBench's rules."""

import json
from decimal import Decimal, InvalidOperation
from typing import Any

from code_verifier.errors import LiteralError
from code_verifier.modules.foreign import MARKS
from code_verifier.modules.reading import read_value
from code_verifier.modules.reports import Value
from code_verifier.modules.values import describe


def equal_output(found: str, expected: str) -> bool:
    """Line by line, without space around lines and texts: the same text, or the same numbers.

    Numbers are compared as decimals, exactly: 1.50 is 1.5, and 1.5000001 is not.
    """
    lines, wanted = _lines(found), _lines(expected)
    return len(lines) == len(wanted) and all(map(_equal_line, lines, wanted))


def equal_value(found: Value, expected_json: str) -> bool:
    """The value of a JSON text under Python's `==`; a tuple at the top is as good as a list.

    Raises ValueError when the text is not JSON.
    """
    expected: Any = json.loads(expected_json)
    accepted = [describe(expected)[1]]
    if isinstance(expected, list):
        accepted.append(describe(tuple(expected))[1])
    if found.digest != "" and found.digest in accepted:
        return True
    return any(mark in (found.text or "") for mark in MARKS) and _equal_foreign(found, expected)


def _equal_foreign(found: Value, expected: Any) -> bool:
    try:
        value = read_value(found.text or "")
        return bool((list(value) if isinstance(value, tuple) else value) == expected)
    except (LiteralError, ArithmeticError, TypeError, ValueError):
        return False


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _equal_line(found: str, expected: str) -> bool:
    if found == expected:
        return True
    try:
        numbers = [Decimal(word) for word in found.split()]
        return numbers == [Decimal(word) for word in expected.split()]
    except (InvalidOperation, ValueError):
        return False
