"""What becomes of a program, a proposal or an answer: verdicts, validations, grades."""

from dataclasses import dataclass
from typing import Final

from code_verifier.tasks.task import Task


class Status:
    """Names of the outcomes of one program, of an answer, and of a rejected proposal.
    `SANDBOX_ERROR` is a fault of the sandbox and never counts against a program."""

    OK: Final = "ok"
    SYNTAX_ERROR: Final = "syntax_error"
    BANNED: Final = "banned"
    EXCEPTION: Final = "exception"
    TIMEOUT: Final = "timeout"
    MEMORY: Final = "memory"
    NONDETERMINISTIC: Final = "nondeterministic"
    NOT_LITERAL: Final = "not_literal"
    TOO_LONG: Final = "too_long"
    VIOLATION: Final = "violation"
    SANDBOX_ERROR: Final = "sandbox_error"
    # Only in a Validation:
    INCOMPLETE: Final = "incomplete"
    DUPLICATE_INPUT: Final = "duplicate_input"
    CONSTANT_OUTPUT: Final = "constant_output"
    LEAKING_MESSAGE: Final = "leaking_message"


@dataclass(frozen=True)
class Verdict:
    """Outcome of running a program."""

    status: str
    output: str | None
    """A canonical literal exactly when status is `ok`."""
    reason: str
    wall_ms: float
    """The longest of the executions, in milliseconds."""
    runs: int
    """Executions made."""

    @property
    def ok(self) -> bool:
        return self.status == Status.OK


@dataclass(frozen=True)
class Validation:
    """Outcome of a proposal. `task` is set exactly when status is `ok`."""

    status: str
    reason: str
    task: Task | None = None


@dataclass(frozen=True)
class Grade:
    """Outcome of an answer."""

    score: float
    """1.0 right, 0.0 wrong. Also 0.0 for an answer that was not `judged`, which never counts."""
    reason: str
    passed: int | None = None
    """Hidden examples that came out right (code_f only)."""
    total: int | None = None
    """Hidden examples (code_f only)."""
    status: str = Status.OK
    """`ok` when the answer was compared, else why it could not be: `sandbox_error` for a fault of
    ours, any other status for a fault of the answer."""

    @property
    def judged(self) -> bool:
        """False for a fault of the sandbox: it says nothing about the answer."""
        return self.status != Status.SANDBOX_ERROR
