"""A taskset of `verifiers` (0.4 or newer): what does one call of a function return?

    selfplay train --preset nano --set rollout.tasks=verifiers:one_call --out runs/one-call

in the folder of this file, or with it on PYTHONPATH. Chat models are asked in words:
`--set 'rollout.taskset.question="What does this return? Reply with the number alone."'`.
"""

import random
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["OneCall"]


class CallData(vf.TaskData):
    """answer: what the call returns."""

    answer: int


class CallTask(vf.Task[CallData]):
    """One call, and what its answer is worth."""

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))

    @vf.reward(weight=0.25)
    async def number(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.removeprefix("-").isdecimal())


class OneCallConfig(vf.TasksetConfig):
    """count: tasks, of 300 different ones. question: in front of the program."""

    count: int = 300
    question: str = ""


class OneCall(vf.Taskset[CallTask, OneCallConfig]):
    """Sums, differences and products of two digits, in an order that never changes."""

    MAX_REWARD = 1.25

    def load(self) -> Iterator[CallTask]:
        calls = [(a, sign, b) for a in range(10) for sign in "+-*" for b in range(10)]
        random.Random(0).shuffle(calls)
        for a, sign, b in calls[: self.config.count]:
            program = f"def f(a):\n    return a {sign} {b}\n\nf({a})"
            question = f"{self.config.question}\n\n{program}".strip()
            answer = {"+": a + b, "-": a - b, "*": a * b}[sign]
            yield CallTask(CallData(prompt=question, answer=answer), self.config.task)
