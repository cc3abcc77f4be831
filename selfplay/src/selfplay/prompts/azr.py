"""Prompts for large models in the manner of Absolute Zero (arXiv 2505.03335), in our own words.

A model thinks in <think> and answers in <answer>; programs, inputs, outputs and messages come in
fences. How a completion is read, and what is forgiven, is in `answer_text` and `fence`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from code_verifier import Proposal, Task
from selfplay.errors import ConfigError
from selfplay.prompts.reading import (
    AnswerText,
    answer_text,
    argument_text,
    defines_f,
    fenced,
    is_input,
    is_output,
    without_label,
)

NUM_INPUTS = 10
"""Inputs of a code_f proposal: the first half is shown to the solver, the rest judges it."""

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
_ANSWER = {"code_o": "output", "code_i": "input", "code_f": "python"}
"""The fence that holds the answer; no prompt shows one of this name to its solver."""
_FITS = {"code_o": is_output, "code_i": is_input, "code_f": defines_f}
_SHOWN = {"code_o": ("input",), "code_i": ("output",), "code_f": ("input", "output", "message")}
"""Fences that the solver's prompt shows: never an answer."""
OF_THE_FRAME = re.compile(
    r"</?\s*(?:think(?:ing)?|answer|example_\d+|s|bos|eos|start_of_turn|end_of_turn)\s*>"
    r"|<[|\uff5c][^|\uff5c\n]{1,40}[|\uff5c]>|^(?:User|Assistant):",
    re.IGNORECASE | re.MULTILINE,
)
"""What frames and chat templates are made of."""


ANSWERED, NEXT_TURN = "</answer>", "\nUser:"
"""The end of an answer, and a turn that a model without chat training invents behind it."""
Frame: TypeAlias = Callable[[str], str]
"""Makes the prompt of a request."""
_FORM = "First reason inside <think> </think>, then give the answer inside <answer> </answer>."


def plain_frame(request: str) -> str:
    """A conversation written out, which a model without chat training goes on with."""
    return (
        "A user asks and an assistant answers. The assistant first reasons inside <think> </think> "
        f"and then gives its answer inside <answer> </answer>.\nUser: {request}\n"
        "Assistant: <think>"
    )


