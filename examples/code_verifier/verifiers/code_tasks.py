"""A taskset of the `verifiers` package (0.4 or newer), rewarded by the sandbox.

Needs code_verifier with its extra `verifiers` (docs/install.md), and this folder on PYTHONPATH:

    vf-eval code_tasks --env.taskset.rows tasks.jsonl --env.agent.harness.id null \\
        --env.agent.runtime.type subprocess --model MODEL --client.base-url URL --no-push

A row has a `prompt`, and a task of code_verifier or tests of a whole program, by which its answer
is judged. The three rows of `tasks.jsonl` show the forms.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from code_verifier import read_rows, verifiers_reward

__all__ = ["CodeTasks"]
REWARD = verifiers_reward()


class CodeData(vf.TaskData):
    """row: what `verifiers_reward` judges by."""

    row: dict[str, Any]


class CodeTask(vf.Task[CodeData]):
    """One question and its reward."""

    @vf.reward
    async def right(self, task: CodeData, trace: vf.Trace) -> float:
        return await REWARD(task, trace)


class CodeTasksConfig(vf.TasksetConfig):
    """rows: a file of JSON Lines."""

    rows: Path = Path(__file__).with_name("tasks.jsonl")


class CodeTasks(vf.Taskset[CodeTask, CodeTasksConfig]):
    """The rows of a file."""

    def load(self) -> Iterator[CodeTask]:
        for _, row in read_rows(self.config.rows):
            yield CodeTask(CodeData(prompt=row["prompt"], row=row), self.config.task)
