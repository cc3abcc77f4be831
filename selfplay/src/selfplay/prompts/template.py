"""What a prompt template is; `prompts.nano` and `prompts.azr` are the two that exist."""

from collections.abc import Sequence
from types import ModuleType
from typing import Protocol, cast

from code_verifier import Proposal, Task
from selfplay.prompts import azr, nano


class Template(Protocol):
    """Writes the prompts of both roles and reads what comes back. A module may be one."""

    def propose_prompt(self, kind: str, references: Sequence[Task]) -> str:
        """Return the prompt that asks for a task of this kind."""
        ...

    def parse_proposal(self, kind: str, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a proposal; None when the text does not have the form."""
        ...

    def solve_prompt(self, task: Task) -> str:
        """Return the prompt that asks for a solution."""
        ...

    def parse_answer(self, text: str) -> str | None:
        """Return the answer in a solution; None when it is not well formed."""
        ...


TEMPLATES: dict[str, ModuleType] = {"nano": nano, "azr": azr}


def template_named(name: str) -> Template:
    """Return the template that a configuration names."""
    return cast(Template, TEMPLATES[name])
