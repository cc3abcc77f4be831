"""A task of the `verifiers` package (0.4 or newer), rewarded by the sandbox.

Needs `pip install populab-code-verifier[verifiers]`. No model is called: the replies below stand
for one. In a taskset of your own, `CodeTask` is the part to keep.
"""

import asyncio
from typing import Any

import verifiers.v1 as vf

from code_verifier import verifiers_reward

REWARD = verifiers_reward()


class CodeData(vf.TaskData):
    row: dict[str, Any]
    """A row of `code-verifier grade` without its answer."""


class CodeTask(vf.Task[CodeData]):
    @vf.reward
    async def right(self, task: CodeData, trace: vf.Trace) -> float:
        return await REWARD(task, trace)


async def score(row: dict[str, Any], reply: str) -> float:
    task = CodeTask(CodeData(prompt="What input makes f return 9?", row=row))
    trace: vf.Trace = vf.Trace(
        task=vf.TraceTask(type="CodeTask", data=task.data),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        root_reply=reply,
    )
    await task.score(trace)
    return trace.reward


async def main() -> None:
    row = {"kind": "code_i", "program": "def f(x):\n    return x * x", "output": "9"}
    for reply in ("<answer>-3</answer>", "It is\n```input\n4\n```", "I cannot tell."):
        print(f"{await score(row, reply)}  {reply!r}")


if __name__ == "__main__":
    asyncio.run(main())
