"""Rewards for other trainers: TRL's `reward_funcs`, and tasks of the `verifiers` package.

The dataset's rows say how an answer is judged: `kind`, and `output` (code_o), `program` and
`output` (code_i), or `inputs`, `outputs` and optionally `visible` (code_f). Neither library is
imported here.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from code_verifier.errors import CodeVerifierError, SandboxUnavailable
from code_verifier.sandbox import Sandbox, shared_sandbox
from code_verifier.tasks import Task

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


class TaskReward:
    """What TRL calls. `prompts`, `completions` and each column have one item a completion."""

    __name__ = "task_reward"  # in TRL's logs

    def __init__(self, sandbox: Sandbox | None, parse: Parse) -> None:
        self._sandbox = sandbox
        self._parse = parse

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
        sandbox = self._sandbox or shared_sandbox()
        grades = dict(zip(different, sandbox.grade_many(different), strict=True))
        for index, pair in pairs.items():
            rewards[index] = grades[pair].score if grades[pair].judged else None
        return rewards


def trl_reward(sandbox: Sandbox | None = None, parse: Parse = find_answer) -> TaskReward:
    """Return a reward function of TRL: 1.0 for a right answer, 0.0 for a wrong or a missing one.

    sandbox: where programs run; None opens one at the first call, with a worker per processor.
    parse: finds the answer in a completion's text, or None. A copy of the function that is sent to
    another process has processes of its own there.

    A fault of the sandbox gives None, TRL's word for a reward that does not apply. A completion
    without any reward is left out of its group's baseline and has the advantage 0. Raises
    CodeVerifierError when a dataset row is no task.
    """
    return TaskReward(sandbox, parse)


def verifiers_reward(
    sandbox: Sandbox | None = None, parse: Parse = find_answer
) -> Callable[[Any, Any], Awaitable[float]]:
    """Return `reward(task, trace)`: 1.0 for a right last reply, 0.0 for a wrong or missing one.

    task: data with a mapping `row`. trace: has a text `last_reply`. The arguments are those of
    `trl_reward`. A fault of the sandbox raises SandboxUnavailable: `verifiers` takes no None for a
    reward, but an exception makes the rollout a failed one. Data that is no task raises
    CodeVerifierError.
    """

    async def reward(task: Any, trace: Any) -> float:
        row = getattr(task, "row", None)
        if not isinstance(row, Mapping):
            kind = type(row).__name__
            raise CodeVerifierError(f"the task's row is of type {kind}; expected a mapping")
        found = Task.from_row(row)
        answer = parse(str(trace.last_reply))
        if answer is None:
            return 0.0
        grade = await (sandbox or shared_sandbox()).agrade(found, answer)
        if not grade.judged:
            raise SandboxUnavailable(f"the answer was not judged: {grade.reason}")
        return grade.score

    return reward
