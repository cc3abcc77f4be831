"""What one program may use."""

from dataclasses import dataclass, fields

from code_verifier.errors import RecordError


@dataclass(frozen=True)
class Limits:
    """Limits of one execution, each with its own verdict status.

    wall_s: seconds of real time (`timeout`). cpu_s: seconds of processor time (`timeout`).
    memory_mb: MiB of address space beyond the bare interpreter (`memory`).
    output_chars: characters of the canonical output (`too_long`).
    program_chars, input_chars: characters of the texts given (`too_long`).
    recursion: Python's recursion limit at the start (`exception`).
    """

    wall_s: float = 2.0
    cpu_s: float = 2.0
    memory_mb: int = 256
    output_chars: int = 10_000
    program_chars: int = 100_000
    input_chars: int = 100_000
    recursion: int = 1_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise RecordError(f"limit {field.name} is {value!r}; expected a number above 0")
