"""The compact prompt template of the nano model: one special token per field.

    propose code_o   <|propose_o|>PROGRAM<|input|>INPUT<|plan|>
                     -> PLAN<|program|>PROGRAM<|input|>INPUT<|end|>
    propose code_i   the same with <|propose_i|>
    propose code_f   <|propose_f|>PROGRAM<|plan|>
                     -> PLAN<|input|>INPUT...<|input|>INPUT<|message|>WORDS<|end|>
    solve code_o     <|solve_o|>PROGRAM<|input|>INPUT<|think|>
                     -> THOUGHT<|answer|>OUTPUT<|end|>
    solve code_i     <|solve_i|>PROGRAM<|output|>OUTPUT<|think|>
                     -> THOUGHT<|answer|>INPUT<|end|>
    solve code_f     <|solve_f|>WORDS(<|input|>INPUT<|output|>OUTPUT)...<|think|>
                     -> THOUGHT<|answer|>PROGRAM<|end|>

A plan is the teacher's thought: it is dropped before the proposal is read, and students do not see
it. Only the text after <|answer|> is judged, not the thought before it. Plan and thought may be
empty; `tools/nano` has those of the built-in model.
"""

from collections.abc import Sequence
from typing import Protocol

from code_verifier import Proposal, Task
from selfplay.tasks.kind import CodeF, CodeI, CodeKind, CodeO, TaskKind

SPECIAL_TOKENS = (
    *("<|pad|>", "<|end|>"),
    *("<|propose_o|>", "<|propose_i|>", "<|propose_f|>"),
    *("<|solve_o|>", "<|solve_i|>", "<|solve_f|>"),
    *("<|plan|>", "<|program|>", "<|input|>", "<|output|>", "<|message|>"),
    *("<|think|>", "<|answer|>"),
)
PAD, END = SPECIAL_TOKENS[:2]
"""<|end|> is the model's end token."""
NUM_INPUTS = 6
"""Inputs of a code_f proposal: the solver sees the first half, the rest is hidden and judges it."""


class _Answered(CodeKind, Protocol):
    def parse_answer(self, task: Task, text: str) -> str | None:
        fields = text.split("<|answer|>")
        if len(fields) != 2 or any("<|" in f for f in fields) or not fields[1].strip():
            return None
        return fields[1]

    def answer_text(self, task: Task, thought: str = "") -> str:
        return f"{thought}<|answer|>{self.gold(task)}"


class _Call(_Answered, Protocol):
    """A program and one input."""

    def propose_prompt(self, references: Sequence[Task]) -> str:
        reference = references[0]
        return f"<|propose_{self.name[-1]}|>{reference.program}<|input|>{reference.input}<|plan|>"

    def parse_proposal(self, references: Sequence[Task], text: str) -> Proposal | None:
        plan, marker, body = text.partition("<|program|>")
        fields = body.split("<|input|>")
        if not marker or len(fields) != 2 or any("<|" in part for part in (plan, *fields)):
            return None
        return Proposal(kind=self.name, program=fields[0], input=fields[1])

    def proposal_text(self, task: Task, thought: str = "") -> str:
        return f"{thought}<|program|>{task.program}<|input|>{task.input}"


class Output(CodeO, _Call):
    def solve_prompt(self, task: Task) -> str:
        return f"<|solve_o|>{task.program}<|input|>{task.input}<|think|>"


class _Input(CodeI, _Call):
    def solve_prompt(self, task: Task) -> str:
        return f"<|solve_i|>{task.program}<|output|>{task.output}<|think|>"


class _Function(CodeF, _Answered):
    def propose_prompt(self, references: Sequence[Task]) -> str:
        return f"<|propose_f|>{references[0].program}<|plan|>"

    def parse_proposal(self, references: Sequence[Task], text: str) -> Proposal | None:
        body, marker, message = text.partition("<|message|>")
        plan, *inputs = body.split("<|input|>")
        parts = (plan, *inputs, message)
        if not marker or len(inputs) != NUM_INPUTS or any("<|" in part for part in parts):
            return None
        program = references[0].program
        return Proposal(kind=self.name, program=program, inputs=tuple(inputs), message=message)

    def proposal_text(self, task: Task, thought: str = "") -> str:
        inputs = "".join(f"<|input|>{arguments}" for arguments in task.inputs)
        return f"{thought}{inputs}<|message|>{task.message}"

    def solve_prompt(self, task: Task) -> str:
        pairs = zip(task.inputs[: task.visible], task.outputs[: task.visible], strict=True)
        examples = "".join(f"<|input|>{i}<|output|>{o}" for i, o in pairs)
        return f"<|solve_f|>{task.message}{examples}<|think|>"


KINDS: tuple[TaskKind, ...] = (Output(), _Input(), _Function())
