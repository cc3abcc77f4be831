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

A plan is the teacher's thought: it is dropped before the proposal is read, and no student sees it.
A thought is the solver's own affair: only what follows <|answer|> is judged. Either may be empty.
What the built-in model writes there is in `tools/nano`.
"""

from collections.abc import Sequence

from code_verifier import Proposal, Task

SPECIAL_TOKENS = (
    "<|pad|>",
    "<|end|>",
    "<|propose_o|>",
    "<|propose_i|>",
    "<|propose_f|>",
    "<|solve_o|>",
    "<|solve_i|>",
    "<|solve_f|>",
    "<|plan|>",
    "<|program|>",
    "<|input|>",
    "<|output|>",
    "<|message|>",
    "<|think|>",
    "<|answer|>",
)
PAD, END = SPECIAL_TOKENS[:2]
stops: tuple[str, ...] = ()
"""<|end|> is the model's end token."""
NUM_INPUTS = 6
"""Inputs of a code_f proposal: the first half is shown to the solver, the rest judges it."""


def propose_prompt(kind: str, references: Sequence[Task]) -> str:
    """Return the prompt that asks for a task of this kind, after one reference task."""
    reference = references[0]
    if kind == "code_f":
        return f"<|propose_f|>{reference.program}<|plan|>"
    return f"<|propose_{kind[-1]}|>{reference.program}<|input|>{reference.input}<|plan|>"


def parse_proposal(kind: str, references: Sequence[Task], text: str) -> Proposal | None:
    """Read a proposal from a completion; None when it does not have the form."""
    if kind == "code_f":
        body, marker, message = text.partition("<|message|>")
        plan, *inputs = body.split("<|input|>")
        parts = (plan, *inputs, message)
        if not marker or len(inputs) != NUM_INPUTS or any("<|" in part for part in parts):
            return None
        return Proposal(
            kind=kind, program=references[0].program, inputs=tuple(inputs), message=message
        )
    plan, marker, body = text.partition("<|program|>")
    fields = body.split("<|input|>")
    if not marker or len(fields) != 2 or any("<|" in part for part in (plan, *fields)):
        return None
    return Proposal(kind=kind, program=fields[0], input=fields[1])


def solve_prompt(task: Task) -> str:
    """Return the prompt that asks for a solution of the task."""
    if task.kind == "code_o":
        return f"<|solve_o|>{task.program}<|input|>{task.input}<|think|>"
    if task.kind == "code_i":
        return f"<|solve_i|>{task.program}<|output|>{task.output}<|think|>"
    pairs = zip(task.inputs[: task.visible], task.outputs[: task.visible], strict=True)
    shown = "".join(f"<|input|>{i}<|output|>{o}" for i, o in pairs)
    return f"<|solve_f|>{task.message}{shown}<|think|>"


def proposal_text(task: Task, thought: str = "") -> str:
    """Write the completion that proposes a task; the thought is the plan."""
    if task.kind == "code_f":
        inputs = "".join(f"<|input|>{given}" for given in task.inputs)
        return f"{thought}{inputs}<|message|>{task.message}"
    return f"{thought}<|program|>{task.program}<|input|>{task.input}"


def parse_answer(task: Task, text: str) -> str | None:
    """Return the answer of a solution; None when it is not well formed. All kinds look alike."""
    fields = text.split("<|answer|>")
    if len(fields) != 2 or any("<|" in f for f in fields) or not fields[1].strip():
        return None
    return fields[1]


def answer_text(task: Task, thought: str = "") -> str:
    """Write the completion that solves a task as its proposer would."""
    gold = {"code_o": task.output, "code_i": task.input, "code_f": task.program}[task.kind]
    return f"{thought}<|answer|>{gold}"
