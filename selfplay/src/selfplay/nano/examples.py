"""Training examples of the nano model: six roles, each a prompt and the text that should follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from code_verifier import Task
from selfplay.nano.labels import LabelledProgram, Run
from selfplay.prompts.nano import END, NUM_INPUTS, propose_prompt, solve_prompt

ROLES = ("solve_o", "solve_i", "solve_f", "propose_o", "propose_i", "propose_f")


@dataclass(frozen=True)
class Example:
    """A prompt and its completion, which alone carries loss."""

    role: str
    level: int
    prompt: str
    completion: str


def task_of(labelled: LabelledProgram, kind: str, run: Run) -> Task:
    """Return the task of this kind that one run (or, for code_f, all runs) of a program makes."""
    program = labelled.program
    if kind == "code_f":
        runs = labelled.runs[:NUM_INPUTS]
        return Task(
            kind=kind,
            program=program.text,
            inputs=tuple(r.input for r in runs),
            outputs=tuple(r.output for r in runs),
            message=program.message,
            visible=NUM_INPUTS // 2,
        )
    return Task(kind=kind, program=program.text, input=run.input, output=run.output)


def example(
    role: str, labelled: LabelledProgram, reference: LabelledProgram, rng: Random
) -> Example:
    """Write one example; `reference` is the program shown to a proposer of code_o and code_i."""
    run = rng.choice(labelled.runs)
    program = labelled.program
    kind = f"code_{role[-1]}"
    if role.startswith("solve"):
        prompt = solve_prompt(task_of(labelled, kind, run))
        completion = _solution(kind, labelled, run)
    elif kind == "code_f":
        prompt = propose_prompt(kind, [task_of(labelled, kind, run)])
        inputs = [r.input for r in labelled.runs[:NUM_INPUTS]]
        completion = "<|input|>".join(inputs) + "<|message|>" + program.message
    else:
        shown = rng.choice(reference.runs)
        prompt = propose_prompt(kind, [task_of(reference, kind, shown)])
        completion = f"{program.text}<|input|>{run.input}"
    return Example(role, program.level, prompt, completion + END)


def _solution(kind: str, labelled: LabelledProgram, run: Run) -> str:
    if kind == "code_f":
        return f"<|answer|>{labelled.program.text}"
    states: Sequence[str] = run.trace if kind == "code_o" else run.trace[::-1]
    answer = run.output if kind == "code_o" else run.input
    return "".join(states) + f"<|answer|>{answer}"
