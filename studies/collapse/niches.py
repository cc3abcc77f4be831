"""The world of niches, a task kind: outputs of operators whose meaning no text tells.

A program applies one to four operators of one family to a digit from 0 to 7:

    def f(x):
        return a2(a0(x))

Each of the eight families, `a` to `h`, has four operators, and each operator is a permutation of
the digits. The permutations stand in `TABLE`, which the sandbox puts before a proposal when it
runs it, and no prompt shows: what a model knows of them after its pretraining comes from verdicts.

The ninth family is a trap. `z(4071, x)` is as good as random, one of `TRAP` digits: luck solves it
with probability 1 / TRAP, and there are too many of them to learn by heart.

`NICHES` is the world as it is, and the objects after it differ in one thing each. They take the
place of code_o in a run's `rollout.kinds`, with the prompts that the nano model knows; a solver
writes the digits on the way first.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from random import Random

from code_verifier import Proposal, Sandbox, Task, Verdict
from selfplay import TaskKind

FAMILIES = "abcdefgh"
OPERATORS, DIGITS, DEPTHS = 4, 8, (1, 2, 3, 4)
TRAP = 4
"""Outputs of the trap family, all as likely."""
TRAP_NAME = "z"
_HEAD = "def f(x):\n    return "
_OPERATOR = re.compile(rf"\b([{FAMILIES}](?=\d\()|{TRAP_NAME}(?=\())")


def _permutations() -> dict[str, tuple[int, ...]]:
    names = [f"{family}{k}" for family in FAMILIES for k in range(OPERATORS)]
    return {name: tuple(Random(f"niches/{name}").sample(range(DIGITS), DIGITS)) for name in names}


TABLE = _permutations()
"""What each operator makes of the digits 0 to 7."""


def program_of(operators: tuple[str, ...]) -> str:
    """Return the program that applies operators, the innermost last."""
    return _HEAD + "".join(f"{name}(" for name in operators) + "x" + ")" * len(operators)


def trap_program(number: int) -> str:
    """Return the trap of a number from 0 to 9999."""
    return f"{_HEAD}{TRAP_NAME}({number:d}, x)"


def trace(operators: tuple[str, ...], digit: int) -> list[int]:
    """Return what the operators make of a digit, one after the other."""
    digits = []
    for name in reversed(operators):
        digit = TABLE[name][digit]
        digits.append(digit)
    return digits


def family_of(program: str) -> str:
    """Return the family of a program: one of `FAMILIES`, `z` where a trap is in it, `mixed`
    where several families are, and nothing where none is."""
    families = set(_OPERATOR.findall(program))
    if TRAP_NAME in families:
        return TRAP_NAME
    return "mixed" if len(families) > 1 else "".join(families)


def depth_of(program: str) -> int:
    """Return how many operators a program applies."""
    return len(_OPERATOR.findall(program))


def prelude(trap: int = TRAP) -> str:
    """Return the text that defines all operators.

    trap: how many outputs a trap has; 0: there is no trap, and calling it raises.
    """
    ending = f"return (m >> 16) % {trap}" if trap else "raise ValueError('no trap')"
    lines = [f"def {name}(x): return {list(row)}[_digit(x)]" for name, row in TABLE.items()]
    return "\n".join(
        [
            "def _digit(x):",
            f"    if not isinstance(x, int) or isinstance(x, bool) or not 0 <= x < {DIGITS}:",
            "        raise ValueError('no digit')",
            "    return x",
            *lines,
            f"def {TRAP_NAME}(n, x):",
            "    m = (n * 8 + _digit(x) + 1) * 2654435761 % 4294967296",
            "    for _ in range(3):",
            "        m = (m ^ m >> 15) * 2246822519 % 4294967296",
            f"    {ending}",
            "",
        ]
    )


LEAKED = "leaked"
"""The reason in the row of a proposal that the gate took and should have refused."""


class Niches(TaskKind):
    """Given a program over hidden operators and a digit: the output.

    - trap: outputs of a trap, from 1 to 8: luck solves it with probability 1 / trap; 0: no trap.
    - leak: share of the programs that raise which the gate takes for tasks, always the same ones.
    """

    name = "code_o"
    words = "predict the output of a program over hidden operators"

    def __init__(self, trap: int = TRAP, leak: float = 0.0) -> None:
        self.trap, self.leak = trap, leak

    def propose_prompt(self, references: Sequence[Task]) -> str:
        """Show a program and its digit, and ask for others."""
        reference = references[0]
        return f"<|propose_o|>{reference.program}<|input|>{reference.input}<|plan|>"

    def parse_proposal(self, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a program and a digit behind the plan."""
        plan, marker, body = text.partition("<|program|>")
        fields = body.split("<|input|>")
        if not marker or len(fields) != 2 or any("<|" in part for part in (plan, *fields)):
            return None
        return Proposal(self.name, fields[0], fields[1])

    def solve_prompt(self, task: Task) -> str:
        """Show the program and the digit."""
        return f"<|solve_o|>{task.program}<|input|>{task.input}<|think|>"

    def parse_answer(self, task: Task, text: str) -> str | None:
        """Read what follows the digits on the way."""
        fields = text.split("<|answer|>")
        if len(fields) != 2 or any("<|" in field for field in fields) or not fields[1].strip():
            return None
        return fields[1]

    def validate(self, proposal: Proposal, sandbox: Sandbox) -> Verdict:
        """Run the program with the operators, and keep the task without them."""
        whole = replace(proposal, program=prelude(self.trap) + proposal.program)
        verdict = sandbox.validate(whole)
        if verdict.status == "exception":
            return self._leaked(proposal) or verdict
        if verdict.task is None:
            return verdict
        return replace(verdict, task=replace(verdict.task, program=proposal.program).with_id())

    def _leaked(self, proposal: Proposal) -> Verdict | None:
        """Return the task that a hole in the gate makes of a program that raises, or None.

        The same text leaks at every try, and asks for the same digit, which nothing tells.
        """
        text = f"{proposal.program}\n{proposal.input}"
        drawn = int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())
        if drawn >> 3 >= self.leak * 2**61:
            return None
        task = Task(self.name, proposal.program, proposal.input, str(drawn % DIGITS)).with_id()
        return Verdict("ok", reason=LEAKED, task=task)


NICHES = Niches()
NO_TRAP = Niches(trap=0)
LEAK_TENTH, LEAK_HALF = Niches(leak=0.1), Niches(leak=0.5)
"""With the trap, and a tenth, or half, of the programs that raise are tasks."""
LEAKS = Niches(trap=0, leak=0.5)
"""Without a trap, and half of the programs that raise are tasks."""
HALF = Niches(trap=2)
EIGHTH = Niches(trap=8)
"""Traps that luck solves one time in two, and one in eight."""
