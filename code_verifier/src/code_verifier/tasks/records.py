"""The records that cross the package's door: verdicts, tasks, proposals, grades."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Final

from code_verifier.errors import RecordError


class Status:
    """Names of the outcomes of one program, of an answer, and of a rejected proposal.

    `SANDBOX_ERROR` is a fault of the sandbox and never counts against a program.
    """

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


KINDS: Final = ("code_o", "code_i", "code_f")


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
class Task:
    """A validated task. `inputs[i]` gives `outputs[i]`; the first `visible` pairs are shown."""

    kind: str
    program: str
    input: str | None = None
    output: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    message: str = ""
    visible: int = 0
    id: str = ""

    def __post_init__(self) -> None:
        _check_kind(self.kind)
        if len(self.inputs) != len(self.outputs):
            raise RecordError(
                f"a task has {len(self.inputs)} inputs and {len(self.outputs)} outputs; "
                "expected as many of each"
            )
        if not 0 <= self.visible <= len(self.inputs):
            raise RecordError(f"visible is {self.visible}; expected 0 to {len(self.inputs)}")

    def with_id(self) -> "Task":
        """The same task, named by a hash of its contents."""
        fields = [self.kind, self.program, self.input, self.output]
        text = json.dumps([*fields, self.inputs, self.outputs, self.message, self.visible])
        return replace(self, id=hashlib.blake2b(text.encode(), digest_size=8).hexdigest())


@dataclass(frozen=True)
class Proposal:
    """What a proposer wrote. `input` for code_o and code_i; `inputs`, `message` for code_f."""

    kind: str
    program: str
    input: str | None = None
    inputs: tuple[str, ...] = ()
    message: str = ""

    def __post_init__(self) -> None:
        _check_kind(self.kind)


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


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise RecordError(f"unknown task kind {kind!r}; expected one of {', '.join(KINDS)}")
