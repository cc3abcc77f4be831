"""How many rows and tokens a step has, at most and as expected."""

import math
from dataclasses import dataclass, replace

from selfplay.config.run_config import RunConfig

_WORDS = {"nano": 8, "azr": 330, "azr-chat": 370}
"""Tokens of a prompt beside the tasks that it shows."""
_TASK = {"nano": 48, "azr": 170, "azr-chat": 170}
"""Tokens of a task that is shown, with its input and output: of Absolute Zero's published ones the
mean is 160 with the tokenizer of a small model, and one in twenty has more than 400."""
_LONG = 2.5
"""Long tasks are so many times longer than usual ones."""


@dataclass(frozen=True)
class Rows:
    """Rows of one role in a step; lengths in tokens."""

    count: int
    prompt: int
    """As expected."""
    longest_prompt: int
    limit: int
    """Longest completion."""
    samples: int = 1
    """Rows that share one prompt."""

    @property
    def longest(self) -> int:
        """Longest prompt and completion."""
        return self.longest_prompt + self.limit


@dataclass(frozen=True)
class Workload:
    """A step, every proposal taken as valid."""

    proposals: Rows
    attempts: Rows
    members: int
    fill: float
    """Share of its limit that a completion is expected to have."""

    @property
    def parts(self) -> tuple[Rows, Rows]:
        """Both roles."""
        return self.proposals, self.attempts

    @property
    def sampled_tokens(self) -> int:
        """Tokens that a step samples at most."""
        return sum(rows.count * rows.limit for rows in self.parts)

    @property
    def learned_tokens(self) -> int:
        """Tokens that a step learns from at most, prompts included."""
        return sum(rows.count * (rows.prompt + rows.limit) for rows in self.parts)


def workload(config: RunConfig, prompt_tokens: int | None = None, fill: float = 0.5) -> Workload:
    """Return the step of a configuration.

    prompt_tokens: of the longest prompt, where the estimate does not fit.
    """
    r = config.rollout
    single = config.mode == "azr"
    teachers = 1 if single else config.teachers
    shown = 1 if config.template == "nano" else r.num_references
    words, task = _WORDS[config.template], _TASK[config.template]
    proposing = words + shown * task
    proposals = Rows(
        count=teachers * len(r.kinds) * r.proposals,
        prompt=proposing,
        longest_prompt=round(words + shown * task * (_LONG if shown == 1 else 1.5)),
        limit=r.max_proposal_length,
    )
    attempts = Rows(
        count=proposals.count * r.num_generations,
        prompt=words // 3 + task,
        longest_prompt=round(words // 3 + task * _LONG),
        limit=r.max_completion_length,
        samples=r.num_generations,
    )
    if prompt_tokens is not None:
        proposals = replace(proposals, longest_prompt=prompt_tokens)
    bound = min(prompt_tokens or math.inf, r.max_prompt_length or math.inf)
    proposals, attempts = (
        replace(rows, longest_prompt=int(min(bound, rows.longest_prompt)))
        for rows in (proposals, attempts)
    )
    members = 1 if single else config.teachers + config.students
    return Workload(proposals, attempts, members, fill)
