"""Rollouts of a run: who is asked for what, the prompts, what can be read, and the verdicts.

A `Proposed` is a proposal on its way through a step, an `Attempt` one try at a task. Each phase
returns them with its own part filled in.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from code_verifier import (
    CodeVerifierError,
    Grade,
    Limits,
    Metrics,
    Proposal,
    Sandbox,
    Status,
    Task,
    Verdict,
    measure,
    ordered_map,
    strip_comments,
)
from lora_evo.model import Request, Rollout, before_stop
from selfplay.config import Config
from selfplay.errors import ConfigError
from selfplay.prompts.control_tokens import control_token_in, control_tokens
from selfplay.prompts.template import Template

FORM = "form"
"""Status of a text that cannot be read as a proposal."""
NOT_SAMPLED = Rollout(None, (), (), (), "length")
"""The rollout of what has not been written yet."""
_SHORTEST = Task(kind="code_o", program="def f(a):\n    return a", input="1", output="1")


class _Written:
    """What an engine samples."""

    rollout: Rollout

    @property
    def text(self) -> str:
        """What was written; a stop text that ended it is its end."""
        return self.rollout.text


@dataclass(frozen=True)
class Attempt(_Written):
    """One try of a member (None: the frozen base) at a task.

    - number: its place among the attempts that are sampled together.
    - answer: None where the text holds no answer.
    - score: in [0, 1]; 1 solves the task.
    - infra_error: the sandbox failed, not the answer: this attempt counts nowhere.
    """

    number: int
    member: str | None
    task: Task
    seed: int
    temperature: float
    rollout: Rollout = NOT_SAMPLED
    answer: str | None = None
    score: float = 0.0
    reason: str = ""
    infra_error: bool = False

    @property
    def writer(self) -> str | None:
        """Who is asked."""
        return self.member


@dataclass(frozen=True)
class Proposed(_Written):
    """A proposal: what a teacher (None: the frozen base) was asked for, and what came of it.

    - number: its place among the proposals that are sampled together.
    - references: the tasks that the prompt shows.
    - proposal: without comments and docstrings, which could give answers away; None for another
      text.
    - task: there exactly when the sandbox accepted the proposal.
    - base_attempts: attempts of the frozen base at the same task, where it was drawn for
      comparison.
    - rival_attempts: attempts of another student at the same task, where the teacher's reward
      compares the two.
    - seen: accepted programs of the same structure that the run saw before.
    """

    number: int
    id: str
    teacher: str | None
    student: str | None
    kind: str
    references: tuple[Task, ...]
    seed: int
    rollout: Rollout = NOT_SAMPLED
    proposal: Proposal | None = None
    status: str = FORM
    reason: str = "the text is not a proposal"
    task: Task | None = None
    metrics: Metrics | None = None
    attempts: tuple[Attempt, ...] = ()
    base_attempts: tuple[Attempt, ...] = ()
    rival_attempts: tuple[Attempt, ...] = ()
    seen: int = 0

    @property
    def writer(self) -> str | None:
        """Who is asked."""
        return self.teacher

    @property
    def judged(self) -> list[Attempt]:
        """The attempts that got a verdict."""
        return [a for a in self.attempts if not a.infra_error]

    @property
    def base_judged(self) -> list[Attempt]:
        """The base's attempts that got a verdict."""
        return [a for a in self.base_attempts if not a.infra_error]

    @property
    def rival_judged(self) -> list[Attempt]:
        """The rival's attempts that got a verdict."""
        return [a for a in self.rival_attempts if not a.infra_error]

    @property
    def infra_error(self) -> bool:
        """Whether the sandbox failed where a verdict was due: then nothing is learned from this."""
        return self.status == Status.SANDBOX_ERROR or (bool(self.attempts) and not self.judged)

    @property
    def solve_rate(self) -> float:
        """Share of the judged attempts that solved the task; 0 where there is none."""
        return share_solved(self.judged)

    @property
    def base_solve_rate(self) -> float:
        """The same of the frozen base's attempts."""
        return share_solved(self.base_judged)

    @property
    def rival_solve_rate(self) -> float:
        """The same of the rival's attempts."""
        return share_solved(self.rival_judged)


def share_solved(attempts: Sequence[Attempt]) -> float:
    """Return the share of attempts that solved their task; 0 where there is none."""
    return sum(a.score >= 1.0 for a in attempts) / len(attempts) if attempts else 0.0


W = TypeVar("W", Proposed, Attempt)


