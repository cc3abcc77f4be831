"""Members of one engine write: prompts in, samples out, and what can be read in their text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from code_verifier import CodeVerifierError, Proposal, Task, strip_comments
from evals.engine.rollout import Rollout, TokenRequest
from evals.engine.rollout_engine import RolloutEngine
from selfplay.config.sections import RolloutConfig
from selfplay.prompts.template import Template


@dataclass(frozen=True)
class Draft:
    """A proposal that a member (None: the frozen base) is asked for."""

    member: str | None
    kind: str
    references: tuple[Task, ...]
    seed: int


@dataclass(frozen=True)
class Trial:
    """One try of a member (None: the frozen base) at a task."""

    member: str | None
    task: Task
    seed: int
    temperature: float


@dataclass(frozen=True)
class Written:
    """A proposal as it was written; None where the text is none."""

    rollout: Rollout
    text: str
    proposal: Proposal | None
    bare: Proposal | None
    """Without comments and docstrings, which could tell answers: what the sandbox judges."""


@dataclass(frozen=True)
class Answered:
    """A try at a task; the answer is None where the text holds none."""

    rollout: Rollout
    text: str
    answer: str | None


class Prompts:
    """Requests by token ids for drafts and trials. tokenizer: of the base model."""

    def __init__(self, template: Template, tokenizer: Any, rollout: RolloutConfig) -> None:
        self._template, self._tokenizer, self._rollout = template, tokenizer, rollout

    def of_drafts(self, drafts: Sequence[Draft]) -> list[TokenRequest]:
        """Ask for proposals."""
        r, encoded, prompt = self._rollout, self._encoder(), self._template.propose_prompt
        asked = [(d, encoded(prompt(d.kind, d.references))) for d in drafts]
        length = r.max_proposal_length
        return [TokenRequest(d.member, ids, length, r.temperature, d.seed) for d, ids in asked]

    def of_trials(self, trials: Sequence[Trial]) -> list[TokenRequest]:
        """Ask for answers."""
        encoded, prompt = self._encoder(), self._template.solve_prompt
        asked = [(t, encoded(prompt(t.task))) for t in trials]
        length = self._rollout.max_completion_length
        return [TokenRequest(t.member, ids, length, t.temperature, t.seed) for t, ids in asked]

    def _encoder(self) -> Callable[[str], tuple[int, ...]]:
        """Return what gives a prompt's ids; equal prompts are read once, and are one object."""

        @cache
        def encoded(prompt: str) -> tuple[int, ...]:
            return tuple(self._tokenizer.encode(prompt, add_special_tokens=False))

        return encoded


class LocalWriters:
    """`population.parts.Writers` in this process."""

    def __init__(self, engine: RolloutEngine, template: Template, rollout: RolloutConfig) -> None:
        self._engine, self._template = engine, template
        self._prompts = Prompts(template, engine.tokenizer, rollout)
        self.shares_parameters = engine.shares_parameters
        """Whether what a member learns is what it samples with, without being published."""

    def proposals(self, drafts: Sequence[Draft]) -> Iterator[tuple[int, Written]]:
        """Sample every draft; yield (its number, what was read) as they are written."""
        for i, rollout in self._engine.stream(self._prompts.of_drafts(drafts)):
            text, draft = self._engine.completion(rollout).text, drafts[i]
            proposal = None
            if rollout.finish_reason == "stop":
                proposal = self._template.parse_proposal(draft.kind, draft.references, text)
            yield i, Written(rollout, text, proposal, proposal and _bare(proposal))

    def answers(self, trials: Sequence[Trial]) -> Iterator[tuple[int, Answered]]:
        """Sample every trial; yield (its number, what was read) as they are written."""
        for i, rollout in self._engine.stream(self._prompts.of_trials(trials)):
            text, whole = self._engine.completion(rollout).text, rollout.finish_reason == "stop"
            answer = self._template.parse_answer(trials[i].task, text) if whole else None
            yield i, Answered(rollout, text, answer)

    def release(self) -> None:
        """Give memory that only sampling needs to the learner."""
        self._engine.release()

    def restore(self) -> None:
        """Take it back."""
        self._engine.restore()


def _bare(proposal: Proposal) -> Proposal:
    try:
        program = strip_comments(proposal.parsed)
    except CodeVerifierError:
        return proposal
    return Proposal(proposal.kind, program, proposal.input, proposal.inputs, proposal.message)
