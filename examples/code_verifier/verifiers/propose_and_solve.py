"""Proposer and solver on tasks that the sandbox accepts: an environment of `verifiers`.

    vf-eval code_tasks --env.id propose_and_solve --env.attempts 4 \\
        --env.proposer.runtime.type subprocess --env.solver.runtime.type subprocess \\
        --model MODEL --client.base-url URL --no-push

As in PopuLoRA, a proposal earns -1 when it is refused, 0 when no attempt solves it, and otherwise 1
less the share of attempts that solve it. Each row of the taskset begins an episode, and its program
is shown as an example. Both seats are trained; with `--env.proposer.model` they are two models.
"""

import asyncio
import re

import verifiers.v1 as vf
from code_tasks import CodeData, CodeTask

from code_verifier import Proposal, Sandbox

__all__ = ["ProposeAndSolve"]
SANDBOX = Sandbox()
PROPOSE = """Write a deterministic Python function `f` and an input for it, so that it is hard but
possible to say what `f` returns. Put the function into a ```python block and the arguments, as
between the parentheses of the call, into an ```input block. Another's task, as an example:

{example}"""
SOLVE = """What does `f({input})` return?

```python
{program}
```

Answer with a Python literal in <answer>...</answer>."""


class ProposeAndSolveConfig(vf.EnvConfig):
    """attempts: how often the solver answers a task."""

    proposer: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})
    solver: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})
    attempts: int = 4


def read_proposal(text: str) -> Proposal:
    """Return what a reply proposes; an incomplete one is refused by the sandbox."""
    blocks = dict(re.findall(r"```(python|input)\n(.*?)\n?```", text, re.DOTALL))
    return Proposal("code_o", blocks.get("python", ""), blocks.get("input"))


class ProposeAndSolve(vf.Env[ProposeAndSolveConfig]):
    """One proposal, and attempts at it if it is accepted."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        prompt = PROPOSE.format(example=task.data.prompt_text)
        proposed = await agents.proposer.run(vf.Task(vf.TaskData(prompt=prompt)))
        verdict = await asyncio.to_thread(SANDBOX.validate, read_proposal(proposed.last_reply))
        if verdict.task is None:
            return
        row = verdict.task.to_row()
        for _ in range(self.config.attempts):
            await agents.solver.run(CodeTask(CodeData(prompt=SOLVE.format(**row), row=row)))

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        rewards = [trace.reward for trace in episode.traces if trace.agent.name == "solver"]
        rate = sum(rewards) / len(rewards) if rewards else 0.0
        earned = (1.0 - rate if rate else 0.0) if rewards else -1.0
        for trace in episode.traces:
            if trace.agent.name == "proposer":
                trace.record_reward("proposal", earned)
