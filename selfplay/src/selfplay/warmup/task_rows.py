"""Tasks to learn from, read from a user's file and judged as a run judges its proposals."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from code_verifier import CodeVerifierError, Proposal, Sandbox, Task, strip_comments
from code_verifier.rows.fields import Row, program_of, text_field, text_list, text_or_none
from code_verifier.rows.jsonl import open_rows
from selfplay.errors import SelfplayError


@dataclass(frozen=True)
class WorkedTask:
    """A task that holds, and the thought that its row gives, if any."""

    task: Task
    thought: str = ""


@dataclass(frozen=True)
class TaskRows:
    """What a file holds."""

    tasks: tuple[WorkedTask, ...]
    rows: int
    refused: Counter[str]
    """Rows that gave no task, by the judge's status."""


def read_task_rows(path: Path, kinds: tuple[str, ...], sandbox: Sandbox) -> TaskRows:
    """Read JSON Lines of tasks: ours, or Absolute Zero's {"snippet", "input", "output"}.

    A row without `kind` serves both code_o and code_i, or code_f where it has `inputs`. Programs
    lose their comments; outputs are found by running them, whatever the row says. Raises
    SelfplayError, one line, for a file that is none or of which no row holds.
    """
    try:
        with open_rows(path) as file:
            rows = list(file.rows(skip=None))
        proposals = [(row, _proposal(row)) for row in rows]
    except (CodeVerifierError, OSError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        place = "" if str(path) in str(reason) else f"{path}: "
        raise SelfplayError(
            f"{place}{reason}; expected JSON Lines of tasks as `selfplay tasks` writes them, or of "
            '{"snippet", "input", "output"}'
        ) from error
    refused: Counter[str] = Counter()
    tasks: list[WorkedTask] = []
    verdicts = sandbox.validate_many([proposal for _, proposal in proposals])
    for (row, proposal), verdict in zip(proposals, verdicts, strict=True):
        if verdict.task is None:
            refused[str(verdict.status)] += 1
            continue
        thought = text_or_none(row, "thought") or ""
        meant = (proposal.kind,) if row.get("kind") else _served(proposal.kind)
        tasks += [
            WorkedTask(replace(verdict.task, kind=kind), thought) for kind in meant if kind in kinds
        ]
    if not tasks:
        why = ", ".join(f"{count} {status}" for status, count in refused.most_common())
        raise SelfplayError(
            f"no row of {path} is a task of {', '.join(kinds)}: {len(rows)} rows"
            + (f", {why}" if why else "")
        )
    return TaskRows(tuple(tasks), len(rows), refused)


def _served(kind: str) -> tuple[str, ...]:
    return (kind,) if kind == "code_f" else ("code_o", "code_i")


def _proposal(row: Row) -> Proposal:
    try:
        program = program_of(row)
        if row.get("kind") == "code_f" or ("inputs" in row and not row.get("input")):
            inputs = text_list(row, "inputs", required=True)
            message = text_or_none(row, "message") or ""
            return _bare(Proposal("code_f", program, inputs=inputs, message=message))
        kind = text_or_none(row, "kind") or "code_o"
        return _bare(Proposal(kind, program, text_field(row, "input")))
    except CodeVerifierError as error:
        raise type(error)(f"line {row['_line']}: {error}") from None


def _bare(proposal: Proposal) -> Proposal:
    try:
        return replace(proposal, program=strip_comments(proposal.parsed))
    except CodeVerifierError:
        return proposal
