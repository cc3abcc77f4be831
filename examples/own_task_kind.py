"""A task kind of one's own, `code_e`: which exception does this call raise, if any?

    python examples/own_task_kind.py --out RUN [--steps 5] [--workers 2]

The teacher writes a program and an input, the student says how the call ends. The prompts have the
built-in model's format of code_o; for a large model, write sentences, which its template puts into
a conversation. In the folder of this file, the command line takes the kind as
`selfplay train --set rollout.kinds=[code_o,own_task_kind:CODE_E]`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from code_verifier import Grade, Proposal, Sandbox, Task, Verdict
from selfplay import Config, Extensions, TaskKind, load_preset, read_run, train

ENDS = ("none", "IndexError", "TypeError", "ValueError", "ZeroDivisionError", "NameError")


class RaisedException(TaskKind):
    """The answer is an index of `ENDS`, since the built-in model writes digits best."""

    name = "code_e"
    words = "say which exception the call raises, if any"
    shows = ("code_o", "code_i", "code_e")

    def propose_prompt(self, references: Sequence[Task]) -> str:
        """Show a program and its input, and ask for others."""
        reference = references[0]
        return f"<|propose_o|>{reference.program}<|input|>{reference.input}<|plan|>"

    def parse_proposal(self, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a program and an input behind the plan."""
        _, _, body = text.partition("<|program|>")
        program, mark, arguments = body.partition("<|input|>")
        return Proposal(self.name, program, arguments) if mark else None

    def solve_prompt(self, task: Task) -> str:
        """Show the call, and in words what is asked."""
        legend = ", ".join(f"{number} {name}" for number, name in enumerate(ENDS))
        return f"<|solve_o|># {legend}?\n{task.program}<|input|>{task.input}<|think|>"

    def parse_answer(self, task: Task, text: str) -> str | None:
        """Read what follows the thought."""
        _, _, answer = text.partition("<|answer|>")
        return answer.strip() or None

    def validate(self, proposal: Proposal, sandbox: Sandbox) -> Verdict:
        """Accept a call that ends the same way twice, with one of `ENDS`."""
        verdicts = [sandbox.check(proposal.program, proposal.input or "") for _ in range(2)]
        if verdicts[0].status not in ("ok", "exception"):
            return verdicts[0]
        end, again = ("none" if v.status == "ok" else v.reason.partition(":")[0] for v in verdicts)
        if end != again or end not in ENDS:
            return Verdict("exception", reason=f"it ends in {end}, and again in {again}")
        answer = str(ENDS.index(end))
        task = Task(self.name, proposal.program, proposal.input, answer).with_id()
        return Verdict("ok", task=task)

    def grade(self, task: Task, answer: str, sandbox: Sandbox) -> Grade:
        """Compare; nothing has to run."""
        return Grade(1.0, "right") if answer == task.output else Grade(0.0, "it ends otherwise")


CODE_E = RaisedException()


def settings(steps: int) -> Config:
    """Return the built-in preset, smaller, with code_o and the new kind."""
    return load_preset(
        "nano",
        *(f"steps={steps}", "rollout.kinds=[code_o]", "rollout.proposals=6"),
        *("rollout.num_generations=4", "eval.tasks=12", "eval.proposals=4"),
    )


def main() -> None:
    """Train, and print what became of the kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    extensions = Extensions(task_kinds=[CODE_E])
    train(settings(args.steps), args.out, extensions=extensions, workers=args.workers)
    for step in read_run(args.out).steps:
        row = step.kinds[CODE_E.name]
        solved = "unknown" if row.solve_rate is None else f"{row.solve_rate:.0%}"
        print(
            f"step {step.step}: {row.valid_share:.0%} of proposals are tasks, solve rate {solved}"
        )


if __name__ == "__main__":
    main()
