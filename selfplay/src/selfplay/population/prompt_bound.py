"""The longest prompt of a run: no task is accepted whose prompts would be longer."""

from collections.abc import Iterator
from typing import Any

from code_verifier import Task
from selfplay.config.run_config import RunConfig
from selfplay.errors import ConfigError
from selfplay.prompts.template import Template

_SHORTEST = Task(kind="code_o", program="def f(a):\n    return a", input="1", output="1")
_SEAM = 16
"""Tokens that a prompt of several tasks may have more than their lengths let expect."""


def longest_completion(config: RunConfig) -> int:
    """Tokens of the longest text that a member of this run writes."""
    return max(config.rollout.max_proposal_length, config.rollout.max_completion_length)


def longest_sample(config: RunConfig) -> int | None:
    """Tokens of the longest prompt and completion; None where only the context is a bound."""
    longest = config.rollout.max_prompt_length
    return None if longest is None else longest + _seams(config) + longest_completion(config)


def _seams(config: RunConfig) -> int:
    return _SEAM * (config.rollout.num_references - 1)


class PromptBound:
    """Measures tasks by the prompts that show them.

    tokenizer: of the base. context: tokens that the engine reads; None where nothing tells. Raises
    ConfigError where the shortest task does not fit.
    """

    def __init__(
        self, config: RunConfig, template: Template, tokenizer: Any, context: int | None
    ) -> None:
        self._rollout, self._template, self._tokenizer = config.rollout, template, tokenizer
        self._longest = config.rollout.max_prompt_length
        self._setting = "rollout.max_prompt_length"
        room = None if context is None else context - longest_completion(config) - _seams(config)
        if room is not None and (self._longest is None or room < self._longest):
            self._longest = room
            self._setting = f"what the longest completion leaves of the context of {context}"
        excess = self.excess(_SHORTEST)
        if excess:
            raise ConfigError(
                f"not even the shortest task fits into a prompt: {excess}; raise "
                "rollout.max_prompt_length (or vllm.max_model_len), or sample fewer tokens"
            )

    def excess(self, task: Task) -> str:
        """Say why the task cannot be accepted; empty where all prompts that show it fit.

        A prompt with several references holds them where it would hold as many copies of the
        longest.
        """
        if self._longest is None:
            return ""
        longest = max(self._tokens(prompt) for prompt in self._prompts(task))
        if longest <= self._longest:
            return ""
        return (
            f"a prompt that shows it has {longest} tokens, at most {self._longest} fit "
            f"({self._setting})"
        )

    def _tokens(self, prompt: str) -> int:
        """Tokens of a prompt; 0 where its length alone tells that they fit."""
        if self._longest is not None and prompt.isascii() and len(prompt) < self._longest:
            return 0  # a token holds at least one character
        return len(self._tokenizer.encode(prompt, add_special_tokens=False))

    def _prompts(self, task: Task) -> Iterator[str]:
        yield self._template.solve_prompt(task)
        if task.kind != "code_f":  # its program was another task's, which is the reference
            for kind in self._rollout.kinds:
                shown = 1 if kind == "code_f" else self._rollout.num_references
                yield self._template.propose_prompt(kind, (task,) * shown)
