"""Rewards for other trainers: TRL's `reward_funcs`, and tasks of the `verifiers` package.

    trainer = GRPOTrainer(model, reward_funcs=trl_reward(), train_dataset=dataset)

    reward = verifiers_reward()

    class CodeTask(vf.Task[CodeData]):  # CodeData has a field row: dict[str, Any]
        @vf.reward
        async def right(self, task, trace):
            return await reward(task, trace)

The dataset's rows say how an answer is judged: `kind`, and `output` (code_o), `program` and
`output` (code_i), or `inputs`, `outputs` and optionally `visible` (code_f). Neither library is
imported here.
"""

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from code_verifier.errors import CodeVerifierError, SandboxUnavailable
from code_verifier.sandbox import Sandbox
from code_verifier.tasks import Grade, Task

Parse = Callable[[str], str | None]
_COLUMNS = ("kind", "program", "snippet", "imports", "output", "inputs", "outputs", "visible")
_OPEN, _CLOSE, _TICKS = "<answer>", "</answer>", "```"


def find_answer(text: str) -> str | None:
    """Return the answer in a completion's text, or None.

    It is looked for after the last `</think>`, inside the last `<answer>...</answer>` if there is
    one. There, the last fenced block (three backticks or more) is the answer; without a fence the
    whole content of the answer tag is. Takes time linear in the length of the text.
    """
    text = text.rpartition("</think>")[2]
    end = text.rfind(_CLOSE)
    start = text.rfind(_OPEN, 0, end) if end >= 0 else -1
    tagged = start >= 0
    if tagged:
        text = text[start + len(_OPEN) : end]
    block = _last_fence(text)
    if block is None and tagged:
        block = text
    return (block.strip() or None) if block is not None else None


def _last_fence(text: str) -> str | None:
    """Content of the last closed fence; an open one at the end of the text does not count."""
    found: str | None = None
    ticks, first = 0, 0
    lines = text.splitlines()
    for number, line in enumerate(lines):
        stripped = line.strip()
        width = len(stripped) - len(stripped.lstrip("`"))
        if width < len(_TICKS):
            continue
        if not ticks:
            if "`" not in stripped[width:]:
                ticks, first = width, number + 1
        elif width >= ticks and width == len(stripped):
            found, ticks = "\n".join(lines[first:number]), 0
    return found


def completion_text(completion: Any) -> str:
    """Return the text of a completion: a text itself, or the assistant's last message, whose
    content is a text or a list of parts with `text`. What has no text is the empty text."""
    if isinstance(completion, str):
        return completion
    for message in reversed(completion) if isinstance(completion, Sequence) else ():
        if _field(message, "role") == "assistant":
            content = _field(message, "content")
            if isinstance(content, str):
                return content
            parts = content if isinstance(content, Sequence) else ()
            return "".join(str(_field(part, "text") or "") for part in parts)
    return ""


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


class _Judge:
    """Grades answers in a sandbox: the one given, or one opened at first use in each process. A
    copy sent to another process (pickle) opens a sandbox of its own there."""

    def __init__(self, sandbox: Sandbox | None, partial_credit: bool) -> None:
        self._sandbox = sandbox
        self._partial_credit = partial_credit
        self._lock = threading.Lock()

    def sandbox(self) -> Sandbox:
        with self._lock:
            if self._sandbox is None:
                self._sandbox = Sandbox(workers=os.cpu_count() or 1)
            return self._sandbox

    def score(self, grade: Grade) -> float | None:
        """0.0 to 1.0, or None when the sandbox failed and the answer was not judged."""
        if not grade.judged:
            return None
        if self._partial_credit and grade.total:
            return (grade.passed or 0) / grade.total
        return grade.score

    def __reduce__(self) -> tuple[Any, ...]:
        return _Judge, (None, self._partial_credit)


class TaskReward:
    """What TRL calls. `prompts`, `completions` and each column have one item a completion."""

    def __init__(self, judge: _Judge, parse: Parse, name: str) -> None:
        self._judge = judge
        self._parse = parse
        self.__name__ = name

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        given = {name: columns[name] for name in _COLUMNS if name in columns}
        if "kind" not in given:
            found = ", ".join(columns) or "no columns"
            raise CodeVerifierError(f"the dataset has no column 'kind'; found {found}")
        pairs: dict[int, tuple[Task, str]] = {}
        for index, completion in enumerate(completions):
            row = {name: column[index] for name, column in given.items()}
            arrays = {name: item.tolist() for name, item in row.items() if hasattr(item, "tolist")}
            task = Task.from_row(row | arrays)
            answer = self._parse(completion_text(completion))
            if answer is not None:
                pairs[index] = (task, answer)
        rewards: list[float | None] = [0.0] * len(completions)
        different = list(dict.fromkeys(pairs.values()))  # equal ones are judged once
        grades = self._judge.sandbox().grade_many(different) if different else ()
        scores = dict(zip(different, map(self._judge.score, grades), strict=True))
        for index, pair in pairs.items():
            rewards[index] = scores[pair]
        return rewards


def trl_reward(
    sandbox: Sandbox | None = None,
    parse: Parse = find_answer,
    *,
    partial_credit: bool = False,
    name: str = "task_reward",
) -> TaskReward:
    """Return a reward function of TRL: 1.0 for a right answer, 0.0 for a wrong or a missing one.

    sandbox: where programs run; None opens one at the first call, with a worker per processor.
    parse: finds the answer in a completion's text, or None. partial_credit: a code_f answer
    earns the share of hidden examples it passes. name: what TRL calls the reward in its logs.

    A fault of the sandbox gives None, TRL's word for a reward that does not apply. A completion
    without any reward is left out of its group's baseline and has the advantage 0. Raises
    CodeVerifierError when a dataset row is no task.
    """
    return TaskReward(_Judge(sandbox, partial_credit), parse, name)


def verifiers_reward(
    sandbox: Sandbox | None = None, parse: Parse = find_answer, *, partial_credit: bool = False
) -> Callable[[Any, Any], Awaitable[float]]:
    """Return `reward(task, trace)`: 1.0 for a right last reply, 0.0 for a wrong or missing one.

    task: data with a mapping `row`. trace: has a text `last_reply`. The arguments are those of
    `trl_reward`. A fault of the sandbox raises SandboxUnavailable: `verifiers` takes no None for a
    reward, but an exception makes the rollout a failed one. Data that is no task raises
    CodeVerifierError.
    """
    judge = _Judge(sandbox, partial_credit)

    async def reward(task: Any, trace: Any) -> float:
        row = getattr(task, "row", None)
        if not isinstance(row, Mapping):
            kind = type(row).__name__
            raise CodeVerifierError(f"the task's row is of type {kind}; expected a mapping")
        found = Task.from_row(row)
        answer = parse(str(trace.last_reply))
        if answer is None:
            return 0.0
        grade = await judge.sandbox().agrade(found, answer)
        score = judge.score(grade)
        if score is None:
            raise SandboxUnavailable(f"the answer was not judged: {grade.reason}")
        return score

    return reward
