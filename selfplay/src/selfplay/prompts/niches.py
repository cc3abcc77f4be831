"""The task kind of the world of niches: outputs of operators whose meaning no text tells.

A program applies one to four operators of one family to a digit from 0 to 7:

    def f(x):
        return a2(a0(x))

Each of the eight families, `a` to `h`, has four operators, and each operator is a permutation of
the digits. The permutations stand in `TABLE`, which the sandbox puts before a proposal when it
runs it, and no prompt shows: what a model knows of them after its pretraining comes from verdicts.

The ninth family is a trap. `z(4071, x)` is as good as random, one of `TRAP` digits: luck solves it
with probability 1 / TRAP, and there are too many of them to learn by heart. `world.trap` is that
probability, and `world.leak` is how often the gate takes what it should refuse.

Prompts are those of code_o of the nano template; a solver writes the digits on the way first.
"""

import re
from dataclasses import dataclass, replace
from hashlib import blake2b
from random import Random

from code_verifier import Proposal, Sandbox, Task, Verdict
from selfplay.prompts import nano
from selfplay.prompts.task_kind import TaskKind

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
    found = []
    for name in reversed(operators):
        digit = TABLE[name][digit]
        found.append(digit)
    return found


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
            f"    if type(x) is not int or not 0 <= x < {DIGITS}:",
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


@dataclass(frozen=True)
class _Hidden(nano.Output):
    """Given a program over hidden operators and a digit: the output."""

    trap: int = TRAP
    leak: float = 0.0
    seed: int = 0

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
        text = f"{self.seed}\n{proposal.program}\n{proposal.input}"
        drawn = int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())
        if drawn >> 3 >= self.leak * 2**61:
            return None
        task = Task("code_o", proposal.program, proposal.input, str(drawn % DIGITS)).with_id()
        return Verdict("ok", reason=LEAKED, task=task)


def kinds(trap: float = 1 / TRAP, leak: float = 0.0, seed: int = 0) -> tuple[TaskKind, ...]:
    """Return the kinds of a world.

    trap: probability with which luck solves a trap, 0 or 1 / n; leak: share of the programs that
    raise which the gate takes; seed: of the run, which says which ones.
    """
    return (_Hidden(round(1 / trap) if trap else 0, leak, seed),)


KINDS = kinds()
