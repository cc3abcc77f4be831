"""What a prompt template is, and the ones that exist, by the names that a configuration has."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from code_verifier import Proposal, Task
from selfplay.config import Config
from selfplay.errors import ConfigError
from selfplay.tasks import azr, nano
from selfplay.tasks.kind import BUILT_IN, TaskKind, kinds_in_play

Frame: TypeAlias = Callable[[str], str]
"""Makes the prompt of a request."""


@dataclass(frozen=True)
class Template:
    """Task kinds within a frame: writes the prompts of both roles and reads what comes back."""

    kinds: tuple[TaskKind, ...]
    """One of each name: those in play, and its own that are not."""
    in_play: tuple[TaskKind, ...]
    """The kinds that a run's teachers write."""
    stops: tuple[str, ...] = ()
    """Texts that end a completion, as its end token does; what follows is not read."""
    frame: Frame = str
    marks: re.Pattern[str] | None = None
    """What the frame is made of beside control tokens: no text of a task holds it."""
    start_token: bool = False
    """Prompts begin as the tokenizer begins texts: with a start token, where it has one."""

    def kind(self, name: str) -> TaskKind:
        """Return the kind of this name. Raises ConfigError where there is none."""
        for kind in self.kinds:
            if kind.name == name:
                return kind
        raise ConfigError(
            f"unknown kind {name[:60]!r}; expected one of {', '.join(k.name for k in self.kinds)}, "
            "or one of your own in rollout.kinds"
        )

    def propose_prompt(self, kind: str, references: Sequence[Task]) -> str:
        """Return the prompt that asks for a task of this kind."""
        return self.frame(self.kind(kind).propose_prompt(references))

    def parse_proposal(self, kind: str, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a proposal; None when the text does not have the form."""
        return self.kind(kind).parse_proposal(references, text)

    def proposal_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that proposes a task, for supervised steps."""
        return self.kind(task.kind).proposal_text(task, thought)

    def solve_prompt(self, task: Task) -> str:
        """Return the prompt that asks for a solution."""
        return self.frame(self.kind(task.kind).solve_prompt(task))

    def parse_answer(self, task: Task, text: str) -> str | None:
        """Return the answer in a solution of the task; None when it is not well formed."""
        return self.kind(task.kind).parse_answer(task, text)

    def answer_text(self, task: Task, thought: str = "") -> str:
        """Write the completion that solves a task, for supervised steps."""
        return self.kind(task.kind).answer_text(task, thought)


NANO = Template(nano.KINDS, nano.KINDS)
AZR = Template(
    azr.KINDS,
    azr.KINDS,
    stops=(azr.ANSWERED, azr.NEXT_TURN),
    frame=azr.plain_frame,
    marks=azr.OF_THE_FRAME,
    start_token=True,
)


def template_named(
    name: str,
    base: str,
    kinds: Sequence[str] = BUILT_IN,
    handed: Sequence[TaskKind] = (),
) -> Template:
    """Return the template that a configuration names.

    base: its model, whose tokenizer a chat template is read from. kinds: those in play, as
    `rollout.kinds` names them; handed: those of them that a program gave. Raises ConfigError where
    the tokenizer has no template that works, and for kinds that there are not.
    """
    template = NANO if name == "nano" else AZR
    in_play = kinds_in_play(kinds, handed, template.kinds)
    by_name = {kind.name: kind for kind in (*template.kinds, *in_play)}
    template = replace(template, kinds=tuple(by_name.values()), in_play=in_play)
    if name == "azr-chat":
        from lora_evo.model import load_tokenizer

        frame = azr.chat_frame(load_tokenizer(base), base)
        template = replace(template, stops=(azr.ANSWERED,), frame=frame, start_token=False)
    return template


def template_of(config: Config, handed: Sequence[TaskKind] = ()) -> Template:
    """Return the template of a configuration; handed: kinds that a program gave."""
    return template_named(config.template, config.base, config.rollout.kinds, handed)
