"""Task kinds: the prompts of a kind of task, the parsing of completions, and verdicts.

Every template has `code_o`, `code_i` and `code_f`. A kind of your own is an object of a subclass of
`TaskKind`: pass it in `Extensions(task_kinds=[KIND])`, or name it in `rollout.kinds` as
`module:KIND`; `examples/own_task_kind.py` has one. A kind with the name of a built-in one replaces
it.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from code_verifier import Grade, Proposal, Sandbox, Task, Tasksets, Verdict
from selfplay.errors import ConfigError
from selfplay.objects import find_objects

CALLS = ("code_o", "code_i")
"""Kinds about one call of a program, which serve each other as references."""
BUILT_IN = (*CALLS, "code_f")
TASKSET = Tasksets.KIND


def is_taskset(name: str | None) -> bool:
    """Return whether a setting names a taskset of `verifiers`, not a file."""
    return (name or "").startswith(Tasksets.PREFIX)


@runtime_checkable
class TaskKind(Protocol):
    """One kind of task. Its prompts are requests that the template puts into its frame.

    The fields of `Proposal` and `Task` may hold any text. Tasks with equal program, input and
    inputs are duplicates.
    """

    name: str
    """Name in rows and on pages."""
    words: str
    """The solver's task in words, for readers."""
    shows: tuple[str, ...] = CALLS
    """Kinds of the reference tasks in its prompts."""
    keeps_program: bool = False
    """A proposal is about the program of the only reference in its prompt."""

    def propose_prompt(self, references: Sequence[Task]) -> str:
        """Return the request for a task; references: empty only if the run has none."""

    def parse_proposal(self, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a proposal of this kind; None if the text does not have the form."""

    def solve_prompt(self, task: Task) -> str:
        """Return the request for a solution."""

    def parse_answer(self, task: Task, text: str) -> str | None:
        """Return the answer in a solution of the task; None if it is not well formed."""

    def proposal_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that proposes a task, for supervised steps."""
        raise ConfigError(f"kind {self.name} has no proposal_text, which `selfplay sft` needs")

    def answer_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that solves a task, for supervised steps."""
        raise ConfigError(f"kind {self.name} has no answer_text, which `selfplay sft` needs")

    def validate(self, proposal: Proposal, sandbox: Sandbox) -> Verdict:
        """Return the verdict on a proposal: status `ok` with its task, or the reason why not.

        Called in several threads at a time.
        """
        return sandbox.validate(proposal)

    def grade(self, task: Task, answer: str, sandbox: Sandbox) -> Grade:
        """Grade an answer, always in the same way. Called in several threads at a time."""
        return sandbox.grade(task, answer, fail_fast=True)

    def references(self, most: int) -> int:
        """Return the number of references in a prompt; most: `rollout.num_references`."""
        return 1 if self.keeps_program else most


class CodeKind(TaskKind, Protocol):
    """A built-in kind of any template."""

    asks: str
    """The field of a task that the solver has to find."""

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


def kinds_in_play(
    names: Sequence[str], handed: Sequence[TaskKind], built_in: Sequence[TaskKind]
) -> tuple[TaskKind, ...]:
    """Return the kinds that `rollout.kinds` names.

    handed: those that a program passed; others are the template's, or imported. A kind with a
    built-in name replaces that one. Raises ConfigError for an unknown name, for an object that is
    not a kind, and for two kinds of one name.
    """
    by_name = {kind.name: kind for kind in built_in}
    kinds: dict[str, TaskKind] = {}
    objects = find_objects("rollout.kinds", names, "task_kinds", handed, by_name)
    for name, kind in zip(names, objects, strict=True):
        if not isinstance(kind, TaskKind):
            raise ConfigError(
                f"rollout.kinds: {name} is of type {type(kind).__name__}; expected "
                "an object of a subclass of selfplay.TaskKind"
            )
        if kind.name in kinds:
            raise ConfigError(
                f"rollout.kinds: {name} has the name of another kind, {kind.name}; "
                "leave one out, or give it another name"
            )
        kinds[kind.name] = kind
    return tuple(kinds.values())
