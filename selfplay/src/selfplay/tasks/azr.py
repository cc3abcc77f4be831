"""Prompts for large models in the format of Absolute Zero (arXiv 2505.03335), reworded.

A model thinks in <think> and answers in <answer>; programs, inputs, outputs and messages are in
fences. `selfplay.tasks.reading` parses completions, and tolerates some deviations.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, Protocol

from code_verifier import Proposal, Task
from selfplay.errors import ConfigError, first_line
from selfplay.tasks import reading
from selfplay.tasks.kind import CodeF, CodeI, CodeKind, CodeO, TaskKind
from selfplay.tasks.reading import answer_text, argument_text, fenced, without_label

TODAY = date(2024, 7, 26)
"""The date in chat templates, Llama 3.1's own: fixed, so that all prompts of a run agree."""
NUM_INPUTS = 10
"""Inputs of a code_f proposal: the solver sees the first half, the rest is hidden and judges it."""

_RULES = """Rules for the program:
- The entry function is called f, takes at least one argument and returns a value.
- It is deterministic: no randomness, time, files, network, printing or input.
- It uses only the standard library, and finishes within seconds.
- Its result is made of plain values: numbers, strings, booleans, None, lists, tuples, dicts, sets.
- It has no comments that give the solution away.
The input is the text between the parentheses of the call f(...): literals, separated by commas."""
OF_THE_FRAME = re.compile(
    r"</?\s*(?:think(?:ing)?|answer|example_\d+|s|bos|eos|start_of_turn|end_of_turn)\s*>"
    r"|<[|\uff5c][^|\uff5c\n]{1,40}[|\uff5c]>|^(?:User|Assistant):",
    re.IGNORECASE | re.MULTILINE,
)
"""Tags and markers of frames and chat templates."""
ANSWERED, NEXT_TURN = "</answer>", "\nUser:"
"""The end of an answer, and the next turn that a model without chat training makes up after it."""
_EMPTY_THOUGHT = re.compile(r"(?:<think(?:ing)?>\s*)?</think(?:ing)?>\s*\Z")
_PROBE = "def f(x):\n\n\tif x < 2 & (x != '\\n'):\n        return [{\"<b>\": x}]  \n" * 9
"""What templates may escape, collapse, cut or drop."""
_FORM = "First reason inside <think> </think>, then give the answer inside <answer> </answer>."


def plain_frame(request: str) -> str:
    """Return the request as a written-out conversation, for models without chat training."""
    return (
        "A user asks and an assistant answers. The assistant first reasons inside <think> </think> "
        f"and then gives its answer inside <answer> </answer>.\nUser: {request}\n"
        "Assistant: <think>"
    )


def in_form(request: str) -> str:
    """Return the user's turn of a conversation: the request, and the form of the answer."""
    return f"{request}\n{_FORM}"


def chat_frame(tokenizer: Any, base: str) -> Callable[[str], str]:
    """Return a function that puts a request into the tokenizer's chat template.

    base: the model's name in errors. A template's `strftime_now` is always of `TODAY`, so that a
    resume has the same prompts. Raises ConfigError if there is no template, or if it fails or
    changes the request.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(
            f"template is 'azr-chat', and the tokenizer of {base} has no chat template; use "
            "template=azr, the plain frame for base models"
        )

    def frame(request: str) -> str:
        text = chat_prompt(tokenizer, base, "", in_form(request))
        # Templates of reasoning models add <think> themselves, and those that need not reason an
        # empty thought.
        text = _EMPTY_THOUGHT.sub("", text)
        return text if text.rstrip().endswith("<think>") else f"{text}<think>"

    frame(_PROBE)
    return frame


def chat_prompt(tokenizer: Any, base: str, system: str, text: str) -> str:
    """Return the prompt of a system prompt ("": none) and a user's text in the tokenizer's chat
    template; base as for `chat_frame`. Raises ConfigError if it fails or changes the text."""
    turns = [{"role": "system", "content": system}] if system else []
    try:
        prompt: str = tokenizer.apply_chat_template(
            [*turns, {"role": "user", "content": text}],
            tokenize=False,
            add_generation_prompt=True,
            strftime_now=TODAY.strftime,  # overrides transformers' own
        )
        if text.strip() in prompt:
            return prompt
        fault = "leaves the user's text out or changes it"
    except Exception as error:  # templates are programs and may raise anything
        fault = f"refuses a prompt: {first_line(error)}"
    raise ConfigError(
        f"the chat template of {base} {fault}; use template=azr, or mend chat_template in the "
        "model's folder"
    )


def plain_prompt(system: str, text: str) -> str:
    """Return the prompt of both for a model without chat training."""
    return "\n".join(filter(None, (system, f"User: {text}", "Assistant:")))


class _Kind(CodeKind, Protocol):
    """A kind whose proposals and answers are in fences."""

    fence: str
    """Name of the fence of an answer; the solver's prompt has no fence of this name."""
    context: tuple[str, ...]
    """Names of the fences of the solver's prompt, which are never an answer."""
    fits: Callable[[str], bool]
    """Returns whether a text can be an answer."""

    def answer(self, task: Task, written: str) -> str:
        """Return the answer in the content of a fence."""
        return written.strip()

    def parse_answer(self, task: Task, text: str) -> str | None:
        """Return the answer to the task; None if there is none.

        The last fence with the answer's name counts. In a marked answer, a fence of another name,
        or a text without fences, also counts if it can be an answer.
        """
        answer = answer_text(text)
        named = [f.content for f in answer.fences if f.name == self.fence]
        if not named and answer.marked:
            others = [f.content for f in answer.fences if f.name not in self.context]
            others = others if answer.fences else [answer.text]
            named = [content for content in others if self.fits(content.strip())]
        return self.answer(task, named[-1]) or None if named else None

    def answer_text(self, task: Task, thought: str = "") -> str:
        return _completion(fenced(self.fence, self.gold(task)), thought)


