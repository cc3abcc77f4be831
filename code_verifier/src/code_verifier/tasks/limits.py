"""What one program may use."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from code_verifier.errors import RecordError


@dataclass(frozen=True)
class Limits:
    """Limits of one execution, each with the verdict status of its excess."""

    wall_s: float = 2.0
    """Seconds of real time (`timeout`)."""
    cpu_s: float = 2.0
    """Seconds of processor time (`timeout`)."""
    memory_mb: int = 256
    """MiB of address space beyond the bare interpreter (`memory`)."""
    output_chars: int = 10_000
    """Characters of the canonical output (`too_long`)."""
    program_chars: int = 100_000
    """Characters of the program (`too_long`)."""
    input_chars: int = 100_000
    """Characters of an input (`too_long`)."""
    recursion: int = 1_000
    """Python's recursion limit at the start (`exception`, RecursionError)."""
    int_digits: int = 4_300
    """Digits of an integer turned into text or back (`exception`, ValueError)."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value < math.inf:
                raise RecordError(f"limit {field.name} is {value!r}; expected a number above 0")
            if field.name not in ("wall_s", "cpu_s") and not isinstance(value, int):
                raise RecordError(f"limit {field.name} is {value!r}; expected a whole number")
        if self.int_digits < _LEAST_DIGITS:
            raise RecordError(f"limit int_digits is {self.int_digits}; Python takes 640 or more")
        if self.wall_s > _LONGEST_S or self.cpu_s > _LONGEST_S:
            raise RecordError(f"a limit of more than {_LONGEST_S} s; expected a shorter time")

    def as_dict(self) -> dict[str, Any]:
        """The limits by name."""
        return asdict(self)


_LEAST_DIGITS = 640
_LONGEST_S = 1_000_000
