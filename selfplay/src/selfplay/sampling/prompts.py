"""The prompts of a run as token ids, and the parsing of completions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import click

from code_verifier import CodeVerifierError, Proposal, Task, strip_comments
from lora_evo.model import Request, Rollout, before_stop, encoded
from selfplay.config import Config
from selfplay.errors import ConfigError
from selfplay.sampling.texts import Attempt, Proposed, W
from selfplay.tasks.kind import TASKSET, TaskKind
from selfplay.tasks.template import ControlTokens, Template, template_named

_PROGRAM = "def f(a):\n    if a:\n\n        return 'A  b'\n  B = 1\n   c = 2\n\td = 3\n    return B"
"""Indented in many ways; it need not run."""
_SHORTEST = Task(kind="code_o", program="def f(a):\n    return a", input="1", output="1")


def template_of(config: Config, handed: Sequence[TaskKind] = ()) -> Template:
    """Return the template of a configuration; handed: kinds that a program passed."""
    return template_named(config.template, config.base, config.rollout.kinds, handed)


class Prompts:
    """Makes prompts as token ids, parses completions, and checks that tasks fit into prompts.

    tokenizer: of the base, see `require_faithful`. context: of the engine, in tokens; None:
    unlimited. Raises ConfigError if not even the shortest task fits into a prompt.
    """

    def __init__(self, config: Config, template: Template, tokenizer: Any, context: int | None):
        self.template, self.tokenizer, self._config = template, tokenizer, config
        self.solved_from = config.rollout.solved_from
        self.control_tokens = ControlTokens(tokenizer, template.marks)
        self._ids = lru_cache(1024)(lambda text: encoded(tokenizer, text, template.start_token))
        """Returns the token ids of a prompt."""
        self._longest, self._setting = config.rollout.max_prompt_length, "rollout.max_prompt_length"
        if context is not None:
            room = context - config.longest_completion - config.rollout.prompt_overhead
            if self._longest is None or room < self._longest:
                self._longest = room
                self._setting = f"what the longest completion leaves of the context of {context}"
        if reason := self.why_too_long(_SHORTEST):
            raise ConfigError(
                f"not even the shortest task fits into a prompt: {reason}; raise "
                "rollout.max_prompt_length (or vllm.max_model_len), or sample fewer tokens"
            )

    def text_of(self, draft: Proposed | Attempt) -> str:
        """Return the prompt of a draft or an attempt as text; it is composed once."""
        if not draft.prompt:
            draft.prompt = (
                self.template.solve_prompt(draft.task)
                if isinstance(draft, Attempt)
                else self.template.propose_prompt(draft.kind, draft.references)
            )
        return draft.prompt

    def requests(self, drafts: Sequence[W]) -> list[Request]:
        """Return the requests for drafts or attempts."""
        r = self._config.rollout
        return [
            Request(
                self._ids(self.text_of(a)),
                a.writer,
                r.max_completion_length if isinstance(a, Attempt) else r.max_proposal_length,
                a.temperature if isinstance(a, Attempt) else r.temperature,
                a.seed,
                self.template.stops_of(_kind_of(a)),
            )
            for a in drafts
        ]

    def read(self, draft: Proposed | Attempt, rollout: Rollout) -> Proposal | str | None:
        """Return the proposal or answer in a rollout; None if it has none, or was cut."""
        kind = self.template.kind(_kind_of(draft))
        ended = before_stop(rollout.text, self.template.stops_of(kind.name))
        if rollout.finish_reason == "length" and ended == rollout.text and kind.name != TASKSET:
            return None  # cut at the limit before any stop
        if isinstance(draft, Attempt):
            return kind.parse_answer(draft.task, ended)
        proposal = kind.parse_proposal(draft.references, ended)
        return None if proposal is None else without_comments(proposal)

    def why_not_shown(self, task: Task) -> str:
        """Return why a task cannot be in prompts; '' if it can."""
        return self.control_tokens.why_not(task) or self.why_too_long(task)

    def why_too_long(self, task: Task) -> str:
        """Return which prompt with a task is too long; '' if all fit.

        Several references fit if as many copies of the longest one do.
        """
        if self._longest is None:
            return ""
        longest = max(map(len, map(self._ids, self._prompts_of(task))))
        if longest <= self._longest:
            return ""
        return (
            f"a prompt that shows it has {longest} tokens, at most {self._longest} fit "
            f"({self._setting})"
        )

    def _prompts_of(self, task: Task) -> Iterator[str]:
        yield self.template.solve_prompt(task)
        for kind in self.template.in_play if self._config.proposers else ():
            if task.kind in kind.shows:
                references = (task,) * kind.references(self._config.rollout.num_references)
                yield self.template.propose_prompt(kind.name, references)


def _kind_of(draft: Proposed | Attempt) -> str:
    return draft.task.kind if isinstance(draft, Attempt) else draft.kind


def require_faithful(tokenizer: Any, base: str) -> None:
    """Raise ConfigError if a tokenizer loses a program's line breaks or indentation.

    Prints a warning if it changes anything else, such as capitals.
    """
    ids = tokenizer.encode(_PROGRAM, add_special_tokens=False)
    text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    lines, before = (t.strip().splitlines() for t in (text, _PROGRAM))
    found, expected = ([t.removesuffix(t.lstrip()) for t in of] for of in (lines, before))
    if found != expected:
        raise ConfigError(
            f"the tokenizer of {base} loses line breaks or indentation, without which programs are "
            "others; take a base whose tokenizer keeps them, such as one for code"
        )
    if changes := [pair for pair in zip(before, lines, strict=True) if pair[0] != pair[1]]:
        line, copy = map(str.strip, changes[0])
        warning = f"the tokenizer of {base} changes programs: {line!r} becomes {copy!r}"
        click.echo(f"warning: {warning}", err=True)


def without_comments(proposal: Proposal) -> Proposal:
    """Return the proposal without comments and docstrings; unchanged if it cannot be parsed."""
    try:
        return replace(proposal, program=strip_comments(proposal.program))
    except CodeVerifierError:
        return proposal
