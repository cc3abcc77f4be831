"""When two literals are the same value."""

import math
from dataclasses import dataclass
from typing import Any

from code_verifier.literals import canonical


@dataclass(frozen=True)
class Comparison:
    """How values are compared.

    types: whether 1, 1.0 and True differ (they do by default). tolerance: relative and absolute
    tolerance for floats, 0 for none; it applies inside lists, tuples and dict values.
    """

    types: bool = True
    tolerance: float = 0.0

    def same(self, left: Any, right: Any) -> bool:
        """Whether two values made of exact built-in types are the same."""
        if self.tolerance == 0.0:
            return canonical(left) == canonical(right) if self.types else bool(left == right)
        return self._close(left, right)

    def _close(self, left: Any, right: Any) -> bool:
        if self.types and type(left) is not type(right):
            return False
        if isinstance(left, float | complex) or isinstance(right, float | complex):
            return _near(left, right, self.tolerance)
        if isinstance(left, list | tuple) and type(left) is type(right):
            return len(left) == len(right) and all(map(self._close, left, right))
        if isinstance(left, dict) and isinstance(right, dict):
            return left.keys() == right.keys() and all(
                self._close(left[key], right[key]) for key in left
            )
        return bool(left == right) and (not self.types or canonical(left) == canonical(right))


def _near(left: Any, right: Any, tolerance: float) -> bool:
    if not isinstance(left, int | float | complex) or not isinstance(right, int | float | complex):
        return False
    pairs = ((complex(left).real, complex(right).real), (complex(left).imag, complex(right).imag))
    return all(math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance) for a, b in pairs)
