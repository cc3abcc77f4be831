"""Tasks, proposals, verdicts, grades and limits.

The dataclasses can hold tasks of other kinds, too; a `Sandbox` validates and grades three kinds.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from code_verifier import user_files
from code_verifier.errors import CodeVerifierError, Status
from code_verifier.user_files import id_of, program_of, text_field, text_list, text_or_none

KINDS: Final = ("code_o", "code_i", "code_f")


@dataclass(frozen=True)
class Task:
    r"""A validated task. `inputs[i]` gives `outputs[i]`; the first `visible` pairs are shown.
    Raises CodeVerifierError for pairs or `visible` that do not fit.

        >>> task = Task("code_i", "def f(x):\n    return x * x", output="9")
        >>> grade(task, "-3").score
        1.0

    `to_row` has the type and the meaning of every field.
    """

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
        if len(self.inputs) != len(self.outputs):
            raise CodeVerifierError(
                f"a task has {len(self.inputs)} inputs and {len(self.outputs)} outputs; "
                "expected as many of each"
            )
        if not 0 <= self.visible <= len(self.inputs):
            raise CodeVerifierError(f"visible is {self.visible}; expected 0 to {len(self.inputs)}")

    def with_id(self) -> "Task":
        """Return the task with a hash of its contents as id."""
        fields = [self.kind, self.program, self.input, self.output]
        text = json.dumps([*fields, self.inputs, self.outputs, self.message, self.visible])
        return replace(self, id=hashlib.blake2b(text.encode(), digest_size=8).hexdigest())

    def to_row(self) -> dict[str, Any]:
        """Return the task as a row for JSON: every column, whatever the kind, in this order.

        | column | type | meaning |
        |---|---|---|
        | `id` | text | "" for none |
        | `kind` | text | `code_o` (output wanted), `code_i` (input), `code_f` (program), other |
        | `program` | text | "" if the kind does not need it |
        | `input` | text or null | in the call's parentheses (code_o; one right answer of code_i) |
        | `output` | text or null | a literal (code_o, code_i) |
        | `inputs`, `outputs` | lists of texts, equally long | one a call (code_f, else empty) |
        | `message` | text | the proposer's hint about the program (code_f, else "") |
        | `visible` | number of pairs | the first ones are shown and not judged (code_f, else 0) |
        """
        row = {"id": self.id, **asdict(self)}
        return row | {"inputs": list(self.inputs), "outputs": list(self.outputs)}

    @classmethod
    def from_row(cls, row: Mapping[str, Any], complete: bool = False) -> Self:
        """Return the task of a row with columns of `to_row`.

        A row needs `kind` and the columns by which an answer is judged: `output` (code_o),
        `program` and `output` (code_i), `inputs` and `outputs` (code_f). complete: it also needs
        `program`, and the `input` of code_o, which solvers and readers are shown. Other columns of
        the kind may be missing or null, columns of other kinds and unknown ones are ignored; a task
        of a kind of your own has all columns of its row. Absolute Zero's `snippet` and `imports`
        may replace `program`; a number as `id` becomes its text.

        Raises CodeVerifierError that names the column, what was found and what was expected.
        """
        kind = text_field(row, "kind")
        program = program_of(row, kind == "code_i" or (complete and kind in KINDS))
        name = "" if (number := id_of(row)) is None else str(number)
        if kind in ("code_o", "code_i"):
            required = complete and kind == "code_o"
            text = text_field(row, "input") if required else text_or_none(row, "input")
            return cls(kind, program, text, text_field(row, "output"), id=name)
        pair = row if kind not in KINDS else {}
        return cls(
            kind,
            program,
            text_or_none(pair, "input"),
            text_or_none(pair, "output"),
            text_list(row, "inputs"),
            text_list(row, "outputs"),
            message=text_or_none(row, "message") or "",
            visible=user_files.typed_field(row, "visible", int, "a whole number") or 0,
            id=name,
        )


@dataclass(frozen=True)
class Proposal:
    """A task that a proposer suggests. Fields are as in `Task`; code_o and code_i have `input`."""

    kind: str
    program: str
    input: str | None = None
    inputs: tuple[str, ...] = ()
    message: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the proposal of a row of `Task.to_row`, or of Absolute Zero's seeds.

        Without `kind`, a row with `inputs` and no `input` is code_f, any other code_o. Raises
        CodeVerifierError as `Task.from_row` does.
        """
        several = row.get("inputs") is not None and not row.get("input")
        kind = text_or_none(row, "kind") or ("code_f" if several else "code_o")
        if kind in ("code_o", "code_i"):
            return cls(kind, program_of(row), text_field(row, "input"))
        text = None if kind == "code_f" else text_or_none(row, "input")
        message = text_or_none(row, "message") or ""
        return cls(kind, program_of(row, kind in KINDS), text, text_list(row, "inputs"), message)


