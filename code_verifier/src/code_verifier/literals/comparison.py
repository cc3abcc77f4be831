"""When two literals are the same value."""

import math
import sys
from dataclasses import dataclass
from typing import Any

from code_verifier.literals.canonical import canonical


@dataclass(frozen=True)
class Comparison:
    """How values are compared."""

    types: bool = True
    """Whether 1, 1.0 and True differ, and 0.0 and -0.0; without it Python's `==` decides."""
    tolerance: float = 0.0
    """Relative and absolute tolerance of floats and complex numbers, 0 for none, inside lists,
    tuples, sets and dict values, not in dict keys; a zero's sign does not count then."""

    def same(self, left: Any, right: Any) -> bool:
        """Whether two values made of exact built-in types are the same. Never raises."""
        try:
            if self.tolerance > 0.0:
                return self._close(left, right)
            return _same(left, right) if self.types else bool(left == right)
        except Exception:  # a cycle, or a value of a type that has no literal
            return False

    def _close(self, left: Any, right: Any) -> bool:
        kind = type(left)
        alike = kind is type(right)
        if not alike and (self.types or not (_is_number(left) and _is_number(right))):
            return False
        if _is_number(left) and not (alike and isinstance(left, int)):
            return self._near(left, right)
        if kind is list or kind is tuple:
            return len(left) == len(right) and all(map(self._close, left, right))
        if kind is set:
            ordered = (sorted(side, key=_order) for side in (left, right))
            return len(left) == len(right) and all(map(self._close, *ordered))
        if kind is dict:
            return len(left) == len(right) and all(
                self._has(key, right) and self._close(item, right[key])
                for key, item in left.items()
            )
        return bool(left == right)

    def _has(self, key: Any, mapping: dict[Any, Any]) -> bool:
        return key in mapping and (
            not self.types or any(_same(key, other) for other in mapping if other == key)
        )

    def _near(self, left: Any, right: Any) -> bool:
        if left == right:
            return True
        a, b = complex(left), complex(right)  # OverflowError: an integer far from any float
        limit = {"rel_tol": self.tolerance, "abs_tol": self.tolerance}
        return math.isclose(a.real, b.real, **limit) and math.isclose(a.imag, b.imag, **limit)


def _same(left: Any, right: Any) -> bool:
    return canonical(left, sys.maxsize) == canonical(right, sys.maxsize)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, bool, complex)


def _order(value: Any) -> tuple[int, Any]:
    """Numbers by value, then the rest by their canonical texts."""
    if _is_number(value) and type(value) is not complex:
        return (0, value)
    return (1, canonical(value))
