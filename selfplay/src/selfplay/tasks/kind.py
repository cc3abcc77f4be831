"""Task kinds: what a task asks for, in prompts, in what is read of completions, and in verdicts.

`code_o`, `code_i` and `code_f` are three of them in every template. One of your own is an object of
a subclass of `TaskKind`: hand it over in `Extensions(task_kinds=[KIND])`, or name it in
`rollout.kinds` as `module:KIND`. A whole one is in `examples/own_task_kind.py`. One with the name
of a built-in kind takes its place, with prompts and a gate of its own.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from code_verifier import Grade, Proposal, Sandbox, Task, Verdict
from selfplay.errors import ConfigError
from selfplay.objects import resolved
from selfplay.settings import one_of

CALLS = ("code_o", "code_i")
"""Kinds about one call of a program: what a teacher has seen of one serves the other."""
BUILT_IN = (*CALLS, "code_f")


@runtime_checkable
class TaskKind(Protocol):
    """One kind of task. Its prompts are requests: the template puts them into its frame.

    A `Proposal` and a `Task` carry what the kind puts into them; the fields of programs serve any
    text. A task is known by its program, input and inputs: the same again is no new task.
    """

    name: str
    """What rows and pages call it."""
    words: str
    """What it asks of the solver, for readers."""
    shows: tuple[str, ...] = CALLS
    """Kinds whose tasks its prompts show as references."""
    keeps_program: bool = False
    """A proposal is about the program of the one reference that its prompt shows."""

    def propose_prompt(self, references: Sequence[Task]) -> str:
        """Return the request for a task; references: none only where the run has none to show."""

    def parse_proposal(self, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a proposal of this kind; None when the text does not have the form."""

    def solve_prompt(self, task: Task) -> str:
        """Return the request for a solution."""

    def parse_answer(self, task: Task, text: str) -> str | None:
        """Return the answer in a solution of the task; None when it is not well formed."""

    def proposal_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that proposes a task, for supervised steps."""
        raise ConfigError(f"kind {self.name} has no proposal_text, which `selfplay sft` needs")

    def answer_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that solves a task, for supervised steps."""
        raise ConfigError(f"kind {self.name} has no answer_text, which `selfplay sft` needs")

    def validate(self, proposal: Proposal, sandbox: Sandbox) -> Verdict:
        """Judge a proposal: status `ok` with the task that it becomes, or why not.

        Called in several threads at a time.
        """
        return sandbox.validate(proposal)

    def grade(self, task: Task, answer: str, sandbox: Sandbox) -> Grade:
        """Judge an answer, the same for the same answer. Called in several threads at a time."""
        return sandbox.grade(task, answer)

    def references(self, most: int) -> int:
        """Return how many references a prompt shows, of `rollout.num_references`."""
        return 1 if self.keeps_program else most


class CodeKind(TaskKind, Protocol):
    """What the built-in kinds are in every template."""

    asks: str
    """Field of a task that its solver is asked for."""

    def gold(self, task: Task) -> str:
        """Return the proposer's own answer."""
        return getattr(task, self.asks) or ""


class CodeO(CodeKind, Protocol):
    """Given a program and an input: the output."""

    name: str = "code_o"
    words: str = "predict the output of a program for an input"
    asks: str = "output"


class CodeI(CodeKind, Protocol):
    """Given a program and an output: an input."""

    name: str = "code_i"
    words: str = "find an input that gives the output"
    asks: str = "input"


class CodeF(CodeKind, Protocol):
    """Given examples and a message: the program."""

    name: str = "code_f"
    words: str = "write the program from examples and a message"
    asks: str = "program"
    keeps_program: bool = True


def require_known(names: Sequence[str]) -> None:
    """Raise ConfigError where `rollout.kinds` names a kind twice, or neither a built-in kind nor a
    `module:object`."""
    if len(set(names)) < len(names):
        raise ConfigError(f"rollout.kinds names a kind twice: {', '.join(names)}")
    for name in names:
        if name not in BUILT_IN and ":" not in name:
            expected = one_of(name, (*BUILT_IN, "module:object"))
            raise ConfigError(f"rollout.kinds names {name!r}; {expected}")


def kinds_in_play(
    names: Sequence[str], handed: Sequence[TaskKind], built_in: Sequence[TaskKind]
) -> tuple[TaskKind, ...]:
    """Return the kinds that `rollout.kinds` names.

    handed: what a program gave; the rest is a template's own, or imported. One of a built-in name
    takes the place of ours. Raises ConfigError for a name that is none of them, for what is no
    kind, and for two of one name.
    """
    known = {kind.name: kind for kind in built_in}
    kinds: dict[str, TaskKind] = {}
    found = resolved("rollout.kinds", names, "task_kinds", handed, known)
    for name, kind in zip(names, found, strict=True):
        if not isinstance(kind, TaskKind):
            raise ConfigError(
                f"rollout.kinds: {name} is of type {type(kind).__name__}; expected "
                "an object of a subclass of selfplay.TaskKind"
            )
        if kind.name in kinds:
            raise ConfigError(
                f"rollout.kinds: {name} has the name of another kind, {kind.name}; "
                f"expected one of a name: leave one out, or call it otherwise"
            )
        kinds[kind.name] = kind
    return tuple(kinds.values())
