"""What a prompt template is, and the ones that exist, by the names that a configuration has."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from code_verifier import Proposal, Task
from lora_evo import LoraEvoError
from selfplay.errors import ConfigError
from selfplay.prompts import nano
from selfplay.prompts.azr import ANSWERED, NEXT_TURN, AzrTemplate, chat_frame, plain_frame


class Template(Protocol):
    """Writes the prompts of both roles and reads what comes back. A module may be one."""

    @property
    def stops(self) -> tuple[str, ...]:
        """Texts that end a completion, as its end token does; what follows is not read."""

    def propose_prompt(self, kind: str, references: Sequence[Task]) -> str:
        """Return the prompt that asks for a task of this kind."""

    def parse_proposal(self, kind: str, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a proposal; None when the text does not have the form."""

    def proposal_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that proposes a task, for supervised steps."""

    def solve_prompt(self, task: Task) -> str:
        """Return the prompt that asks for a solution."""

    def parse_answer(self, task: Task, text: str) -> str | None:
        """Return the answer in a solution of the task; None when it is not well formed."""

    def answer_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that solves a task, for supervised steps."""


def template_named(name: str, base: str) -> Template:
    """Return the template that a configuration names; base: its model, whose tokenizer a chat
    template is read from. Raises ConfigError where that has none that works."""
    if name == "nano":
        return cast(Template, nano)
    if name == "azr-chat":
        return AzrTemplate(chat_frame(_tokenizer(base), base))
    return AzrTemplate(plain_frame, (ANSWERED, NEXT_TURN))


def _tokenizer(base: str) -> Any:
    from lora_evo.model import load_tokenizer

    try:
        return load_tokenizer(base)
    except LoraEvoError as error:
        raise ConfigError(str(error)) from error
