"""Prompts for large models in the manner of Absolute Zero (arXiv 2505.03335), in our own words.

A model thinks in <think> and answers in <answer>; programs, inputs, outputs and messages come in
fences. The prompt ends with the opening <think>, so a completion starts inside it. The last
<answer> block counts, and a completion without one closed <think> before it is ill-formed.
"""

import re
from collections.abc import Sequence

from code_verifier import Proposal, Task

NUM_INPUTS = 10
"""Inputs of a code_f proposal: the first half is shown to the solver, the rest judges it."""

_FRAME = (
    "A user asks and an assistant answers. The assistant first reasons inside <think> </think> and "
    "then gives its answer inside <answer> </answer>.\nUser: {}\nAssistant: <think>"
)
_RULES = """Rules for the program:
- The entry function is called f, takes at least one argument and returns a value.
- It is deterministic: no randomness, time, files, network, printing or input.
- It uses only the standard library, and finishes within seconds.
- Its result is made of plain values: numbers, strings, booleans, None, lists, tuples, dicts, sets.
- It has no comments that give the solution away.
The input is the text between the parentheses of the call f(...): literals, separated by commas."""
_GOAL = {
    "code_o": "The task for the solver: given the program and the input, predict the output. "
    "Make the output hard to work out by hand, yet not impossible.",
    "code_i": "The task for the solver: given the program and the output, find an input that "
    "produces it. Make the input hard to recover, yet not impossible.",
}
_FENCE = re.compile(r"```(\w+)[ \t]*\n(.*?)\n?```", re.DOTALL)


def propose_prompt(kind: str, references: Sequence[Task]) -> str:
    """Return the prompt that asks for a task of this kind, after reference tasks."""
    if kind == "code_f":
        return _FRAME.format(
            f"Here is a Python program:\n```python\n{references[0].program}\n```\n"
            f"Write {NUM_INPUTS} different inputs for f, each in its own ```input fence, so that "
            "together with their outputs they tell what f does, and one hint in a ```message fence "
            "that helps to find the function without showing its code. Half of the inputs stay "
            "hidden from the solver and judge its function. Outputs must not all be equal."
        )
    shown = "\n\n".join(
        f"<example_{i}>\n```python\n{t.program}\n```\n```input\n{t.input}\n```\n"
        f"```output\n{t.output}\n```\n</example_{i}>"
        for i, t in enumerate(references, 1)
    )
    return _FRAME.format(
        "Invent a new Python program and one input for it.\n"
        f"{_GOAL[kind]}\n{_RULES}\n"
        "Answer with one ```python fence and one ```input fence. Be different from these "
        f"examples:\n\n{shown}"
    )


def parse_proposal(kind: str, references: Sequence[Task], text: str) -> Proposal | None:
    """Read a proposal from the last answer; None when it does not have the form."""
    body = _answer_block(text)
    if body is None:
        return None
    fences = _FENCE.findall(body)
    inputs = [content.strip() for tag, content in fences if tag == "input"]
    if kind == "code_f":
        messages = [content.strip() for tag, content in fences if tag == "message"]
        if len(inputs) != NUM_INPUTS or len(messages) != 1:
            return None
        return Proposal(
            kind=kind, program=references[0].program, inputs=tuple(inputs), message=messages[0]
        )
    programs = [content for tag, content in fences if tag == "python"]
    if len(programs) != 1 or len(inputs) != 1:
        return None
    return Proposal(kind=kind, program=programs[0], input=inputs[0])


def solve_prompt(task: Task) -> str:
    """Return the prompt that asks for a solution of the task."""
    program = f"```python\n{task.program}\n```"
    if task.kind == "code_o":
        return _FRAME.format(
            f"{program}\n```input\n{task.input}\n```\n"
            "What does f return for this input? Answer with a literal in one ```output fence."
        )
    if task.kind == "code_i":
        return _FRAME.format(
            f"{program}\n```output\n{task.output}\n```\n"
            "Find an input for which f returns this output. Answer with the arguments as Python "
            "literals, separated by commas, in one ```input fence."
        )
    pairs = zip(task.inputs[: task.visible], task.outputs[: task.visible], strict=True)
    shown = "\n".join(f"```input\n{i}\n```\n```output\n{o}\n```" for i, o in pairs)
    return _FRAME.format(
        f"Find the function f that gives these outputs for these inputs:\n{shown}\n"
        f"```message\n{task.message}\n```\n"
        "It is judged on hidden inputs. Answer with the program in one ```python fence."
    )


def parse_answer(text: str) -> str | None:
    """Return the content of the last fence of the last answer; None when ill-formed."""
    body = _answer_block(text)
    if body is None:
        return None
    fences = _FENCE.findall(body)
    return fences[-1][1].strip() or None if fences else None


def _answer_block(text: str) -> str | None:
    thought, closed, rest = text.partition("</think>")
    if not closed or "<answer>" in thought:
        return None
    start = rest.rfind("<answer>")
    end = rest.find("</answer>", start)
    return rest[start + len("<answer>") : end] if 0 <= start < end else None