class _Call(_Kind, Protocol):
    """A program and one input."""

    goal: str

    def propose_prompt(self, references: Sequence[Task]) -> str:
        examples = "\n\n".join(
            f"<example_{i}>\n{_pair(t)}\n{fenced('output', t.output or '')}\n</example_{i}>"
            for i, t in enumerate(references, 1)
        )
        return (
            "Invent a new Python program and one input for it.\n"
            f"{self.goal}\n{_RULES}\n"
            "Answer with one ```python fence and one ```input fence. Be different from these "
            f"examples:\n\n{examples}"
        )

    def parse_proposal(self, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a proposal; None also for two different programs or inputs, of which it is not clear
        which was meant, and for a copy of an example."""
        fences = answer_text(text).fences
        named = [f for f in fences if f.name or reading.defines_f(f.content)]
        programs = {f.content.strip("\n") for f in named if f.name in ("python", "")}
        inputs = {f.content.strip() for f in named if f.name == "input"}
        if len(programs) != 1 or len(inputs) != 1:
            return None
        program = programs.pop().rstrip()
        arguments = argument_text(inputs.pop(), program)
        shown = [(reference.program.strip(), reference.input) for reference in references]
        if not program or (program.strip(), arguments) in shown:
            return None
        return Proposal(kind=self.name, program=program, input=arguments)

    def proposal_text(self, task: Task, thought: str = "") -> str:
        return _completion(_pair(task), thought)


class Output(CodeO, _Call):
    fence, context, fits = "output", ("input",), staticmethod(reading.is_output)
    goal = (
        "The task for the solver: given the program and the input, predict the output. Make the "
        "output hard to work out by hand, yet not impossible."
    )

    def solve_prompt(self, task: Task) -> str:
        return (
            f"{_pair(task)}\n"
            "What does f return for this input? Answer with a literal in one ```output fence."
        )

    def answer(self, task: Task, written: str) -> str:
        return without_label("output", written)


class _Input(CodeI, _Call):
    fence, context, fits = "input", ("output",), staticmethod(reading.is_input)
    goal = (
        "The task for the solver: given the program and the output, find an input that produces "
        "it. Make the input hard to recover, yet not impossible."
    )

    def solve_prompt(self, task: Task) -> str:
        return (
            f"{fenced('python', task.program)}\n{fenced('output', task.output or '')}\n"
            "Find an input for which f returns this output. Answer with the arguments as "
            "Python literals, separated by commas, in one ```input fence."
        )

    def answer(self, task: Task, written: str) -> str:
        return argument_text(written, task.program)


class _Function(CodeF, _Kind):
    fence, context, fits = "python", ("input", "output", "message"), staticmethod(reading.defines_f)

    def propose_prompt(self, references: Sequence[Task]) -> str:
        return (
            f"Here is a Python program:\n{fenced('python', references[0].program)}\n"
            f"Write {NUM_INPUTS} different inputs for f, each in its own ```input fence, so "
            "that together with their outputs they tell what f does, and one hint in a "
            "```message fence that helps to find the function without showing its code. Half "
            "of the inputs stay hidden from the solver and judge its function. Outputs must "
            "not all be equal."
        )

    def parse_proposal(self, references: Sequence[Task], text: str) -> Proposal | None:
        program, fences = references[0].program, answer_text(text).fences
        inputs = [argument_text(f.content, program) for f in fences if f.name == "input"]
        messages = {f.content.strip() for f in fences if f.name == "message"}
        if len(inputs) != NUM_INPUTS or len(messages) != 1:
            return None
        message = messages.pop()
        return Proposal(kind=self.name, program=program, inputs=tuple(inputs), message=message)

    def proposal_text(self, task: Task, thought: str = "") -> str:
        inputs = "\n".join(fenced("input", arguments) for arguments in task.inputs)
        return _completion(f"{inputs}\n{fenced('message', task.message)}", thought)

    def solve_prompt(self, task: Task) -> str:
        pairs = zip(task.inputs[: task.visible], task.outputs[: task.visible], strict=True)
        examples = "\n".join(f"{fenced('input', i)}\n{fenced('output', o)}" for i, o in pairs)
        return (
            f"Find the function f that gives these outputs for these inputs:\n{examples}\n"
            f"{fenced('message', task.message)}\n"
            "It is judged on hidden inputs. Answer with the program in one ```python fence."
        )


KINDS: tuple[TaskKind, ...] = (Output(), _Input(), _Function())


def _pair(task: Task) -> str:
    return f"{fenced('python', task.program)}\n{fenced('input', task.input or '')}"


def _completion(answer: str, thought: str) -> str:
    return f"{thought}</think>\n<answer>\n{answer}\n</answer>"
