"""A reward function for TRL's GRPOTrainer (and its RLOOTrainer, which calls it alike).

    trainer = GRPOTrainer(model, reward_funcs=task_reward(), train_dataset=dataset, ...)

The dataset has a column `prompt` for TRL and, for the reward, the columns of an answer row of
`code-verifier grade` without `answer`: `kind`, and `output` (code_o), `program` and `output`
(code_i), or `inputs`, `outputs` and optionally `visible` (code_f). A column may hold None where
a row's kind does not need it. This module does not import TRL.
"""

from collections.abc import Sequence
from typing import Any

from code_verifier.errors import RecordError
from code_verifier.integrations.completions import completion_text, find_answer
from code_verifier.integrations.judging import Judge, Parse
from code_verifier.sandbox.sandbox import Sandbox
from code_verifier.tasks.task import Task

COLUMNS = ("kind", "program", "snippet", "imports", "output", "inputs", "outputs", "visible")


class TaskReward:
    """What TRL calls. `prompts`, `completions` and each column have one item a completion."""

    def __init__(self, judge: Judge, parse: Parse, name: str) -> None:
        self._judge = judge
        self._parse = parse
        self.__name__ = name

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        given = {name: columns[name] for name in COLUMNS if name in columns}
        if "kind" not in given:
            raise RecordError(
                f"the dataset has no column 'kind'; found {', '.join(columns) or 'no columns'}"
            )
        pairs: dict[int, tuple[Task, str]] = {}
        for index, completion in enumerate(completions):
            row = {name: column[index] for name, column in given.items()}
            arrays = {name: item.tolist() for name, item in row.items() if hasattr(item, "tolist")}
            task = Task.from_row(row | arrays)
            answer = self._parse(completion_text(completion))
            if answer is not None:
                pairs[index] = (task, answer)
        rewards: list[float | None] = [0.0] * len(completions)
        for index, score in zip(pairs, self._judge.scores(list(pairs.values())), strict=True):
            rewards[index] = score
        return rewards


def task_reward(
    sandbox: Sandbox | None = None,
    parse: Parse = find_answer,
    *,
    partial_credit: bool = False,
    name: str = "task_reward",
) -> TaskReward:
    """A reward function: 1.0 for a right answer, 0.0 for a wrong or a missing one.

    sandbox: where programs run; None opens one at the first call, with a worker per processor.
    parse: finds the answer in a completion's text, or None. partial_credit: a code_f answer
    earns the share of hidden examples it passes. name: what TRL calls the reward in its logs.

    A fault of the sandbox gives None, TRL's word for a reward that does not apply. A completion
    without any reward is left out of its group's baseline and has the advantage 0 (release 1.16;
    older ones counted it as 0). A batch is judged in parallel, equal answers to equal tasks once.
    Raises RecordError when a dataset row is no task: a mistake in the data, not in an answer.
    """
    return TaskReward(Judge(sandbox, partial_credit), parse, name)