def chat_frame(tokenizer: Any, base: str) -> Frame:
    """The frame of a model's own chat template.

    tokenizer: of transformers; base: what errors call the model. Raises ConfigError at once where
    there is no template, or one that fails or loses the request.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(
            f"template is 'azr-chat', and the tokenizer of {base} has no chat template; use "
            "template=azr, the plain frame for base models"
        )

    def frame(request: str) -> str:
        turns = [{"role": "user", "content": f"{request}\n{_FORM}"}]
        try:
            text: str = tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # templates are programs and raise what they like
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"the chat template of {base} refuses a prompt: {reason}; use template=azr, or "
                "mend chat_template in the model's folder"
            ) from None
        # Templates of reasoning models open the thought themselves.
        return text if text.rstrip().endswith("<think>") else f"{text}<think>"

    if "What is 2 + 2?" not in frame("What is 2 + 2?"):
        raise ConfigError(
            f"the chat template of {base} leaves the user's text out; use template=azr, or mend "
            "chat_template in the model's folder"
        )
    return frame


@dataclass(frozen=True)
class AzrTemplate:
    """Implements `Template` within a frame: the plain one, or a model's chat template."""

    frame: Frame
    stops: tuple[str, ...] = (ANSWERED,)

    def propose_prompt(self, kind: str, references: Sequence[Task]) -> str:
        """Return the prompt that asks for a task of this kind, after reference tasks."""
        if kind == "code_f":
            return self.frame(
                f"Here is a Python program:\n{fenced('python', references[0].program)}\n"
                f"Write {NUM_INPUTS} different inputs for f, each in its own ```input fence, so "
                "that together with their outputs they tell what f does, and one hint in a "
                "```message fence that helps to find the function without showing its code. Half "
                "of the inputs stay hidden from the solver and judge its function. Outputs must "
                "not all be equal."
            )
        shown = "\n\n".join(
            f"<example_{i}>\n{_pair(t)}\n{fenced('output', t.output or '')}\n</example_{i}>"
            for i, t in enumerate(references, 1)
        )
        return self.frame(
            "Invent a new Python program and one input for it.\n"
            f"{_GOAL[kind]}\n{_RULES}\n"
            "Answer with one ```python fence and one ```input fence. Be different from these "
            f"examples:\n\n{shown}"
        )

    def parse_proposal(self, kind: str, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a proposal; None when it does not have the form.

        There must be one program: two different ones, even in a draft, are none, because nobody
        could say which was meant. A copy of an example is none, and neither is what holds marks of
        the frame: it would end the prompt of the solver who is shown it.
        """
        answer = answer_text(text)
        if kind == "code_f":
            proposal = _function_proposal(answer, references[0].program)
        else:
            proposal = _call_proposal(answer, kind, references)
        if proposal is None:
            return None
        written = (proposal.program, proposal.input or "", *proposal.inputs, proposal.message)
        return None if any(OF_THE_FRAME.search(part) for part in written) else proposal

    def proposal_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that proposes a task."""
        if task.kind == "code_f":
            inputs = "\n".join(fenced("input", given) for given in task.inputs)
            return _completion(f"{inputs}\n{fenced('message', task.message)}", thought)
        return _completion(_pair(task), thought)

    def solve_prompt(self, task: Task) -> str:
        """Return the prompt that asks for a solution of the task."""
        if task.kind == "code_o":
            return self.frame(
                f"{_pair(task)}\n"
                "What does f return for this input? Answer with a literal in one ```output fence."
            )
        if task.kind == "code_i":
            program = fenced("python", task.program)
            return self.frame(
                f"{program}\n{fenced('output', task.output or '')}\n"
                "Find an input for which f returns this output. Answer with the arguments as "
                "Python literals, separated by commas, in one ```input fence."
            )
        pairs = zip(task.inputs[: task.visible], task.outputs[: task.visible], strict=True)
        shown = "\n".join(f"{fenced('input', i)}\n{fenced('output', o)}" for i, o in pairs)
        return self.frame(
            f"Find the function f that gives these outputs for these inputs:\n{shown}\n"
            f"{fenced('message', task.message)}\n"
            "It is judged on hidden inputs. Answer with the program in one ```python fence."
        )

    def parse_answer(self, task: Task, text: str) -> str | None:
        """Return the answer to the task; None when there is none.

        The last fence of the answer's name counts. In an answer that is marked as one, a fence of
        another name counts too if it can be an answer, and so does a text without any fence.
        """
        answer, name = answer_text(text), _ANSWER[task.kind]
        named = [f.content for f in answer.fences if f.name == name]
        if not named and answer.marked:
            others = [f.content for f in answer.fences if f.name not in _SHOWN[task.kind]]
            found = others if answer.fences else [answer.text]
            named = [content for content in found if _FITS[task.kind](content.strip())]
        if not named:
            return None
        if task.kind == "code_i":
            return argument_text(named[-1], task.program) or None
        if task.kind == "code_o":
            return without_label("output", named[-1]) or None
        return named[-1].strip() or None

    def answer_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that solves a task as its proposer would."""
        gold = {"code_o": task.output, "code_i": task.input, "code_f": task.program}[task.kind]
        return _completion(fenced(_ANSWER[task.kind], gold or ""), thought)


def _pair(task: Task) -> str:
    return f"{fenced('python', task.program)}\n{fenced('input', task.input or '')}"


def _completion(answer: str, thought: str) -> str:
    return f"{thought}</think>\n<answer>\n{answer}\n</answer>"


def _call_proposal(answer: AnswerText, kind: str, references: Sequence[Task]) -> Proposal | None:
    programs = {
        f.content.strip("\n")
        for f in answer.fences
        if f.name == "python" or (f.name == "" and defines_f(f.content))
    }
    inputs = {f.content.strip() for f in answer.fences if f.name == "input"}
    if len(programs) != 1 or len(inputs) != 1:
        return None
    program, given = programs.pop().rstrip(), inputs.pop()
    if not program:
        return None
    given = argument_text(given, program)
    copied = any((r.program.strip(), r.input) == (program.strip(), given) for r in references)
    return None if copied else Proposal(kind=kind, program=program, input=given)


def _function_proposal(answer: AnswerText, program: str) -> Proposal | None:
    inputs = [argument_text(f.content, program) for f in answer.fences if f.name == "input"]
    messages = {f.content.strip() for f in answer.fences if f.name == "message"}
    if len(inputs) != NUM_INPUTS or len(messages) != 1:
        return None
    message = messages.pop()
    return Proposal(kind="code_f", program=program, inputs=tuple(inputs), message=message)
