"""Reward functions for the `verifiers` package. This module does not import it.

With its API v1 (`import verifiers.v1 as vf`), with the task's row in the task data:

    class CodeData(vf.TaskData):
        row: dict[str, Any]  # {"kind", "program"?, "output"?, "inputs"?, "outputs"?, "visible"?}

    reward = task_reward()

    class CodeTask(vf.Task[CodeData]):
        @vf.reward
        async def right(self, task, trace):
            return await reward(task, trace)

With the `Rubric` of releases before 0.2, with the row in the dataset's column `info`:

    rubric = vf.Rubric(funcs=[rubric_function()])
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from code_verifier.errors import RecordError, SandboxUnavailable
from code_verifier.integrations.completions import completion_text, find_answer
from code_verifier.integrations.judging import Judge, Parse
from code_verifier.sandbox.sandbox import Sandbox
from code_verifier.tasks.task import Task


def task_reward(
    sandbox: Sandbox | None = None, parse: Parse = find_answer, *, partial_credit: bool = False
) -> Callable[[Any, Any], Awaitable[float]]:
    """`reward(task, trace)`: 1.0 for a right last reply, 0.0 for a wrong or a missing answer.

    task: data with a mapping `row`, see the module's text. trace: has a text `last_reply`.
    The arguments are those of the TRL function of the same name. A fault of the sandbox raises
    SandboxUnavailable: `verifiers` takes no None for a reward, but an exception makes the rollout
    a failed one (a TaskError in its trace), whose reward stays None: scoring did not run. Data
    that is no task raises RecordError.
    """
    judge = Judge(sandbox, partial_credit)

    async def reward(task: Any, trace: Any) -> float:
        return await _score(judge, parse, getattr(task, "row", None), str(trace.last_reply))

    reward.__name__ = "task_reward"
    return reward


def rubric_function(
    sandbox: Sandbox | None = None, parse: Parse = find_answer, *, partial_credit: bool = False
) -> Callable[[Any, Any], Awaitable[float]]:
    """`reward(completion, info)` for a `Rubric`; else as `task_reward`.

    A `Rubric` cannot leave a reward out: it turns every exception, a fault of the sandbox too,
    into a reward of 0.0 and a line in its log.
    """
    judge = Judge(sandbox, partial_credit)

    async def task_reward(completion: Any, info: Any) -> float:
        return await _score(judge, parse, info, completion_text(completion))

    return task_reward


async def _score(judge: Judge, parse: Parse, row: Any, text: str) -> float:
    if not isinstance(row, Mapping):
        found = type(row).__name__
        raise RecordError(f"the task's row is of type {found}; expected a mapping with 'kind'")
    task = Task.from_row(row)
    answer = parse(text)
    if answer is None:
        return 0.0
    grade = await judge.sandbox().agrade(task, answer)
    score = judge.score(grade)
    if score is None:
        raise SandboxUnavailable(f"the answer was not judged: {grade.reason}")
    return score