def check_kind(kind: str) -> None:
    """Raise CodeVerifierError for a kind that is not one of KINDS."""
    if kind not in KINDS:
        from difflib import get_close_matches  # slow to import

        close = get_close_matches(str(kind)[:60], KINDS, 1)
        raise CodeVerifierError(
            f"unknown kind {str(kind)[:60]!r}; expected one of {', '.join(KINDS)}"
            + (f"; did you mean {close[0]}?" if close else "")
        )


@dataclass(frozen=True)
class Verdict:
    """Outcome of running or checking a program, or of a proposal.

    - output: a canonical literal if a program's status is `ok`, else None.
    - wall_ms: of the longest execution, in milliseconds.
    - runs: number of executions.
    - task: the task of a proposal if its status is `ok`, else None.
    """

    status: str
    output: str | None = None
    reason: str = ""
    wall_ms: float = 0.0
    runs: int = 0
    task: Task | None = None

    @property
    def ok(self) -> bool:
        return self.status == Status.OK


@dataclass(frozen=True)
class Grade:
    """The grade of an answer.

    - score: 1.0 right, 0.0 wrong. Also 0.0 for an answer that was not `judged`, which never counts.
    - passed: hidden examples with the right output (code_f only).
    - total: hidden examples (code_f only).
    - status: `ok` if the answer was compared, `sandbox_error` for a fault of the sandbox, another
      status for a fault of the answer.
    """

    score: float
    reason: str
    passed: int | None = None
    total: int | None = None
    status: str = Status.OK

    @property
    def judged(self) -> bool:
        """Whether the grade is about the answer, and not a fault of the sandbox."""
        return self.status != Status.SANDBOX_ERROR


@dataclass(frozen=True)
class Limits:
    """Limits of one execution, each with the verdict status of a program that exceeds it.

    - wall_s: seconds of real time (`timeout`).
    - cpu_s: seconds of processor time (`timeout`).
    - memory_mb: MiB of address space beyond the bare interpreter (`memory`).
    - output_chars: characters of the canonical output (`too_long`).
    - program_chars: characters of the program (`too_long`).
    - input_chars: characters of an input (`too_long`).
    - recursion: Python's recursion limit at the start (`exception`, RecursionError).
    - int_digits: digits of an integer turned into text or back (`exception`, ValueError).
    """

    wall_s: float = 2.0
    cpu_s: float = 2.0
    memory_mb: int = 256
    output_chars: int = 10_000
    program_chars: int = 100_000
    input_chars: int = 100_000
    recursion: int = 1_000
    int_digits: int = 4_300

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least, most = _BOUNDS.get(name, (1, math.inf))
            if not least <= value <= most:
                raise CodeVerifierError(f"limit {name} is {value!r}; expected {least} to {most}")


_BOUNDS = {"wall_s": (1e-3, 1e6), "cpu_s": (1e-3, 1e6), "int_digits": (640, math.inf)}
"""Python itself takes no fewer than 640 digits."""
