"""Adapters trained side by side as students on fixed tasks, by the update of self-play.

Which tasks come up at a step, and the luck of every attempt, follow from the seed and the step, not
from the adapter: a child and its parent meet the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from code_verifier import Sandbox, Task
from evals.engine.rollout import Rollout, TokenRequest
from evals.engine.rollout_engine import RolloutEngine
from evals.engine.streams import derive_seed, stream
from lora_evo import Adapter
from selfplay.errors import SelfplayError
from selfplay.learning.advantage import RewardedSample, student_advantages
from selfplay.learning.learner import Learner, TrainingSample
from selfplay.learning.reward import StudentRewards, student_reward
from selfplay.prompts.template import Template
from selfplay.retention.tasks import FixedTasks

TRIES = 3
"""Times that an answer is judged until the sandbox does not fail."""


@dataclass(frozen=True)
class Lesson:
    """What a step of practice consists of."""

    tasks: int = 12
    """Tasks per step, drawn from the practice tasks."""
    attempts: int = 6
    """Attempts of every student at each of them."""
    max_tokens: int = 112
    """Longest attempt."""
    temperature: float = 1.0
    """Of the attempts; measuring is greedy."""


class FixedTaskLearner:
    """Implements `lora_evo.recovery.trials.Learner` on a stack of adapters."""

    def __init__(
        self,
        learner: Learner,
        engine: RolloutEngine,
        template: Template,
        sandbox: Sandbox,
        tasks: FixedTasks,
        lesson: Lesson,
        rewards: StudentRewards,
    ):
        self.learner = learner
        self._engine = engine
        self._template = template
        self._sandbox = sandbox
        self._lesson = lesson
        self._rewards = rewards
        self._tasks = tasks
        self._prompts = {t.id: self._prompt(t) for t in (*tasks.practice, *tasks.held_out)}
        self._grades: dict[tuple[str, str], float] = {}
        self._seed, self._step = 0, 0

    @property
    def tokenizer(self) -> Any:
        """The base model's."""
        return self._engine.tokenizer

    def start(self, adapters: Sequence[Adapter], seed: int) -> None:
        """Put the adapters in the first places of the stack, with fresh optimiser state."""
        places = self.learner.members
        if len(adapters) > len(places):
            raise SelfplayError(f"{len(adapters)} adapters for a stack of {len(places)}")
        for member, adapter in zip(places, adapters, strict=False):
            self.learner.replace(member, adapter, member)
        self._seed, self._step = seed, 0

    def step(self, active: Sequence[int]) -> None:
        """One step of practice for each of these places."""
        if not active:
            return
        lesson, practice = self._lesson, self._tasks.practice
        drawn = stream(derive_seed(self._seed, self._step, "lesson"))
        count = min(lesson.tasks, len(practice))
        picked = [practice[int(i)] for i in drawn.choice(len(practice), count, replace=False)]
        luck = [
            (task, derive_seed(self._seed, self._step, task.id, attempt))
            for task in picked
            for attempt in range(lesson.attempts)
        ]
        rows = [(place, task, seed) for place in active for task, seed in luck]
        rollouts, answers, scores = self._attempt(rows, lesson.temperature)
        names = self.learner.members
        rewarded = [
            RewardedSample(
                names[place],
                "solve",
                task.kind,
                student_reward(answer is not None, score, self._rewards),
                task.id,
            )
            for (place, task, _), answer, score in zip(rows, answers, scores, strict=True)
        ]
        advantages = student_advantages(rewarded).values
        self.learner.update(
            [
                TrainingSample(
                    sample.member,
                    rollout.prompt_ids,
                    rollout.completion_ids,
                    rollout.logprobs,
                    advantage,
                    rollout.finish_reason == "length",
                )
                for sample, rollout, advantage in zip(rewarded, rollouts, advantages, strict=True)
            ]
        )
        self._step += 1

    def fitness(self, active: Sequence[int]) -> list[list[float]]:
        """The score of the greedy answer to every held-out task, for each of these places."""
        held_out = self._tasks.held_out
        rows = [(place, task, 0) for place in active for task in held_out]
        _, _, scores = self._attempt(rows, 0.0)
        size = len(held_out)
        return [scores[at : at + size] for at in range(0, len(scores), size)]

    def _attempt(
        self, rows: Sequence[tuple[int, Task, int]], temperature: float
    ) -> tuple[list[Rollout], list[str | None], list[float]]:
        names, length = self.learner.members, self._lesson.max_tokens
        rollouts = self._engine.rollouts(
            [
                TokenRequest(names[place], self._prompts[task.id], length, temperature, seed)
                for place, task, seed in rows
            ]
        )
        answers = [
            self._template.parse_answer(task, self._engine.completion(rollout).text)
            if rollout.finish_reason == "stop"
            else None
            for (_, task, _), rollout in zip(rows, rollouts, strict=True)
        ]
        tasks = [task for _, task, _ in rows]
        self._grade(tasks, answers)
        scores = [
            0.0 if answer is None else self._grades[task.id, answer]
            for task, answer in zip(tasks, answers, strict=True)
        ]
        return rollouts, answers, scores

    def _grade(self, tasks: Sequence[Task], answers: Sequence[str | None]) -> None:
        """Judge each different answer to a task once; a fault of the sandbox is no verdict."""
        new = {
            (task.id, answer): task
            for task, answer in zip(tasks, answers, strict=True)
            if answer is not None and (task.id, answer) not in self._grades
        }
        for _ in range(TRIES):
            pairs = [(task, answer) for (_, answer), task in new.items()]
            for key, grade in zip(list(new), self._sandbox.grade_many(pairs), strict=True):
                if grade.judged:
                    self._grades[key] = grade.score
                    del new[key]
        if new:
            raise SelfplayError(
                f"the sandbox failed {TRIES} times on an answer to {next(iter(new))[0]}; nothing "
                "is lost: see `code-verifier doctor`, then go on with the same command"
            )

    def _prompt(self, task: Task) -> tuple[int, ...]:
        text = self._template.solve_prompt(task)
        return tuple(self._engine.tokenizer.encode(text, add_special_tokens=False))