class Prompts:
    """Prompts of a run by token ids, what is read in completions, and the longest prompt.

    tokenizer: of the base. context: tokens that the engine reads; None for no bound. Raises
    ConfigError where not even the shortest task fits into a prompt.
    """

    def __init__(
        self, config: Config, template: Template, tokenizer: Any, context: int | None
    ) -> None:
        self.template, self._tokenizer, self._rollout = template, tokenizer, config.rollout
        self._control_tokens = control_tokens(tokenizer)
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

    def text_of(self, asked: Proposed | Attempt) -> str:
        """Return the prompt of a draft or an attempt as text."""
        if isinstance(asked, Attempt):
            return self.template.solve_prompt(asked.task)
        return self.template.propose_prompt(asked.kind, asked.references)

    def requests(self, asked: Sequence[Proposed] | Sequence[Attempt]) -> list[Request]:
        """Return the requests for proposals, or for answers."""
        r, stops, encoded = self._rollout, self.template.stops, self._encoder()
        return [
            Request(
                encoded(self.text_of(a)),
                a.writer,
                r.max_completion_length if isinstance(a, Attempt) else r.max_proposal_length,
                a.temperature if isinstance(a, Attempt) else r.temperature,
                a.seed,
                stops,
            )
            for a in asked
        ]

    def read(self, asked: W, rollout: Rollout) -> W:
        """Return a draft or an attempt with what was written.

        A text that was cut is no proposal, and holds no answer.
        """
        ended = self._ended(rollout)
        if isinstance(asked, Attempt):
            answer = None if ended is None else self.template.parse_answer(asked.task, ended)
            return replace(asked, rollout=rollout, answer=answer)
        proposal = None
        if ended is not None:
            proposal = self.template.parse_proposal(asked.kind, asked.references, ended)
        bare = None if proposal is None else without_comments(proposal)
        return replace(asked, rollout=rollout, proposal=bare)

    def _ended(self, rollout: Rollout) -> str | None:
        """Return the text before the first stop; None where the limit cut it before any."""
        before = before_stop(rollout.text, self.template.stops)
        cut = rollout.finish_reason == "length" and before == rollout.text
        return None if cut else before

    def why_not_shown(self, task: Task) -> str:
        """Say why no prompt can show a task; empty where all that show it are as they should be."""
        return self.control_token_in(task) or self.why_too_long(task)

    def control_token_in(self, task: Task) -> str:
        """Say which text of a task holds what only the template may write; empty where none."""
        return control_token_in(task, self._control_tokens, self.template.marks)

    def why_too_long(self, task: Task) -> str:
        """Say why a task cannot be accepted; empty where all prompts that show it fit.

        A prompt with several references holds them where it would hold as many copies of the
        longest.
        """
        if self._longest is None:
            return ""
        longest = max(map(len, map(self._encoder(), self._prompts_of(task))))
        if longest <= self._longest:
            return ""
        return (
            f"a prompt that shows it has {longest} tokens, at most {self._longest} fit "
            f"({self._setting})"
        )

    def _prompts_of(self, task: Task) -> Iterator[str]:
        yield self.template.solve_prompt(task)
        for kind in self.template.in_play:
            if task.kind in kind.shows:
                shown = (task,) * kind.references(self._rollout.num_references)
                yield self.template.propose_prompt(kind.name, shown)

    def _encoder(self) -> Callable[[str], tuple[int, ...]]:
        """Return what gives a prompt's ids; equal prompts are read once, and are one object."""

        @cache
        def encoded(prompt: str) -> tuple[int, ...]:
            start = getattr(self._tokenizer, "bos_token", None) or ""
            begun = start != "" and prompt.startswith(start)
            special = self.template.start_token and not begun  # as Engine.tokenise
            return tuple(self._tokenizer.encode(prompt, add_special_tokens=special))

        return encoded


def without_comments(proposal: Proposal) -> Proposal:
    """Return the proposal as its students see it; one that cannot be parsed, as it is."""
    try:
        program = strip_comments(proposal.parsed)
    except CodeVerifierError:
        return proposal
    return Proposal(proposal.kind, program, proposal.input, proposal.inputs, proposal.message)


def open_sandbox(config: Config) -> Sandbox:
    """Return the sandbox of a run."""
    s = config.sandbox
    limits = Limits(wall_s=s.wall_s, cpu_s=s.cpu_s, memory_mb=s.memory_mb)
    return Sandbox(workers=s.workers, limits=limits, runs=s.runs)


def validated(proposed: Iterable[Proposed], sandbox: Sandbox, prompts: Prompts) -> list[Proposed]:
    """Validate proposals as they are written; return them in the order of their numbers."""

    def judge(p: Proposed) -> tuple[Proposed, Verdict | None]:
        if p.proposal is None:
            return p, None
        return p, prompts.template.kind(p.kind).validate(p.proposal, sandbox)

    judged: list[Proposed] = []
    for p, verdict in ordered_map(judge, proposed, sandbox.workers):
        if verdict is None or p.proposal is None:
            judged.append(p)
        elif verdict.task is None:
            judged.append(replace(p, status=verdict.status, reason=verdict.reason))
        elif control := prompts.control_token_in(verdict.task):
            judged.append(replace(p, status=FORM, reason=control))
        elif too_long := prompts.why_too_long(verdict.task):
            judged.append(replace(p, status=Status.TOO_LONG, reason=too_long))
        else:
            task, metrics = replace(verdict.task, id=p.id), _measured(p.proposal)
            judged.append(
                replace(p, status=verdict.status, reason=verdict.reason, task=task, metrics=metrics)
            )
    return sorted(judged, key=lambda p: p.number)


def _measured(proposal: Proposal) -> Metrics | None:
    """Return the measures of a proposal's program; None where that is no Python."""
    try:
        return measure(proposal.parsed)
    except CodeVerifierError:
        return None


def graded(attempts: Iterable[Attempt], sandbox: Sandbox, prompts: Prompts) -> list[Attempt]:
    """Grade attempts as they are written; return them in the order of their numbers."""
    read: list[Attempt] = []

    def answers() -> Iterator[tuple[Task, str | None]]:
        for a in attempts:
            read.append(a)
            yield a.task, a.answer

    def judge(pair: tuple[Task, str | None]) -> Grade:
        task, answer = pair
        if answer is None:
            return Grade(0.0, "ill-formed")
        return prompts.template.kind(task.kind).grade(task, answer, sandbox)

    judged = [
        replace(read[i], score=grade.score, reason=grade.reason, infra_error=not grade.judged)
        for i, grade in enumerate(ordered_map(judge, answers(), sandbox.workers, share=True))
    ]
    return sorted(judged, key=lambda a: a.number)
