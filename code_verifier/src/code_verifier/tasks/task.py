"""What is proposed, and what is asked: tasks of the three kinds, and their rows."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

from code_verifier.errors import RecordError
from code_verifier.program.source import ParsedProgram, parse_program
from code_verifier.rows.fields import (
    Row,
    id_of,
    program_of,
    text_field,
    text_list,
    text_or_none,
    whole_number,
)

KINDS: Final = ("code_o", "code_i", "code_f")


@dataclass(frozen=True)
class Task:
    """A validated task. `inputs[i]` gives `outputs[i]`; the first `visible` pairs are shown. Raises
    RecordError for an unknown kind, and for pairs or `visible` that do not fit."""

    kind: str
    """What is asked for: `code_o` an output, `code_i` an input, `code_f` a program."""
    program: str
    input: str | None = None
    """The text between the parentheses of the call (code_o; one right answer of code_i)."""
    output: str | None = None
    """A literal (code_o, code_i)."""
    inputs: tuple[str, ...] = ()
    """One text a call (code_f)."""
    outputs: tuple[str, ...] = ()
    message: str = ""
    """What the proposer says about the program (code_f)."""
    visible: int = 0
    """Leading pairs that are shown and not judged (code_f)."""
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

    def to_row(self) -> Row:
        """The task as a row for JSON: every column, whatever the kind, in this order.

        | column | type | of |
        |---|---|---|
        | `id` | text | "" where it has none |
        | `kind` | text | one of KINDS |
        | `program` | text | "" where the kind does not need it |
        | `input` | text or null | code_o, code_i |
        | `output` | text or null | code_o, code_i |
        | `inputs`, `outputs` | lists of texts, equally long | code_f, else empty |
        | `message` | text | code_f, else "" |
        | `visible` | whole number, 0 to the number of pairs | code_f, else 0 |
        """
        row = {"id": self.id, **asdict(self)}
        return row | {"inputs": list(self.inputs), "outputs": list(self.outputs)}

    @classmethod
    def from_row(cls, row: Mapping[str, Any], complete: bool = False) -> Self:
        """The task of a row with the columns of `to_row`, of which it needs some only.

        There must be `kind` and what an answer is judged by: `output` (code_o), `program` and
        `output` (code_i), `inputs` and `outputs` (code_f). complete: there must also be what a
        solver or a reader is shown, `program` and the `input` of code_o. The other columns of the
        kind may be missing or null; those of other kinds, and unknown ones, are passed over.
        Absolute Zero's `snippet` and `imports` may stand for `program`; an `id` that is a number
        becomes its text.

        Raises RecordError, one line that names the column, what was found and what was expected.
        """
        kind = text_field(row, "kind")
        _check_kind(kind)
        program = program_of(row, required=complete or kind == "code_i")
        found = id_of(row) if "id" in row else None
        name = "" if found is None else str(found)
        if kind == "code_f":
            return cls(
                kind,
                program,
                inputs=text_list(row, "inputs", required=True),
                outputs=text_list(row, "outputs", required=True),
                message=text_or_none(row, "message") or "",
                visible=whole_number(row, "visible"),
                id=name,
            )
        shown = complete and kind == "code_o"
        given = text_field(row, "input") if shown else text_or_none(row, "input")
        return cls(kind, program, given, text_field(row, "output"), id=name)


@dataclass(frozen=True)
class Proposal:
    """What a proposer wrote. Raises RecordError for an unknown kind."""

    kind: str
    program: str
    input: str | None = None
    """The text between the parentheses of the call (code_o, code_i)."""
    inputs: tuple[str, ...] = ()
    """One text a call (code_f)."""
    message: str = ""
    """A hint at what the program does (code_f)."""

    def __post_init__(self) -> None:
        _check_kind(self.kind)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process is made of: all but the tree, which it makes again."""
        return {name: value for name, value in vars(self).items() if name != "parsed"}

    @cached_property
    def parsed(self) -> ParsedProgram:
        """The program with its tree, made at the first use and kept, so that `strip_comments`,
        `Sandbox.validate`, `measure` and `fingerprint` parse it once. Raises ProgramError."""
        return parse_program(self.program)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise RecordError(f"unknown kind {str(kind)[:60]!r}; expected one of {', '.join(KINDS)}")
